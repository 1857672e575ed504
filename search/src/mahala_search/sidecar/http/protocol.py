"""TimedProtocol: uvicorn's HTTP protocol, with limits on headers."""

import asyncio
from typing import Any

from uvicorn.protocols.http import auto

_Protocol: Any = auto.AutoHTTPProtocol  # by httptools or h11

# Seconds from the first byte of a request to the end of its headers, and bytes of them, at most.
HEADER_SECONDS, HEADER_BYTES = 10.0, 65_536


class TimedProtocol(_Protocol):  # type: ignore[misc]
    """Closes a connection whose next request does not have its headers in time, or has too many of them.

    Uvicorn itself closes connections that are idle after an answer only. A connection on which nothing was sent yet may
    be idle for as long. The time-out of bodies is in `middleware.BoundedRequests`.
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
