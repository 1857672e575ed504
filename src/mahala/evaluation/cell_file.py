"""The file of a long measurement: it keeps what is finished, so that an interrupted run resumes."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

# How the first line begins.
_MARK = b'{"mahala_cells": '

K = TypeVar("K", bound=tuple[Any, ...])


class CellFile(Generic[K]):
    """Measured values by key, in a file with one line of JSON per key.

    The first line has what all values depend on; a file that depends on something else is started anew by the first
    `add`. A line that was cut off when a process was killed is ignored and overwritten. Of two lines with the same key
    the last one counts.

    Parameters
    ----------
    path : the file, which may not exist yet; None to keep the values in memory only
    key : a class derived from NamedTuple, whose fields are written beside the values
    origin : text of what the values depend on, such as a digest of data and settings

    Attributes
    ----------
    cells : the values by key, as dictionaries of what JSON can hold
    """

    def __init__(self, path: str | PathLike[str] | None, key: type[K], origin: str) -> None:
        self.path = None if path is None else Path(path)
        self.cells: dict[K, dict[str, Any]] = {}
        self._header = _MARK + json.dumps(origin).encode() + b"}\n"
        self._size = 0  # of the complete lines
        content = self.path.read_bytes() if self.path is not None and self.path.exists() else b""
        if not self._header.startswith(content[: len(_MARK)]):
            raise ValueError(f"{self.path} exists and is not a file of results of mahala: rename it or use another one")
        if content.startswith(self._header):
            self._size = content.rfind(b"\n") + 1
            for line in content[len(self._header) : self._size].splitlines():
                values = json.loads(line)
                self.cells[key(*(values.pop(name) for name in key._fields))] = values  # type: ignore[attr-defined]

    def add(self, key: K, values: dict[str, Any]) -> None:
        """Keep the values of a key; they are in the file before this returns. Arrays are written as lists."""
        self.cells[key] = values
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({**key._asdict(), **values}, default=np.ndarray.tolist).encode() + b"\n"  # type: ignore[attr-defined]
        with self.path.open("r+b" if self._size else "wb") as file:
            file.seek(self._size)
            file.truncate()
            file.write(line if self._size else self._header + line)
            self._size = file.tell()
