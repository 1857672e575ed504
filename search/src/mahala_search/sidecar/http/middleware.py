"""What surrounds every request: limits on bodies and load, security headers, and a log."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
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
# Answered at any load: they use neither the database nor a thread.
ALWAYS = ("/health", "/ready")
# A router would take "films" and a line break for "films".
_CONTROLS = re.compile("[\x00-\x1f\x7f]")


class BoundedRequests:
    """An ASGI app around another one that bounds load and bodies, adds headers to all answers, and logs requests.

    Requests are logged without bodies, queries or headers.
    """

    def __init__(self, app: Any, largest: int, at_once: int) -> None:
        self.app, self.largest, self.at_once = app, largest, at_once
        self._too_large = f"a body may have {largest:,} bytes at most"
        self._n_answered = 0

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
            await (self._refusal(scope) or self._answer)(scope, receive, sent)
        except ClientDisconnect:
            log.warning("%s %.80r: the client has gone before the end of the body", scope["method"], scope["path"])
        except Exception:
            status = 500
            raise
        finally:
            seconds = time.perf_counter() - started
            path = scope.get("endpoint_path", "none")  # not that of the request, which anyone may invent
            requests_log.info("%.9r %s %d %.1f ms", scope["method"], path, status, 1e3 * seconds)

    def _refusal(self, scope: Any) -> JSONResponse | None:
        """Return the answer to a request that does not reach the app."""
        stated = dict(scope["headers"]).get(b"content-length", b"0").decode("latin-1")
        if _CONTROLS.search(scope["path"]):
            return problem(404, "a path has no control characters")
        if not stated.isdecimal() or int(stated) > self.largest:
            return problem(413, self._too_large)
        if self._n_answered >= self.at_once and scope["path"] not in ALWAYS:
            detail = f"{self.at_once} requests are being answered already: try again later"
            return problem(503, detail, {"Retry-After": "1"})
        return None

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        n = 0

        async def received() -> Any:
            nonlocal n
            message = await receive()
            n += len(message.get("body", b""))
            if n > self.largest:  # which was not stated
                raise HTTPException(413, self._too_large)
            return message

        self._n_answered += 1
        try:
            await self.app(scope, received, send)
        finally:
            self._n_answered -= 1
