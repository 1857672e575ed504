"""TimedProtocol: uvicorn's HTTP protocol, with limits on headers, and quick refusals under load."""

import asyncio
import re
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse
from uvicorn.protocols.http import auto

from mahala_search.serve.http.middleware import HEADERS, HEALTHY, TURN, Load, problem

_Protocol: Any = auto.AutoHTTPProtocol  # by httptools or h11

# Seconds from the first byte of a request to the end of its headers, and bytes of them, at most.
HEADER_SECONDS, HEADER_BYTES = 10.0, 65_536

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+) *\r\n", re.IGNORECASE)
_OTHERWISE = re.compile(rb"\r\n(connection|expect|transfer-encoding):", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close *\r\n", re.IGNORECASE)


def _whole(answer: JSONResponse) -> bytes:
    """Return the bytes of an answer."""
    status = f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}\r\n"
    lines = [b"%b: %b\r\n" % header for header in (*answer.raw_headers, *HEADERS.items())]
    return b"".join([status.encode(), *lines, b"\r\n", answer.body])


REFUSAL = _whole(problem(503, "too many requests wait already: try again later", {"Retry-After": "1"}))
HEALTH = _whole(JSONResponse(HEALTHY))


class TimedProtocol(_Protocol):  # type: ignore[misc]
    """Closes a connection whose next request does not have its headers in time, or has too many of them.

    Uvicorn itself closes connections that are idle after an answer only. A connection on which nothing was sent yet may
    be idle for as long. The time-out of bodies is in `middleware.BoundedRequests`.

    If too many requests wait already, a POST that is here as a whole is refused before it is parsed. If more than a few
    do, /health is answered before it is parsed. In a flood, to parse all of them would delay that.
    """

    _timer: asyncio.TimerHandle | None = None
    _n_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._set_timer(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._set_timer(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, and wait for the rest of its headers."""
        former = self.cycle
        is_first = self._n_bytes == 0 and (former is None or (former.response_complete and not former.more_body))
        load: Load | None = getattr(getattr(self.config.app, "state", None), "load", None)
        if load is not None and is_first and load.is_full(len(self.tasks)) and is_whole_post(data):
            load.count_refused()
            self.transport.write(REFUSAL)
            return
        if is_first and len(self.tasks) > TURN and is_whole_health(data):
            self.transport.write(HEALTH)
            if _CLOSE.search(data):
                self.transport.close()
            return
        super().data_received(data)
        cycle = self.cycle
        if cycle is not former or (cycle is not None and not cycle.response_complete):
            self._n_bytes = 0
            self._set_timer(None)  # the headers are here
            return
        if self._n_bytes == 0:
            self._set_timer(HEADER_SECONDS)
        self._n_bytes += len(data)
        # What comes after an early answer is the rest of a body, which the client sends before it reads the answer.
        is_body = cycle is not None and cycle.more_body
        if self._n_bytes > HEADER_BYTES and not is_body:
            self.transport.close()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.close)


def is_whole_health(data: bytes) -> bool:
    """Return whether data is one request of /health."""
    return data.startswith(b"GET /health HTTP/1.1\r\n") and data.endswith(b"\r\n\r\n") and data.count(b"\r\n\r\n") == 1


def is_whole_post(data: bytes) -> bool:
    """Return whether data is one POST request with its whole body, to which any answer may keep the connection."""
    head, end, body = data.partition(b"\r\n\r\n")
    head += b"\r\n"
    if not data.startswith(b"POST ") or not end or _OTHERWISE.search(head):
        return False
    lengths = _LENGTH.findall(head)
    return lengths == [b"%d" % len(body)]
