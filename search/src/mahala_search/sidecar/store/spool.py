"""Spool: bounded files in which works are kept while the database cannot be written."""

import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic_core import from_json, to_json

from mahala_search.sidecar.records import Query, Reaction, Search, Shown, Unavailable, Work

try:
    import fcntl
except ImportError:  # on Windows, where only one process may use a folder
    fcntl = None  # type: ignore[assignment]

Group = tuple[str, Sequence[Work]]

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Search, Shown, Reaction)}
# Bytes that are replayed in one transaction, or one line: searches wait meanwhile.
_BLOCK = 2**18


@dataclass
class _Batch:
    """Lines that are written together."""

    lines: list[bytes] = field(default_factory=list)
    is_done: bool = False
    error: OSError | None = None


class Spool:
    """Groups of works in a folder; what is appended is on the disk.

    Each process has a file of its own in the folder. The file of a process that has ended is replayed by another one.

    Parameters
    ----------
    folder : it is made if it is missing
    most_bytes : of the file; what does not fit is refused
    """

    def __init__(self, folder: str | os.PathLike[str], most_bytes: int = 2**26) -> None:
        self._folder, self._most = Path(folder), most_bytes
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path, self._file = _new_file(self._folder)
        _synchronise(self._folder)
        self._size = self._done = 0  # bytes of the file, and those that were replayed
        self._changed, self._others = 0, True  # when the folder was, and whether there are files of others
        self._batch, self._adding, self._writing = _Batch(), threading.Lock(), threading.Lock()

    def __len__(self) -> int:
        """Return the bytes of this process that wait."""
        return self._size - self._done

    def append(self, space_id: str, works: Sequence[Work]) -> None:
        """Keep works; raise Unavailable if there is no room for them."""
        line = to_json([space_id, [(type(work).__name__, work) for work in works]], fallback=np.ndarray.tolist) + b"\n"
        if self._size + len(line) > self._most:
            raise Unavailable(f"the database cannot be written, and {self._most:,} bytes wait for it already")
        with self._adding:
            batch = self._batch
            batch.lines.append(line)
        with self._writing:
            if not batch.is_done:  # otherwise another thread has written it along with its own
                with self._adding:
                    self._batch = _Batch()
                self._write(batch)
        if batch.error is not None:
            raise Unavailable(f"the database cannot be written, nor {self._folder}: {batch.error}") from batch.error

    def _write(self, batch: _Batch) -> None:
        batch.is_done = True
        data = b"".join(batch.lines)
        try:
            self._file.seek(self._size)
            if self._file.write(data) < len(data):
                raise OSError("the disk is full")
            os.fsync(self._file.fileno())
            self._size += len(data)
        except OSError as error:
            batch.error = error
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)

    def is_alone(self) -> bool:
        """Return whether no other process has a file in the folder."""
        if (changed := os.stat(self._folder).st_mtime_ns) != self._changed:
            self._changed, self._others = changed, bool({*self._folder.glob("*.jsonl")} - {self._path})
        return not self._others

    def replay(self, write: Callable[[Sequence[Group]], object]) -> None:
        """Write all groups that are there at the time of the call.

        If `write` raises an error, the groups remain, and those that it has written come again.
        """
        end = self._size
        while self._done < end:
            with self._writing, open(self._path, "rb") as file:  # with a buffer: else a line is read byte by byte
                file.seek(self._done)
                lines = file.readlines(min(_BLOCK, end - self._done))
            write([_to_group(line) for line in lines])
            with self._writing:
                self._done += sum(map(len, lines))
                if self._done == self._size:
                    self._file.truncate(0)
                    self._size = self._done = end = 0

    def adopt(self, write: Callable[[Sequence[Group]], object]) -> None:
        """Write the groups of processes that have ended."""
        for path in sorted({*self._folder.glob("*.jsonl")} - {self._path}):
            with contextlib.suppress(OSError), open(path, "r+b") as file:
                if _lock(file):
                    while lines := file.readlines(_BLOCK):
                        # The last one may have been cut off: it was not acknowledged then.
                        write([_to_group(line) for line in lines if line.endswith(b"\n")])
                    path.unlink()

    def close(self) -> None:
        """Leave what waits to another process."""
        self._file.close()
        if not self._size:
            self._path.unlink(missing_ok=True)


def _new_file(folder: Path) -> tuple[Path, IO[bytes]]:
    """Make a file that is locked. Another process may take it for one that is left over until it is."""
    while True:
        path = folder / f"{secrets.token_hex(8)}.jsonl"
        file = open(path, "w+b", buffering=0)  # noqa: SIM115
        if _lock(file) and path.exists():
            return path, file
        file.close()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed; return whether that is possible."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _synchronise(folder: Path) -> None:
    """Have the names of files in a folder on the disk."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)


def _to_group(line: bytes) -> Group:
    space_id, works = from_json(line)
    return space_id, [_to_work(*work) for work in works]


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
