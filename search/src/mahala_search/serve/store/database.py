"""The tables of the service and how a database that holds them is opened, SQLite or Postgres."""

import functools
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

# Raised by one with every change of the tables; an older database is refused in words.
SCHEMA = 3
# Seconds to wait for another process that writes to the same file.
_WAIT = 10.0
# Whether SQLite waits until a transaction is on the disk.
_SYNCHRONOUS = "FULL"

metadata = sa.MetaData()


def _table(
    name: str, keys: dict[str, Any], *indexes: sa.Index, nullable: Sequence[str] = (), **columns: Any
) -> sa.Table:
    """Return a table with the columns of its primary key, indexes, and columns that are not null unless named so."""
    of_key = [sa.Column(column, kind, primary_key=True) for column, kind in keys.items()]
    others = [sa.Column(column, kind, nullable=column in nullable) for column, kind in columns.items()]
    return sa.Table(f"mahala_{name}", metadata, *of_key, *others, *indexes)


_IN_COLLECTION = {"collection": sa.String(64)}
_PAIRS = sa.text("kind = 'pair'")

about = _table("about", {}, schema=sa.Integer)

collections = _table(
    "collections", {"name": sa.String(64)}, nullable=["pinned"], width=sa.Integer, settings=sa.JSON,
    n_rows=sa.BigInteger, n_logged=sa.BigInteger, change=sa.BigInteger, generation=sa.Integer, version=sa.BigInteger,
    pinned=sa.BigInteger,
)  # fmt: skip

# Rows are never changed but for `live`, so that the log can name them by number: a changed item is a new row.
items = _table(
    "items", _IN_COLLECTION | {"row": sa.BigInteger},
    sa.Index("mahala_items_change", "collection", "change"), sa.Index("mahala_items_id", "collection", "id"),
    id=sa.String(256), vector=sa.LargeBinary, payload=sa.JSON, live=sa.Boolean, change=sa.BigInteger,
)  # fmt: skip

log = _table(
    "log", _IN_COLLECTION | {"place": sa.BigInteger},
    sa.Index("mahala_log_key", "collection", "key", unique=True), sa.Index("mahala_log_user", "collection", "user"),
    # It has pairs only, and costs impressions nothing.
    sa.Index("mahala_log_pairs", "collection", "place", sqlite_where=_PAIRS, postgresql_where=_PAIRS),
    nullable=["vector", "user", "version", "key"], kind=sa.String(16), vector=sa.LargeBinary, body=sa.JSON,
    user=sa.String(256), at=sa.Float, version=sa.BigInteger, key=sa.String(256),
)  # fmt: skip

# What was shown for a search, and `clicked`: by item, the largest reaction so far and its place in the log.
searches = _table(
    "searches", _IN_COLLECTION | {"id": sa.String(256)},
    sa.Index("mahala_searches_at", "collection", "at"), sa.Index("mahala_searches_user", "collection", "user"),
    nullable=["query", "vector", "query_id", "user", "version", "arm", "teams", "signals"], at=sa.Float,
    query=sa.BigInteger, vector=sa.LargeBinary, query_id=sa.String(1000), shown=sa.JSON, clicked=sa.JSON,
    user=sa.String(256), version=sa.BigInteger, arm=sa.String(16), teams=sa.String(200), signals=sa.JSON,
)  # fmt: skip

checkpoints = _table(
    "checkpoints", _IN_COLLECTION | {"version": sa.BigInteger}, place=sa.BigInteger, generation=sa.Integer,
    ready=sa.Boolean, created=sa.Float, told=sa.JSON,
)  # fmt: skip

# The state and the map of each learner in pieces, which are written one by one before the checkpoint they belong to.
models = _table(
    "models",
    _IN_COLLECTION | {"version": sa.BigInteger, "learner": sa.String(64), "kind": sa.String(8), "piece": sa.Integer},
    data=sa.LargeBinary,
)

lease = _table("lease", {"name": sa.String(16)}, holder=sa.String(64), fence=sa.BigInteger, expires=sa.Float)

keys = _table(
    "keys", {"id": sa.String(16)}, digest=sa.String(64), role=sa.String(16), one_user=sa.Boolean, created=sa.Float
)


class Unavailable(RuntimeError):
    """The database cannot be read or written at the moment; nothing was changed."""


class Unknown(LookupError):
    """There is no collection, item or version of this name."""


class Conflict(ValueError):
    """What was asked for contradicts what is there; nothing was changed."""


