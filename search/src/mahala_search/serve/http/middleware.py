"""What surrounds every request: limits on bodies and load, security headers, a log, errors by RFC 9457."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match

import mahala
from mahala_search.serve.http.metrics import Metrics
from mahala_search.serve.http.schemas import TAGS
from mahala_search.serve.store.database import Conflict, Unavailable, Unknown

log = logging.getLogger("mahala_search")
requests_log = logging.getLogger("mahala_search.serve.requests")

# Nothing is loaded, nothing is framed, no form is sent elsewhere; the page has a policy of its own.
_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
    b"content-security-policy": _POLICY,
}
# A body must come within so many seconds, and one more for each so many bytes of it; bytes of all bodies in memory.
BODY_SECONDS, BODY_RATE, BODY_BYTES = 20.0, 16_384, 256 * 2**20
# Requests whose answers begin in one turn of the event loop: sockets are looked at between two turns. If many wait, one
# begins in a turn: those that come are then refused, and /health is answered, within milliseconds.
TURN = 8
# Answered to everyone at any load, before others: they use neither the database nor a thread.
ALWAYS = ("/health", "/ready")
HEALTHY = {"status": "ok", "version": mahala.__version__}


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> JSONResponse:
    """Return an answer that says what is wrong."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")


def handle_errors(app: FastAPI) -> None:
    """Let an app answer every error by problem details."""

    async def of_http(request: Request, error: Any) -> JSONResponse:
        headers = dict(error.headers or {})
        if error.status_code == 405:  # Starlette names the methods of one route of several
            headers["Allow"] = ", ".join(_methods(request))
        return problem(error.status_code, str(error.detail), headers)

    async def of_body(request: Request, error: Any) -> JSONResponse:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if any(one["loc"][0] == "body" for one in error.errors()) and not kind.endswith(("/json", "+json")):
            return problem(415, f"the body must have the Content-Type application/json, got {kind[:80] or 'none'}")
        # Without the input itself, which may be large, secret, or no JSON.
        errors = [{"at": _place(one["loc"]), "problem": _words(one["msg"])} for one in error.errors()[:10]]
        where = "; ".join(f"{one['at']}: {one['problem']}" for one in errors[:3])
        return problem(422, where[:500], errors=errors)

    def answered(status: int, headers: Mapping[str, str] | None = None) -> Any:
        async def answer(request: Request, error: Exception) -> JSONResponse:
            return problem(status, str(error.args[0] if error.args else error), headers)

        return answer

    async def failed(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__, exc_info=error)
        return problem(500, "the service failed; its log says why")

    handlers: dict[type[Exception], Any] = {
        StarletteHTTPException: of_http,
        RequestValidationError: of_body,
        Conflict: answered(409),
        ValueError: answered(422),
        Unknown: answered(404),
        Unavailable: answered(503, {"Retry-After": "1"}),
        Exception: failed,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _methods(request: Request) -> list[str]:
    """Return the methods of the routes with the path of a request."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    methods = {method for route in routes if route.path == routes[0].path for method in route.methods}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


def _place(loc: Sequence[str | int]) -> str:
    """Return where in a request something is wrong; whether a body is one object or a list is no part of it."""
    return ".".join(str(part) for at, part in enumerate(loc) if at != 1 or loc[0] != "body" or part not in TAGS)


def _words(message: str) -> str:
    return message.removeprefix("Value error, ").replace("dictionary or object to extract fields from", "object")


class Refused(Exception):
    """The answer to a request that does not reach the app; None if there is no one to answer."""

    def __init__(self, answer: JSONResponse | None) -> None:
        self.answer = answer


class Load:
    """Requests that are being answered, `at_once` at most, and those whose bodies are being read."""

    def __init__(self, at_once: int, count_refused: Callable[[], object]) -> None:
        self.at_once, self.count_refused = at_once, count_refused
        self.n_answered = self.n_reading = 0

    def is_full(self, n_begun: int) -> bool:
        """Return whether more are refused: as many as may be answered at once have begun."""
        return n_begun - self.n_reading >= self.at_once

    def turn(self, n_waiting: int) -> int:
        """Return how many answers begin in a turn of the event loop."""
        return 1 if n_waiting >= self.at_once // 4 else TURN


class BoundedRequests:
    """An ASGI app around another one that bounds load and bodies, adds headers to all answers, and counts requests.

    The body is read before the app is called: the slots for requests that are answered at the same time are not held
    by clients that send slowly. HEAD is answered as GET. Requests are logged without bodies, queries or headers.
    """

    def __init__(self, app: Any, metrics: Metrics, largest: int, load: Load) -> None:
        self.app, self.metrics, self.largest, self.load = app, metrics, largest, load
        self._n_bytes = 0  # of bodies in memory
        self._n_begun = 0  # in this turn of the event loop
        self._later: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"
        if is_head:  # as GET, without the body
            scope = scope | {"method": "GET"}
        started, status = time.perf_counter(), 499  # as others call it if the client has gone

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in HEADERS.items() if name not in names]
                message = message | {"headers": [*message["headers"], *added]}
            elif is_head and message["type"] == "http.response.body":
                message = message | {"body": b""}
            await send(message)

        try:
            await self._answer(scope, receive, sent)
        except Refused as refused:
            if refused.answer is not None:
                await refused.answer(scope, receive, sent)
        except Exception:
            status = 500
            raise
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "none")  # not the path, which anyone may invent
            method = scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE") else "other"
            self.metrics.requests.labels(method, route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            requests_log.info("%s %s %d %.1f ms", method, route, status, 1e3 * seconds)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in ALWAYS:
            await self.app(scope, receive, send)
            return
        body = bytearray()
        try:
            self.load.n_reading += 1
            try:
                await self._read(scope, receive, body)
            finally:
                self.load.n_reading -= 1
            await self._turn()
            if self.load.n_answered >= self.load.at_once:
                raise _overloaded(f"{self.load.at_once} requests are being answered already")
            first: dict[str, Any] | None = {"type": "http.request", "body": bytes(body), "more_body": False}

            async def received() -> Any:
                nonlocal first
                message, first = first, None
                return message or await receive()  # which waits until the client has gone

            self.load.n_answered += 1
            try:
                await self.app(scope, received, send)
            finally:
                self.load.n_answered -= 1
        finally:
            self._n_bytes -= len(body)

    async def _turn(self) -> None:
        """Wait for a turn of the event loop in which few others begin: together they would take it for long."""
        loop = asyncio.get_running_loop()
        if self._n_begun == 0:
            loop.call_soon(self._next_turn, loop)
        self._n_begun += 1
        if self._n_begun > self.load.turn(len(self._later)):
            self._later.append(loop.create_future())
            await self._later[-1]

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._n_begun = min(self.load.turn(len(self._later)), len(self._later))
        for _ in range(self._n_begun):
            if not (future := self._later.popleft()).done():  # cancelled
                future.set_result(None)
        if self._n_begun:
            loop.call_soon(self._next_turn, loop)

    async def _read(self, scope: Any, receive: Any, body: bytearray) -> None:
        """Read the whole body; raise Refused if it is too large or too slow, if it ends early or there is no memory."""
        stated = dict(scope["headers"]).get(b"content-length", b"0").decode("latin-1")
        until, complete = asyncio.get_running_loop().time() + BODY_SECONDS, False
        if not stated.isdecimal() or int(stated) > self.largest:
            raise self._too_large()
        while not complete:
            if self._n_bytes > BODY_BYTES:
                raise _overloaded("the bodies of other requests take all memory")
            try:
                async with asyncio.timeout_at(until + len(body) / BODY_RATE):
                    message = await receive()
            except TimeoutError:
                detail = f"a body must come within {BODY_SECONDS:g} s and one more for each {BODY_RATE:,} bytes"
                raise Refused(problem(408, detail, {"Connection": "close"})) from None
            if message["type"] == "http.disconnect":
                gone = "%s %.80r: the client has gone after %d bytes of the body"
                log.warning(gone, scope["method"], scope["path"], len(body))
                raise Refused(None)
            part = message.get("body", b"")
            body += part
            self._n_bytes += len(part)
            if len(body) > self.largest:
                raise self._too_large()
            complete = not message.get("more_body", False)

    def _too_large(self) -> Refused:
        return Refused(problem(413, f"a body may have {self.largest:,} bytes at most"))


def _overloaded(detail: str) -> Refused:
    return Refused(problem(503, f"{detail}: try again later", {"Retry-After": "1"}))
