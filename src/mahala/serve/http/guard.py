"""Authentication and rate limits."""

from __future__ import annotations

import functools
import ipaddress
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Cookie, Depends, HTTPException, Request
from starlette.concurrency import run_in_threadpool

from mahala.serve.store.keys import ApiKey, Keys

# The cookie that tells visits of the page apart, so that each one has its cap.
VISIT = "mahala_visit"
Visit = Annotated[str | None, Cookie(alias=VISIT, pattern="^[0-9a-f]{32}$")]
# The key of requests from the same machine, which need none.
_LOCAL = ApiKey("local", "admin", one_user=False)


@dataclass(frozen=True)
class ServerSettings:
    """How a service is exposed.

    Parameters
    ----------
    host : the address it is bound to; any other than loopback needs keys
    keys : whether keys are needed on loopback as well
    origins : other sites whose pages may call the API
    rate : requests per second of one key, or of one address without keys; twice as many at once
    largest : bytes of the largest body
    """

    host: str = "127.0.0.1"
    keys: bool = False
    origins: tuple[str, ...] = ()
    rate: float = 500.0
    largest: int = 8 * 2**20

    @functools.cached_property
    def needs_keys(self) -> bool:
        """Whether a request needs a key."""
        return self.keys or not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether an address is that of the machine itself.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("[::1]"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def user_of(key: ApiKey, named: str | None, visit: str | None) -> str | None:
    """Return the user of a request: that of a key of one user, the named one, or the visit of the page."""
    if key.one_user:
        return f"key:{key.id}"
    return f"visit:{visit}" if named is None and visit is not None else named


class Guard:
    """Checks requests: `needs` returns dependencies of routes."""

    def __init__(self, keys: Keys, settings: ServerSettings) -> None:
        self.keys, self.settings = keys, settings
        self._buckets: dict[str, tuple[float, float]] = {}

    def needs(self, role: str) -> Callable[[Request], Awaitable[ApiKey]]:
        """Return a function that returns the key of a request, or refuses one that does not permit a role."""

        async def check(request: Request) -> ApiKey:  # in the event loop: a thread would take longer than the check
            if not self.settings.needs_keys:
                # Without keys, a browser would let another site's page act.
                origin, host = request.headers.get("origin"), request.headers.get("host", "")
                is_foreign = origin is not None and origin.partition("://")[2] != host
                if request.method not in ("GET", "HEAD") and is_foreign and origin not in self.settings.origins:
                    detail = "pages of other sites may not do this: their origin must be named by --origin"
                    raise HTTPException(403, detail)
                self._spend(request.client.host if request.client else "")
                return _LOCAL
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            key = None
            if scheme.lower() == "bearer":
                key = self.keys.fresh(token.strip()) or await run_in_threadpool(self.keys.find, token.strip())
            if key is None:
                detail = "a key is needed: send the header Authorization: Bearer KEY"
                raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
            if not key.permits(role):
                raise HTTPException(403, f"this needs a key with the role {role}, but this one has {key.role}")
            self._spend(key.id)
            return key

        return check

    def route(self, tag: str, role: str) -> dict[str, Any]:
        """Return the options of a route that needs a role."""
        return {"tags": [tag], "dependencies": [Depends(self.needs(role))]}

    def _spend(self, who: str) -> None:
        """Take one request from the bucket of a key or address, which fills with time; refuse it if that is empty."""
        now, most = time.monotonic(), 2.0 * self.settings.rate
        left, at = self._buckets.get(who, (most, now))
        left = min(most, left + (now - at) * self.settings.rate)
        if left < 1.0:
            wait = (1.0 - left) / self.settings.rate
            detail = f"too many requests: {self.settings.rate:g} per second are permitted"
            raise HTTPException(429, detail, {"Retry-After": f"{wait:.0f}"})
        self._buckets[who] = left - 1.0, now
        if len(self._buckets) > 10_000:
            self._buckets = {
                name: (left, at) for name, (left, at) in self._buckets.items() if left < most - 1.0 and now - at < 60.0
            }
