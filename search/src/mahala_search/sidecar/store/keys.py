"""API keys: shown once, and kept as digests."""

import hashlib
import hmac
import secrets
import time
from typing import Any, NamedTuple

import sqlalchemy as sa

from mahala_search.sidecar.store.database import Database
from mahala_search.sidecar.store.tables import keys

# What a key permits; each role permits what those before it do. A browser sends tokens only.
ROLES = ("browser", "read", "write", "admin")


class ApiKey(NamedTuple):
    """A key: what it permits in the space with this id, or in all spaces ("")."""

    id: str
    role: str
    space: str


class Keys:
    """The keys in a database, and in memory those that were there at the last `read`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._rows: dict[str, Any] = {}

    def create(self, role: str, space: str = "") -> tuple[ApiKey, str]:
        """Make a key for a space, by its id, or for all; return it with its text, which cannot be shown again."""
        if role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
        id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        values = {"id": id, "digest": _digest(secret), "role": role, "space": space, "created": time.time()}
        with self.database.writing() as connection:
            connection.execute(keys.insert().values(values))
        return ApiKey(id, role, space), f"mahala_{id}_{secret}"

    def read(self) -> None:
        """Read all keys into memory."""
        self._rows = {row.id: row for row in self.all()}

    def find(self, token: str) -> ApiKey | None:
        """Return the key of a token, or None, without a look into the database."""
        prefix, _, rest = token.partition("_")
        id, _, secret = rest.partition("_")
        row = self._rows.get(id)
        if prefix != "mahala" or row is None or not hmac.compare_digest(row.digest, _digest(secret)):
            return None
        return ApiKey(row.id, row.role, row.space)

    def all(self) -> list[Any]:
        """Return the rows of the keys in the database, the oldest first."""
        with self.database.reading() as connection:
            return list(connection.execute(sa.select(keys).order_by(keys.c.created)))

    def revoke(self, id: str) -> bool:
        """Delete a key; return whether there was one."""
        with self.database.writing() as connection:
            return bool(connection.execute(keys.delete().where(keys.c.id == id)).rowcount)


def _digest(secret: str) -> str:
    # The secret has 256 random bits, which no one can guess: a slow hash would add nothing.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
