"""Spool: a bounded file in which works wait that are not in the database yet."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from pydantic_core import from_json, to_json

from mahala_search.sidecar.records import Query, Reaction, Search, Shown, Unavailable, Work
from mahala_search.sidecar.store.database import file_number

log = logging.getLogger("mahala_search")

Group = tuple[str, Sequence[Work]]

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Search, Shown, Reaction)}
# Groups that are written in one transaction at most, and works from which on no more are: others wait meanwhile.
_BLOCK, _MOST = 100, 200
# Seconds to wait for another process that appends, and between two looks whether another one has written what waits.
_WAIT, _POLL = 2.0, 0.002


@dataclass
class _Batch:
    """Lines that are written together."""

    lines: list[tuple[bytes]] = field(default_factory=list)
    is_done: bool = False
    error: sqlite3.Error | None = None


class Spool:
    """Groups of works in the order in which they came, in an SQLite file; what is appended is on the disk.

    The processes of a host share the file, so that the order is that of all of them, and what a process that was killed
    has left is written by another one.

    Parameters
    ----------
    path : it is made if it is missing
    most_bytes : of the file; what does not fit is refused
    """

    def __init__(self, path: str | PathLike[str], most_bytes: int = 2**26) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # What was written and is deleted need not be on the disk at once: if it comes again, it changes nothing.
        self._appender, self._reader = self._connect("FULL", most_bytes), self._connect("NORMAL", most_bytes)
        self._file = file_number(self._path)
        self._turn = FileLock(f"{self._path}.lock", poll_interval=_POLL, thread_local=False)
        self._batch, self._adding, self._writing = _Batch(), threading.Lock(), threading.Lock()

    def _connect(self, synchronous: str, most_bytes: int) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_WAIT, check_same_thread=False)
        try:
            for setting in ("journal_mode=WAL", f"synchronous={synchronous}", f"max_page_count={most_bytes // 4096}"):
                connection.execute(f"PRAGMA {setting}").close()
            with connection:
                connection.execute("CREATE TABLE IF NOT EXISTS works (place INTEGER PRIMARY KEY, line BLOB)")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self._path} cannot be used ({error}): if it is damaged, move it away") from error
        return connection

    def __len__(self) -> int:
        """Return how many groups wait."""
        (n,) = self._reader.execute("SELECT COUNT(*) FROM works").fetchone()
        return int(n)

    def append(self, space_id: str, works: Sequence[Work]) -> None:
        """Keep works; raise Unavailable if there is no room for them."""
        line = to_json([space_id, [(type(work).__name__, work) for work in works]], fallback=np.ndarray.tolist)
        with self._adding:
            batch = self._batch
            batch.lines.append((line,))
        with self._writing:
            if not batch.is_done:  # otherwise another thread has written it along with its own
                with self._adding:
                    self._batch = _Batch()
                batch.is_done = True
                try:
                    with self._appender:
                        self._appender.executemany("INSERT INTO works (line) VALUES (?)", batch.lines)
                except sqlite3.Error as error:
                    batch.error = error
        if batch.error is not None or file_number(self._path) != self._file:
            reason = batch.error or "it was deleted or replaced, restart the sidecar"
            raise Unavailable(f"nothing can be written, nor kept in {self._path}: {reason}")

    def replay(self, write: Callable[[Sequence[Group]], object]) -> None:
        """Write all groups that are there at the time of the call, whichever process has appended them.

        If `write` raises an error, the groups remain, and those that it has written come again.
        """
        if not len(self):
            return
        with self._turn:
            (end,) = self._reader.execute("SELECT MAX(place) FROM works").fetchone()
            rows = "SELECT place, line FROM works WHERE place <= ? ORDER BY place LIMIT ?"
            while lines := self._reader.execute(rows, (end or 0, _BLOCK)).fetchall():
                groups = list[Group]()
                while len(groups) < len(lines) and sum(len(works) for _, works in groups) < _MOST:
                    groups.append(_to_group(lines[len(groups)][1]))
                write(groups)
                with self._writing, self._reader:
                    self._reader.execute("DELETE FROM works WHERE place <= ?", (lines[len(groups) - 1][0],))

    def close(self) -> None:
        """Leave what waits to another process."""
        self._appender.close()
        self._reader.close()


def _to_group(line: bytes) -> Group:
    try:
        space_id, works = from_json(line)
        return space_id, [_to_work(*work) for work in works]
    except (ValueError, TypeError, KeyError):  # of another version of mahala-search
        log.exception("works in the spool cannot be read, and are dropped")
        return "", []


def _to_work(kind: str, values: dict[str, Any]) -> Work:
    if values.get("search"):
        values["search"] = _to_work("Search", values["search"])
    if "query" in values:
        vector = values["query"]["vector"]
        values["query"] = Query(**values["query"] | {"vector": None if vector is None else np.array(vector)})
    if "vectors" in values:
        values["vectors"] = {id: np.array(vector) for id, vector in values["vectors"].items()}
    work: Work = _KINDS[kind](**values)
    return work
