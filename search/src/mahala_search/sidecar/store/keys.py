"""API keys: shown once, and kept as digests."""

import hashlib
import hmac
import secrets
import time
from typing import NamedTuple

import sqlalchemy as sa

from mahala_search.sidecar.store.database import Database
from mahala_search.sidecar.store.tables import keys

# What a key permits; each role permits what those before it do. A browser sends tokens only.
ROLES = ("browser", "read", "write", "admin")
# Seconds for which a key that was found is not looked up again: a revoked one is refused after that.
_FRESH = 2.0


class ApiKey(NamedTuple):
    """A key that was found: what it permits in the space with this id, or in all spaces ("")."""

    id: str
    role: str
    space: str


class Keys:
    """The keys in a database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._found: dict[str, tuple[float, ApiKey]] = {}

    def create(self, role: str, space: str = "") -> tuple[ApiKey, str]:
        """Make a key for a space, by its id, or for all; return it with its text, which cannot be shown again."""
        if role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
        id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        values = {"id": id, "digest": _digest(secret), "role": role, "space": space, "created": time.time()}
        with self.database.writing() as connection:
            connection.execute(keys.insert().values(values))
        return ApiKey(id, role, space), f"mahala_{id}_{secret}"

    def fresh(self, token: str) -> ApiKey | None:
        """Return the key of a token if it was found a moment ago, without a look into the database."""
        seen, key = self._found.get(_digest(token), (0.0, None))
        return key if time.monotonic() - seen < _FRESH else None

    def find(self, token: str) -> ApiKey | None:
        """Return the key of a token, or None."""
        if (key := self.fresh(token)) is not None:
            return key
        prefix, _, rest = token.partition("_")
        id, _, secret = rest.partition("_")
        if prefix != "mahala" or not secret or len(token) > 200:
            return None
        with self.database.reading() as connection:
            row = connection.execute(sa.select(keys).where(keys.c.id == id)).one_or_none()
        if row is None or not hmac.compare_digest(row.digest, _digest(secret)):
            self._found.pop(_digest(token), None)
            return None
        key = ApiKey(row.id, row.role, row.space)
        self._found[_digest(token)] = time.monotonic(), key
        return key

    def all(self) -> list[tuple[ApiKey, float]]:
        """Return the keys and when each was made, the oldest first."""
        with self.database.reading() as connection:
            rows = connection.execute(sa.select(keys).order_by(keys.c.created)).all()
        return [(ApiKey(row.id, row.role, row.space), row.created) for row in rows]

    def revoke(self, id: str) -> bool:
        """Delete a key; return whether there was one."""
        with self.database.writing() as connection:
            return bool(connection.execute(keys.delete().where(keys.c.id == id)).rowcount)


def _digest(secret: str) -> str:
    # The secret has 256 random bits, which no one can guess: a slow hash would add nothing.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
