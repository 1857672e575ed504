"""Who may do what, and how much: keys, limits, and headers that keep a browser from doing anything else."""

from __future__ import annotations

import functools
import ipaddress
import time
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from mahala.serve.http.problems import Refused, problem
from mahala.serve.store.keys import Key, Keys

# Nothing is loaded, nothing is framed, no form is sent elsewhere; the page names what it needs in its own policy.
POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
    b"content-security-policy": POLICY.encode(),
}
# Whoever asks from the same machine, where no keys are needed.
_LOCAL = Key("local", "admin", one_user=False)


@dataclass(frozen=True)
class Settings:
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

    @property
    def is_local(self) -> bool:
        """Whether it is bound to loopback."""
        return is_loopback(self.host)

    @property
    def needs_keys(self) -> bool:
        """Whether a request needs a key."""
        return self.keys or not self.is_local


@functools.lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether an address is that of the machine itself.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("[::1]"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Checks requests; `reader`, `teacher` and `admin` are dependencies of routes."""

    def __init__(self, keys: Keys, settings: Settings) -> None:
        self.keys, self.settings = keys, settings
        self._buckets: dict[str, tuple[float, float]] = {}

    # These run in the event loop: to hand each request to a thread takes longer than to check it.

    async def reader(self, request: Request) -> Key:
        """Return the key of a request that may read."""
        return await self._key(request, "read")

    async def teacher(self, request: Request) -> Key:
        """Return the key of a request that may give feedback."""
        return await self._key(request, "feedback")

    async def admin(self, request: Request) -> Key:
        """Return the key of a request that may do everything."""
        return await self._key(request, "admin")

    async def _key(self, request: Request, role: str) -> Key:
        key = _LOCAL
        if self.settings.needs_keys:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            found = None
            if scheme.lower() == "bearer":
                found = self.keys.fresh(token.strip()) or await run_in_threadpool(self.keys.find, token.strip())
            if found is None:
                detail = "a key is needed: send the header Authorization: Bearer KEY"
                raise Refused(401, detail, {"WWW-Authenticate": "Bearer"})
            if not found.permits(role):
                raise Refused(403, f"this needs a key with the role {role}, but this one has {found.role}")
            key = found
        elif request.method not in ("GET", "HEAD"):
            self._check_site(request)
        address = request.client.host if request.client else ""
        self._spend(key.id if self.settings.needs_keys else address)
        return key

    def _check_site(self, request: Request) -> None:
        """Raise Refused for what another site's page sends: without keys, a browser would let it act."""
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if origin is not None and origin.partition("://")[2] != host and origin not in self.settings.origins:
            raise Refused(403, "pages of other sites may not do this: their origin must be named by --origin")

    def _spend(self, who: str) -> None:
        """Take one request from what is left to someone, which grows with time; raise Refused if nothing is left."""
        now, most = time.monotonic(), 2.0 * self.settings.rate
        left, at = self._buckets.get(who, (most, now))
        left = min(most, left + (now - at) * self.settings.rate)
        if left < 1.0:
            wait = (1.0 - left) / self.settings.rate
            raise Refused(
                429,
                f"too many requests: {self.settings.rate:g} per second are permitted",
                {"Retry-After": f"{wait:.0f}"},
            )
        self._buckets[who] = left - 1.0, now
        if len(self._buckets) > 10_000:
            self._buckets = {
                name: own for name, own in self._buckets.items() if own[0] < most - 1.0 and now - own[1] < 60.0
            }


class Limits:
    """An ASGI app around another one that refuses large bodies and foreign hosts, and adds headers to all answers."""

    def __init__(self, app: Any, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in _HEADERS.items() if name not in own]
                message = message | {"headers": [*message["headers"], *added]}
            await send(message)

        refusal = self._refusal(dict(scope["headers"]))
        if refusal is not None:
            await refusal(scope, receive, sent)
            return
        length = 0

        async def received() -> Any:
            nonlocal length
            message = await receive()
            length += len(message.get("body", b""))
            if length > self.settings.largest:
                raise Refused(413, self._too_large)
            return message

        await self.app(scope, received, sent)

    def _refusal(self, headers: dict[bytes, bytes]) -> Any:
        length = headers.get(b"content-length", b"0").decode("latin-1")
        if not length.isdecimal() or int(length) > self.settings.largest:
            return problem(413, self._too_large)
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if not self.settings.needs_keys and not is_loopback(name):
            # A name of another site that points here, so that its page may read the answers.
            return problem(421, "this service is reached by the address of this machine, such as 127.0.0.1")
        return None

    @property
    def _too_large(self) -> str:
        return f"a body may have {self.settings.largest:,} bytes at most"
