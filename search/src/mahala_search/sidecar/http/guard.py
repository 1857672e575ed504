"""Authentication."""

import functools
import ipaddress
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request

from mahala_search.sidecar.service import ROLES, ApiKey, Sidecar

# The key of requests from the same machine, which need none.
LOCAL = ApiKey("local", "admin", "")


@dataclass(frozen=True)
class ServerSettings:
    """How a sidecar is exposed.

    Parameters
    ----------
    host : the address it is bound to; any other than loopback needs keys
    keys : whether keys are needed on loopback as well
    origins : sites whose pages may call the API
    largest : bytes of the largest body
    at_once : requests that are answered at the same time; more are refused with the status 503
    """

    host: str = "127.0.0.1"
    keys: bool = False
    origins: tuple[str, ...] = ()
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


async def key_of(request: Request, role: str, sidecar: Sidecar, settings: ServerSettings) -> ApiKey:
    """Return the key of a request, or refuse one that does not permit a role."""
    if not settings.needs_keys:
        # Without keys, a browser would let another site's page act.
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        is_foreign = origin is not None and origin.partition("://")[2] != host
        if request.method not in ("GET", "HEAD") and is_foreign and origin not in settings.origins:
            raise HTTPException(403, "pages of other sites may not do this: their origin must be named by --origin")
        return LOCAL
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    key = None
    if scheme.lower() == "bearer" and (key := sidecar.keys.find(token.strip())) is None:
        await sidecar.look()  # it may have just been made
        key = sidecar.keys.find(token.strip())
    if key is None:
        detail = "a key is needed: send the header Authorization: Bearer KEY"
        raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
    if ROLES.index(key.role) < ROLES.index(role):
        raise HTTPException(403, f"this needs a key with the role {role}, but this one has {key.role}")
    return key
