"""The cells of a comparison, one per candidate and test part, and the file that keeps those that are finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mahala.data.scaling import Scaling
from mahala.learner import Learner
from mahala.support.arrays import FloatArray, IndexArray, IntArray
from mahala.support.validation import is_sparse


class Key(NamedTuple):
    """A candidate, and the number of a test part."""

    name: str
    part: int


@dataclass(frozen=True, eq=False)
class Cell:
    """What was measured of a candidate on a test part, for every number of neighbours; or why nothing was.

    Attributes
    ----------
    losses, errors, balanced : losses by the measure that ranks, plain errors and balanced errors
    seconds : CPU seconds of the fit
    scaling : the scaling that was used
    stopped : whether the fit was stopped by its time limit
    confusion : test rows of each class (a row) that were taken for each class (a column); None for many classes
    """

    losses: FloatArray
    errors: FloatArray
    balanced: FloatArray
    seconds: float
    scaling: Scaling
    stopped: bool = False
    failure: str | None = None
    confusion: IntArray | None = None


class CellFile:
    """A file with one line of JSON per finished cell, under a first line with the digest of data and settings.

    A line that was cut off when a process was killed is ignored. If the file is of other data or settings, it is
    started anew.
    """

    def __init__(self, path: str | PathLike[str], digest: str) -> None:
        self._path = Path(path)
        self._digest = digest
        self.cells: dict[Key, Cell] = {}
        if self._path.exists():
            self._read()
        self._begun = not self.cells

    def _read(self) -> None:
        lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        if not lines:
            return
        header = _parsed(lines[0])
        if not isinstance(header, dict) or "mahala_cells" not in header:
            raise ValueError(f"resume must name a file of an earlier comparison or a new one, got {self._path}")
        if header["mahala_cells"] != self._digest:
            return
        for line in lines[1:]:
            values = _parsed(line) if line.endswith("\n") else None
            if isinstance(values, dict) and "name" in values:
                key = Key(values.pop("name"), values.pop("part"))
                fields_: dict[str, Any] = {n: np.array(v) if isinstance(v, list) else v for n, v in values.items()}
                self.cells[key] = Cell(**fields_)

    def add(self, key: Key, cell: Cell) -> None:
        """Keep a cell, in the file before this returns."""
        values: dict[str, Any] = {**key._asdict(), **{field.name: getattr(cell, field.name) for field in fields(Cell)}}
        line = json.dumps(values, default=np.ndarray.tolist)
        if not self.cells:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps({"mahala_cells": self._digest}) + "\n", encoding="utf-8")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(("" if self._begun else "\n") + line + "\n")  # the last line there may have been cut off
        self._begun = True
        self.cells[key] = cell


def digest_of(X: Any, codes: IndexArray, learners: Mapping[str, Learner], settings: Mapping[str, Any]) -> str:
    """Return a digest of what the cells of a comparison depend on."""
    from mahala import __version__

    result = hashlib.sha256()
    parts = (X.data, X.indices, X.indptr) if is_sparse(X) else (X,)
    for array in (*parts, codes):
        result.update(f"{array.dtype} {array.shape}".encode())
        result.update(np.ascontiguousarray(array).data)
    described = {name: f"{type(own).__name__}{own.get_params()}" for name, own in learners.items()}
    result.update(json.dumps([__version__, described, dict(settings)], default=repr).encode())
    return result.hexdigest()


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
