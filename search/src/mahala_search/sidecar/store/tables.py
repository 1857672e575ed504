"""The tables of the sidecar."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from pydantic_core import from_json, to_json

# Raised by one with every change of the tables; a database with others is refused in words.
SCHEMA = 3

metadata = sa.MetaData()


def encode_json(value: Any) -> str:
    """Return a value as JSON; `json` takes five times as long for those of a page."""
    return to_json(value).decode()


class Json(sa.types.TypeDecorator[Any]):
    """A column of values of JSON as text, the same in all databases; None is NULL."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        return None if value is None else encode_json(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        return None if value is None else from_json(value)


def _table(
    table: str, keys: dict[str, Any], /, *indexes: sa.Index, nullable: Sequence[str] = (), **columns: Any
) -> sa.Table:
    """Return a table with the columns of its primary key, indexes, and columns that are not null unless named so."""
    of_key = [sa.Column(column, kind, primary_key=True) for column, kind in keys.items()]
    others = [sa.Column(column, kind, nullable=column in nullable) for column, kind in columns.items()]
    # Rows of the log come in the order of their keys: in SQLite, they need no other one.
    return sa.Table(f"search_{table}", metadata, *of_key, *others, *indexes, sqlite_with_rowid=table != "log")


def _waiting(index: str, column: str, condition: str) -> sa.Index:
    """Return an index of the few rows that wait for something."""
    return sa.Index(index, "space", column, sqlite_where=sa.text(condition), postgresql_where=sa.text(condition))


_IN_SPACE = {"space": sa.String(16)}
_KEY = sa.String(32)  # `records.key_of`: the HMAC of an id, in hexadecimal digits

# One row. `secret` makes the keys of ids and signs tokens.
about = _table("about", {}, schema=sa.Integer, secret=sa.LargeBinary)

# `origin` is the id by which keys of ids are made: its own, or that of the space whose successor it is. `problem` is
# why the space is not learned.
spaces = _table(
    "spaces", {"id": sa.String(16)}, nullable=["pinned", "successor", "problem"], name=sa.String(64), settings=Json,
    origin=sa.String(16), n_logged=sa.BigInteger, generation=sa.Integer, version=sa.BigInteger, pinned=sa.BigInteger,
    successor=sa.String(64), problem=sa.Text,
)  # fmt: skip
sa.Index("search_spaces_name", spaces.c.name, unique=True)

# The role is one of `keys.ROLES`, and the space an id, so that a key ends with its space; an empty one is all spaces.
keys = _table(
    "keys", {"id": sa.String(16)}, digest=sa.String(64), role=sa.String(16), space=sa.String(64), created=sa.Float
)

# Vectors are int8 with one scale each, and never change: the first that was written stays. A query without one has a
# text, of which the resolver of a successor makes one.
queries = _table(
    "queries", _IN_SPACE | {"key": _KEY}, _waiting("search_queries_waiting", "tries", "vector IS NULL"),
    nullable=["vector", "scale", "text"], vector=sa.LargeBinary, scale=sa.Float, text=sa.Text, tries=sa.Integer,
    at=sa.Float,
)  # fmt: skip

# An item without a vector was shown, and waits for the resolver; `tries` is how often it was asked in vain.
items = _table(
    "items", _IN_SPACE | {"id": sa.String(256)}, _waiting("search_items_waiting", "tries", "vector IS NULL"),
    nullable=["vector", "scale"], vector=sa.LargeBinary, scale=sa.Float, tries=sa.Integer, at=sa.Float,
)  # fmt: skip

# A search, what was shown for it (null until that is known), and what people did. `reactions` has by item, by kind,
# [strength, revenue, user or null, time]; `logged` has the items whose reactions the log has, or true for all, null
# before the first entry; `waits` is how many vectors of the query and of items that count are missing. Of a page that
# was forgotten, its id remains, so that it is not written again: its query is the empty text.
pages = _table(
    "pages", _IN_SPACE | {"id": sa.String(200)},
    sa.Index("search_pages_at", "space", "at"), sa.Index("search_pages_user", "space", "user"),
    sa.Index("search_pages_query", "space", "query"), _waiting("search_pages_waits", "waits", "waits > 0"),
    nullable=["user", "arm", "teams", "ids", "seen", "positions", "signals", "logged"],
    query=_KEY, user=_KEY, arm=sa.String(32), version=sa.BigInteger, at=sa.Float, ids=Json, seen=sa.Integer,
    positions=Json, teams=sa.String(200), signals=Json, reactions=Json, logged=Json, waits=sa.Integer,
)  # fmt: skip

# Vectors that a page waits for: that of an item, or of its query.
waits = _table(
    "waits", _IN_SPACE | {"page": sa.String(200), "of_query": sa.Boolean, "id": sa.String(256)},
    sa.Index("search_waits_id", "space", "id"),
)  # fmt: skip

# Users who were forgotten, and when: what they did before is not written any more, wherever it was kept meanwhile.
forgotten = _table("forgotten", _IN_SPACE | {"user": _KEY}, at=sa.Float)

# An entry has a value for each item of a page, null for one that does not count; what else is to be learned is in the
# page.
log = _table(
    "log", _IN_SPACE | {"place": sa.BigInteger}, sa.Index("search_log_page", "space", "page"), nullable=["user"],
    page=sa.String(200), user=_KEY, values=Json, first=sa.Boolean, at=sa.Float,
)  # fmt: skip

checkpoints = _table(
    "checkpoints", _IN_SPACE | {"version": sa.BigInteger}, place=sa.BigInteger, generation=sa.Integer,
    created=sa.Float, names=Json, status=Json,
)  # fmt: skip

# The state of the learner ("state") and the maps ("maps") of a version, in pieces.
models = _table(
    "models", _IN_SPACE | {"version": sa.BigInteger, "kind": sa.String(8), "piece": sa.Integer}, data=sa.LargeBinary
)

lease = _table("lease", {"name": sa.String(16)}, holder=sa.String(64), fence=sa.BigInteger, expires=sa.Float)

# What was dropped or ignored, by the reason.
counts = _table("counts", _IN_SPACE | {"reason": sa.String(64)}, n=sa.BigInteger)
