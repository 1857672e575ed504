"""The tables of the sidecar."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

# Raised by one with every change of the tables; a database with others is refused in words.
SCHEMA = 1

metadata = sa.MetaData()


def _table(
    table: str, keys: dict[str, Any], /, *indexes: sa.Index, nullable: Sequence[str] = (), **columns: Any
) -> sa.Table:
    """Return a table with the columns of its primary key, indexes, and columns that are not null unless named so."""
    of_key = [sa.Column(column, kind, primary_key=True) for column, kind in keys.items()]
    others = [sa.Column(column, kind, nullable=column in nullable) for column, kind in columns.items()]
    return sa.Table(f"search_{table}", metadata, *of_key, *others, *indexes)


_IN_SPACE = {"space": sa.String(16)}
_KEY = sa.String(32)  # `Store.key`: the HMAC of an id, in hexadecimal digits

# One row. `secret` makes the keys of ids and signs tokens.
about = _table("about", {}, schema=sa.Integer, secret=sa.LargeBinary)

spaces = _table(
    "spaces", {"id": sa.String(16)}, nullable=["pinned", "successor"], name=sa.String(64), settings=sa.JSON,
    n_logged=sa.BigInteger, generation=sa.Integer, version=sa.BigInteger, pinned=sa.BigInteger,
    successor=sa.String(64),
)  # fmt: skip
sa.Index("search_spaces_name", spaces.c.name, unique=True)

# The role is "browser" (takes tokens only), "write", "read" or "admin"; an empty space is all of them.
keys = _table(
    "keys", {"id": sa.String(16)}, digest=sa.String(64), role=sa.String(16), space=sa.String(64), created=sa.Float
)

# Vectors are int8 with one scale each, and never change: the first that was written stays.
queries = _table(
    "queries", _IN_SPACE | {"key": _KEY}, nullable=["text"], vector=sa.LargeBinary, scale=sa.Float, text=sa.Text,
    at=sa.Float,
)  # fmt: skip

# An item without a vector was shown, and waits for the resolver; `tries` is how often it was asked in vain.
items = _table(
    "items", _IN_SPACE | {"id": sa.String(256)}, sa.Index("search_items_waiting", "space", "tries"),
    nullable=["vector"], vector=sa.LargeBinary, scale=sa.Float, tries=sa.Integer, at=sa.Float,
)  # fmt: skip

# A search, what was shown for it (null until that is known), and what people did. `reactions` has by item, by kind,
# [strength, revenue, user or null, time]; `logged` by item the strength that entries of the log have. `waits` is how
# many of its items have no vector.
pages = _table(
    "pages", _IN_SPACE | {"id": sa.String(64)},
    sa.Index("search_pages_at", "space", "at"), sa.Index("search_pages_user", "space", "user"),
    sa.Index("search_pages_waits", "space", "waits"),
    nullable=["user", "arm", "teams", "ids", "seen", "positions", "signals"],
    query=_KEY, user=_KEY, arm=sa.String(32), version=sa.BigInteger, at=sa.Float, ids=sa.JSON, seen=sa.Integer,
    positions=sa.JSON, teams=sa.String(200), signals=sa.JSON, reactions=sa.JSON, logged=sa.JSON, waits=sa.Integer,
)  # fmt: skip

log = _table(
    "log", _IN_SPACE | {"place": sa.BigInteger}, sa.Index("search_log_page", "space", "page"), nullable=["user"],
    page=sa.String(64), user=_KEY, ids=sa.JSON, values=sa.JSON, first=sa.Boolean, at=sa.Float,
)  # fmt: skip

checkpoints = _table(
    "checkpoints", _IN_SPACE | {"version": sa.BigInteger}, place=sa.BigInteger, generation=sa.Integer,
    created=sa.Float, names=sa.JSON, status=sa.JSON,
)  # fmt: skip

# The state of the learner ("state") and the maps ("maps") of a version, in pieces.
models = _table(
    "models", _IN_SPACE | {"version": sa.BigInteger, "kind": sa.String(8), "piece": sa.Integer}, data=sa.LargeBinary
)

lease = _table("lease", {"name": sa.String(16)}, holder=sa.String(64), fence=sa.BigInteger, expires=sa.Float)

# What was dropped or ignored, by the reason.
counts = _table("counts", _IN_SPACE | {"reason": sa.String(64)}, n=sa.BigInteger)