class Database:
    """A database with the tables of the service, which are made if they are missing.

    Parameters
    ----------
    address : the file of an SQLite database, which is made if it is missing, or postgresql://...
    most_pages : pages that SQLite's log of changes (WAL) may have before a commit moves them into the file
    create : whether a missing file is made; Unavailable is raised otherwise
    """

    def __init__(self, address: str | os.PathLike[str], most_pages: int = 4000, create: bool = True) -> None:
        text = os.fspath(address)
        self.is_sqlite = not text.startswith(("postgresql://", "postgres://"))
        self._file: tuple[int, int] | None = None  # which file was opened
        if self.is_sqlite:
            if not create and not Path(text).exists():
                raise Unavailable(f"the database cannot be used: there is no file {text}")
            Path(text).parent.mkdir(parents=True, exist_ok=True)
            url = sa.URL.create("sqlite", database=text)
        else:
            url = sa.make_url(text).set(drivername="postgresql+psycopg")
        self.name = url.render_as_string(hide_password=True) if not self.is_sqlite else text
        self.engine = sa.create_engine(url, pool_pre_ping=not self.is_sqlite)
        if self.is_sqlite:
            sa.event.listen(self.engine, "connect", functools.partial(_prepare_sqlite, most_pages=most_pages))
            sa.event.listen(self.engine, "begin", _begin_sqlite)
        self._writer = self.engine.execution_options(writes=True)
        with self.writing() as connection:
            metadata.create_all(connection)
            for index in items.indexes | log.indexes:  # create_all skips the indexes of existing tables
                index.create(connection, checkfirst=True)
            schema = connection.scalar(sa.select(about.c.schema))
            if schema is None:
                connection.execute(about.insert().values(schema=SCHEMA))
            elif schema != SCHEMA:
                raise ValueError(f"{self.name} has tables of version {schema}, but this mahala knows version {SCHEMA}")
        self._file = _file_number(self.name) if self.is_sqlite else None

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Yield a connection that sees one state of the database; raise Unavailable if that is not possible."""
        self._check_file()
        with _refusals(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Yield a connection whose changes are committed together at the end of the block, or not at all."""
        self._check_file()
        with _refusals(), self._writer.begin() as connection:
            yield connection

    def check_writing(self) -> None:
        """Raise Unavailable unless something can be written."""
        with self.writing() as connection:
            connection.execute(about.update().values(schema=about.c.schema))

    def _check_file(self) -> None:
        """Raise Unavailable if the file was deleted or replaced: what SQLite writes to it then is lost."""
        if self._file is not None and _file_number(self.name) != self._file:
            raise Unavailable(
                f"the database cannot be used: its file {self.name} was deleted or replaced; put it back, or restart "
                "the service"
            )

    def graph_file(self, name: str) -> Path | None:
        """Return where the graph of a collection is kept: beside the file of the database, if there is one."""
        return Path(f"{self.name}.{name}.graph") if self.is_sqlite else None

    def graph_table(self, name: str) -> str:
        """Return the table that has the vectors of a collection once more, indexed by pgvector."""
        return f"mahala_vectors_{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()[:16]}"

    @property
    def now(self) -> Any:
        """The database's own clock in seconds, as an expression."""
        if self.is_sqlite:
            return (sa.func.julianday("now") - 2440587.5) * 86400.0
        return sa.extract("epoch", sa.func.clock_timestamp())

    def close(self) -> None:
        self.engine.dispose()


def _file_number(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name, or None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise
    except (DBAPIError, SQLAlchemyError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        if "database or disk is full" in reason:
            reason = "the disk is full"
        raise Unavailable(f"the database cannot be used: {reason}") from error


def _prepare_sqlite(connection: Any, record: Any, *, most_pages: int) -> None:
    connection.isolation_level = None  # transactions begin with our own BEGIN
    wait = f"busy_timeout={1000 * _WAIT:.0f}"
    for setting in ("journal_mode=WAL", f"synchronous={_SYNCHRONOUS}", f"wal_autocheckpoint={most_pages}", wait):
        connection.execute(f"PRAGMA {setting}").close()


def _begin_sqlite(connection: Any) -> None:
    if not connection.get_execution_options().get("writes"):
        connection.exec_driver_sql("BEGIN")
        return
    # A transaction that writes takes the lock at once: one that reads first could not get it later. SQLite would wait
    # for it in steps of up to 100 ms, and others would come first again and again.
    driver, until = connection.connection.driver_connection, time.monotonic() + _WAIT
    driver.execute("PRAGMA busy_timeout=0")
    while time.monotonic() < until:
        try:
            driver.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                break
            time.sleep(0.001)
    if not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # which says why not
    driver.execute(f"PRAGMA busy_timeout={1000 * _WAIT:.0f}")
