"""What surrounds every request: limits on bodies and load, security headers, and a log."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from starlette.responses import JSONResponse

from mahala_search.sidecar.http.problems import problem

log = logging.getLogger("mahala_search")
requests_log = logging.getLogger("mahala_search.sidecar.requests")

# Nothing is loaded, nothing is framed, no form is sent elsewhere; the page has a policy of its own.
_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
    b"content-security-policy": _POLICY,
}
# Bytes of all bodies in memory.
BODY_BYTES = 256 * 2**20
# Answered at any load: they use neither the database nor a thread.
ALWAYS = ("/health", "/ready")
# A router would take "films" and a line break for "films".
_CONTROLS = re.compile("[\x00-\x1f\x7f]")


class Refused(Exception):
    """The answer to a request that does not reach the app; None if there is no one to answer."""

    def __init__(self, answer: JSONResponse | None) -> None:
        self.answer = answer


class BoundedRequests:
    """An ASGI app around another one that bounds load and bodies, adds headers to all answers, and logs requests.

    The body is read before the app is called: clients that send slowly do not count among the `at_once` requests that
    are answered. Requests are logged without bodies, queries or headers.
    """

    def __init__(self, app: Any, largest: int, at_once: int) -> None:
        self.app, self.largest, self.at_once = app, largest, at_once
        self._n_answered = 0
        self._n_bytes = 0  # of bodies in memory

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 499  # as others call it if the client has gone

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in HEADERS.items() if name not in names]
                message = message | {"headers": [*message["headers"], *added]}
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
            path = scope.get("endpoint_path", "none")  # not that of the request, which anyone may invent
            requests_log.info("%.9r %s %d %.1f ms", scope["method"], path, status, 1e3 * seconds)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in ALWAYS:
            await self.app(scope, receive, send)
            return
        if _CONTROLS.search(scope["path"]):
            raise Refused(problem(404, "a path has no control characters"))
        body = bytearray()
        try:
            await self._read(scope, receive, body)
            if self._n_answered >= self.at_once:
                raise _overloaded(f"{self.at_once} requests are being answered already")
            first: dict[str, Any] | None = {"type": "http.request", "body": bytes(body), "more_body": False}

            async def received() -> Any:
                nonlocal first
                message, first = first, None
                return message or await receive()  # which waits until the client has gone

            self._n_answered += 1
            try:
                await self.app(scope, received, send)
            finally:
                self._n_answered -= 1
        finally:
            self._n_bytes -= len(body)

    async def _read(self, scope: Any, receive: Any, body: bytearray) -> None:
        """Read the whole body; raise Refused if it is too large, if it ends early or there is no memory."""
        stated = dict(scope["headers"]).get(b"content-length", b"0").decode("latin-1")
        complete = False
        if not stated.isdecimal() or int(stated) > self.largest:
            raise self._too_large()
        while not complete:
            if self._n_bytes > BODY_BYTES:
                raise _overloaded("the bodies of other requests take all memory")
            message = await receive()
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
