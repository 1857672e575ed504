"""Signed tokens: a browser proves by one that the sidecar answered a search, and for whom."""

import base64
import hashlib
import hmac
import json

from mahala_search.sidecar.records import Query, Search

# Seconds for which a token is taken.
LIFETIME = 86_400.0


class Refused(ValueError):
    """A token was not made here, is of another space, or has expired."""


def sign(secret: bytes, space: str, search: Search) -> str:
    """Return a token for a search of a space, which holds all that the token says."""
    fields = [space, search.id, search.query.key, search.user, search.arm, search.version, search.at]
    body = _encoded(json.dumps(fields, separators=(",", ":")).encode())
    return f"{body}.{_signature(secret, body)}"


def read(secret: bytes, space: str, token: str, now: float) -> Search:
    """Return the search that a token is for, without its vector; raise Refused if the token is not valid.

    >>> from dataclasses import replace
    >>> search = Search("s1", Query("k", None), "u", "learned", 3, at=100.0)
    >>> token = sign(b"secret", "7f", search)
    >>> read(b"secret", "7f", token, now=200.0) == replace(search, expires=100.0 + LIFETIME)
    True
    """
    body, _, signature = token.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(secret, body).encode()):
        raise Refused("the token was not made by this sidecar")
    fields = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    of, id, key, user, arm, version, at = fields
    if of != space:
        raise Refused("the token is of another space")
    search = Search(id, Query(key, None), user, arm, version, at, at + LIFETIME)
    if now > at + LIFETIME:
        raise Refused("the token has expired")
    return search


def _signature(secret: bytes, body: str) -> str:
    return _encoded(hmac.new(secret, body.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()[:18])


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
