"""Database: how a database with the tables of the sidecar is opened, read and written, SQLite or Postgres."""

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from mahala_search.sidecar.records import Unavailable
from mahala_search.sidecar.store.tables import SCHEMA, about, metadata

# Seconds to wait for another process that writes to the same file, or to the same rows.
_WAIT = 2.0
# Whether SQLite waits until a transaction is on the disk.
_SYNCHRONOUS = "FULL"


class Database:
    """A database with the tables of the sidecar, which are made if they are missing.

    Parameters
    ----------
    address : the file of an SQLite database, which is made if it is missing, or postgresql://...
    create : whether a missing file is made; Unavailable is raised otherwise
    """

    def __init__(self, address: str | os.PathLike[str], create: bool = True) -> None:
        text = os.fspath(address)
        self.is_sqlite = not text.startswith(("postgresql://", "postgres://"))
        self._file: tuple[int, int] | None = None  # which file was opened
        if self.is_sqlite:
            if not create and not Path(text).exists():
                raise Unavailable(f"the database cannot be used: there is no file {text}")
            Path(text).parent.mkdir(parents=True, exist_ok=True)
            self.name, options = text, {}
            url = sa.URL.create("sqlite", database=text)
        else:
            url = sa.make_url(text).set(drivername="postgresql+psycopg")
            self.name = sa.make_url(text).render_as_string(hide_password=True)
            waits = f"-c lock_timeout={1000 * _WAIT:.0f} -c statement_timeout=60000"
            options = {"connect_timeout": 3, "tcp_user_timeout": 5000, "options": waits}
        self.engine = sa.create_engine(url, pool_pre_ping=not self.is_sqlite, connect_args=options)
        if self.is_sqlite:
            sa.event.listen(self.engine, "connect", _prepare_sqlite)
            sa.event.listen(self.engine, "begin", _begin_sqlite)
        self._writer = self.engine.execution_options(writes=True)
        with self.writing() as connection:
            metadata.create_all(connection)
            row = connection.execute(sa.select(about)).one_or_none()
            if row is None:
                connection.execute(about.insert().values(schema=SCHEMA, secret=secrets.token_bytes(32)))
            elif row.schema != SCHEMA:
                raise ValueError(f"{self.name} has tables of version {row.schema}, this mahala-search knows {SCHEMA}")
            self.secret: bytes = connection.scalar(sa.select(about.c.secret))
        self._file = file_number(self.name) if self.is_sqlite else None

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Yield a connection that sees one state of the database; raise Unavailable if that is not possible."""
        self._check_file()
        with _refusals(self.engine.dialect.dbapi), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Yield a connection whose changes are committed together at the end of the block, or not at all."""
        self._check_file()
        with _refusals(self.engine.dialect.dbapi), self._writer.begin() as connection:
            yield connection
            self._check_file()

    def check(self, *, by_writing: bool) -> None:
        """Raise Unavailable if the database cannot be reached and locked, or also unless something can be written."""
        with self.writing() as connection:
            if by_writing:
                connection.execute(about.update().values(schema=about.c.schema))
            elif not self.is_sqlite:
                connection.execute(sa.select(sa.literal(1)))

    def _check_file(self) -> None:
        """Raise Unavailable if the file was deleted or replaced: what SQLite writes to it then is lost."""
        if self._file is not None and file_number(self.name) != self._file:
            raise Unavailable(
                f"the database cannot be used: its file {self.name} was deleted or replaced; put it back, or restart "
                "the sidecar"
            )

    @property
    def now(self) -> Any:
        """The database's own clock in seconds, as an expression."""
        if self.is_sqlite:
            return (sa.func.julianday("now") - 2440587.5) * 86400.0
        return sa.extract("epoch", sa.func.clock_timestamp())

    def close(self) -> None:
        self.engine.dispose()


def execute(connection: Any, statement: str, values: Sequence[Any] = ()) -> Any:
    """Execute a statement with "?" for each value by a cursor of the driver, and return it.

    SQLAlchemy takes ten times as long for a statement as SQLite does: what is done for every request goes this way.
    """
    if connection.dialect.name != "sqlite":
        statement = statement.replace("?", "%s")
    cursor = connection.connection.cursor()
    cursor.execute(statement, values)
    return cursor


def rows_with(
    connection: Any, table: sa.Table, columns: Sequence[str], space_id: str, key: str, values: Sequence[Any]
) -> list[Any]:
    """Return columns of the rows of a space whose `key` is one of the values, as the driver has them."""
    of_rows = f'SELECT {", ".join(columns)} FROM {table.name} WHERE space = ? AND "{key}" IN'
    parts = [execute(connection, f"{of_rows} {marks(part)}", (space_id, *part)) for part in blocks(values)]
    return list(chain.from_iterable(parts))


def marks(values: Sequence[Any]) -> str:
    """Return a "?" for each of the values, as a list of SQL."""
    return f"({', '.join('?' * len(values))})"


def blocks(values: Sequence[Any], size: int = 500) -> Iterator[Sequence[Any]]:
    """Yield parts that fit into one statement."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def insert_rows(
    connection: Any,
    table: sa.Table,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    changing: Sequence[str] = (),
) -> None:
    """Insert rows; of those that are in the table already, change the columns that are named, or none.

    Many rows are one statement: after each, the driver waits for the interpreter's lock, which others have meanwhile.
    """
    keys, names = (", ".join(f'"{name}"' for name in each) for each in (table.primary_key.columns.keys(), columns))
    change = ", ".join(f'"{name}" = excluded."{name}"' for name in changing)
    conflict = f"ON CONFLICT ({keys}) DO {f'UPDATE SET {change}' if changing else 'NOTHING'}"
    for part in blocks(rows):
        lists = ", ".join([marks(columns)] * len(part))
        statement = f"INSERT INTO {table.name} ({names}) VALUES {lists} {conflict}"
        execute(connection, statement, list(chain.from_iterable(part)))


def file_number(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name, or None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _refusals(driver: Any) -> Iterator[None]:
    try:
        yield
    except (DataError, IntegrityError, driver.DataError, driver.IntegrityError):  # it is what was written that is wrong
        raise
    except (SQLAlchemyError, driver.Error) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        if "database or disk is full" in reason:
            reason = "the disk is full"
        raise Unavailable(f"the database cannot be used: {reason}") from error


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # transactions begin with our own BEGIN
    wait = f"busy_timeout={1000 * _WAIT:.0f}"
    for setting in ("journal_mode=WAL", f"synchronous={_SYNCHRONOUS}", wait):
        connection.execute(f"PRAGMA {setting}").close()


def _begin_sqlite(connection: Any) -> None:
    if not connection.get_execution_options().get("writes"):
        connection.exec_driver_sql("BEGIN")
        return
    # A transaction that writes takes the lock at once: one that reads first could not get it later. SQLite would wait
    # for it in steps of up to 100 ms, and others would come first again and again.
    driver, until = connection.connection.driver_connection, time.monotonic() + _WAIT
    driver.execute("PRAGMA busy_timeout=0")
    try:
        while True:
            try:
                driver.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    break
                time.sleep(0.001)
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # which says why not
    finally:
        driver.execute(f"PRAGMA busy_timeout={1000 * _WAIT:.0f}")
