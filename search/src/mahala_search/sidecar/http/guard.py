"""Authentication and rate limits."""

import functools
import ipaddress
import math
import time
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from mahala_search.sidecar.service import ROLES, ApiKey, Keys

# Requests with a wrong key that an address may send at once, and per second after that.
_WRONG_AT_ONCE, _WRONG_RATE = 20, 0.2
# Keys and addresses whose requests are counted.
_COUNTED = 10_000


@dataclass(frozen=True)
class ServerSettings:
    """How a sidecar is exposed.

    Parameters
    ----------
    host : the address it is bound to; any other than loopback needs keys
    keys : whether keys are needed on loopback as well
    origins : sites whose pages may call the API
    rate : requests per second of one key, or of one address without keys; twice as many at once
    largest : bytes of the largest body
    at_once : requests that are answered at the same time; more are refused with the status 503
    """

    host: str = "127.0.0.1"
    keys: bool = False
    origins: tuple[str, ...] = ()
    rate: float = 500.0
    largest: int = 8 * 2**20
    at_once: int = 256

    @functools.cached_property
    def needs_keys(self) -> bool:
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


class Guard:
    """Checks the keys of requests. `local` is the key of requests from the same machine, which need none."""

    local = ApiKey("local", "admin", "")

    def __init__(self, keys: Keys, settings: ServerSettings) -> None:
        self.keys, self.settings = keys, settings
        self._requests = Buckets(settings.rate, 2.0 * settings.rate)
        self._wrong_keys = Buckets(_WRONG_RATE, _WRONG_AT_ONCE)

    async def key_of(self, request: Request, role: str) -> ApiKey:
        """Return the key of a request, or refuse one that does not permit a role."""
        if not self.settings.needs_keys:
            # Without keys, a browser would let another site's page act.
            origin, host = request.headers.get("origin"), request.headers.get("host", "")
            is_foreign = origin is not None and origin.partition("://")[2] != host
            if request.method not in ("GET", "HEAD") and is_foreign and origin not in self.settings.origins:
                detail = "pages of other sites may not do this: their origin must be named by --origin"
                raise HTTPException(403, detail)
            self._spend(_address(request))
            return self.local
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        key = None
        if scheme.lower() == "bearer":
            key = self.keys.fresh(token.strip()) or await run_in_threadpool(self.keys.find, token.strip())
        if key is None:
            # The key is looked up first: clients behind one proxy share an address, and one of them may be wrong.
            if scheme and (wait := self._wrong_keys.take(_address(request))):
                raise _too_many("too many requests with wrong keys", wait)
            detail = "a key is needed: send the header Authorization: Bearer KEY"
            raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
        if ROLES.index(key.role) < ROLES.index(role):
            raise HTTPException(403, f"this needs a key with the role {role}, but this one has {key.role}")
        self._spend(key.id)
        return key

    def _spend(self, who: str) -> None:
        """Count a request of a key or address; refuse it if there were too many."""
        if wait := self._requests.take(who):
            raise _too_many(f"too many requests: {self.settings.rate:g} per second are permitted", wait)


class Buckets:
    """Token buckets by name, which fill with time; those that were not used for the longest time are forgotten.

    >>> buckets = Buckets(rate=1.0, size=2.0)
    >>> [buckets.take("a") > 0.0 for _ in range(3)]
    [False, False, True]
    """

    def __init__(self, rate: float, size: float) -> None:
        self.rate, self.size = rate, size
        self._levels: dict[str, tuple[float, float]] = {}  # with the times at which they were right

    def take(self, name: str) -> float:
        """Take one token and return 0, or return the seconds until there is one."""
        now = time.monotonic()
        level, at = self._levels.pop(name, (self.size, now))
        level = min(self.size, level + (now - at) * self.rate)
        is_empty = level < 1.0
        self._levels[name] = level - (not is_empty), now
        if len(self._levels) > _COUNTED:
            del self._levels[next(iter(self._levels))]
        return (1.0 - level) / self.rate if is_empty else 0.0


def _too_many(detail: str, wait: float) -> HTTPException:
    return HTTPException(429, detail, {"Retry-After": str(math.ceil(wait))})


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
