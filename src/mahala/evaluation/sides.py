"""What measures by nearest rows share: rows and those that they are compared with, and their classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mahala.engine.inputs import as_rows
from mahala.support.arrays import FloatArray, IndexArray, Rows, RowsLike
from mahala.support.validation import check_labels, class_codes

# Rows and labels of one side and of the other.
Names = tuple[str, str, str, str]


def labelled_sides(
    X: RowsLike, y: ArrayLike, X_other: RowsLike | None, y_other: ArrayLike | None, names: Names
) -> tuple[Rows, IndexArray, Rows | None, IndexArray]:
    """Return the rows of both sides, each followed by their class codes; without others these are None and the same."""
    if (X_other is None) != (y_other is None):
        raise ValueError(f"{names[2]} and {names[3]} must be given together, or neither for leave-one-out")
    rows = as_rows(X, names[0])
    n = rows.shape[0]
    if X_other is None or y_other is None:
        if n < 2:
            raise ValueError(f"{names[0]} must have at least 2 rows for leave-one-out, got 1")
        codes = class_codes(y, n, names[1])
        return rows, codes, None, codes
    others = as_rows(X_other, names[2])
    labels = np.concatenate([check_labels(y, n, names[1]), check_labels(y_other, others.shape[0], names[3])])
    codes = class_codes(labels, len(labels), f"{names[1]} and {names[3]}")
    return rows, codes[:n], others, codes[n:]


def value_at(counts: IndexArray, values: FloatArray, count: int, name: str) -> float:
    """Return the value that belongs to a count."""
    places = np.flatnonzero(counts == count)
    if not len(places):
        raise ValueError(f"{name} must be one of the evaluated {counts.tolist()}, got {count}")
    return float(values[places[0]])
