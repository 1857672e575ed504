"""Signed tokens: a browser proves by one that the sidecar answered a search, and for whom."""

import base64
import hashlib
import hmac
import json

from mahala_search.sidecar.records import Query, Search

# Seconds for which a token is taken.
LIFETIME = 86_400.0


class Refused(ValueError):
    """A token was not made for the space, or has expired."""


def sign(secret: bytes, search: Search) -> str:
    """Return a token for a search, with the secret of its space; nothing has to be stored for it."""
    fields = [search.id, search.query.key, search.user, search.arm, search.version, search.at]
    body = _encoded(json.dumps(fields, separators=(",", ":")).encode())
    return f"{body}.{_signature(secret, body)}"


def read(secret: bytes, token: str, now: float) -> Search:
    """Return the search that a token is for, without its vector; raise Refused if the token is not valid.

    >>> from dataclasses import replace
    >>> search = Search("s1", Query("k", None), "u", "learned", 3, at=100.0)
    >>> token = sign(b"secret", search)
    >>> read(b"secret", token, now=200.0) == replace(search, expires=100.0 + LIFETIME)
    True
    """
    body, _, signature = token.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(secret, body).encode()):
        raise Refused("the token was not made for this space")
    fields = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    id, key, user, arm, version, at = fields
    if now > at + LIFETIME:
        raise Refused("the token has expired")
    return Search(id, Query(key, None), user, arm, version, at, at + LIFETIME)


def _signature(secret: bytes, body: str) -> str:
    return _encoded(hmac.new(secret, body.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()[:18])


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
