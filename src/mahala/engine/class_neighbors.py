"""The nearest rows of the same class and of other classes."""

from __future__ import annotations

import numpy as np

from mahala.engine.current import current_engine
from mahala.support.arrays import IndexArray, RealArray


def class_neighbors(X: RealArray, codes: IndexArray, n_same: int, n_other: int) -> tuple[IndexArray, IndexArray]:
    """Return what `nearest_by_class` returns for all rows."""
    sizes = np.bincount(codes)
    if sizes.max() < 2:
        raise ValueError("y must have a class of at least two rows, but every row is alone in its class")
    n_same, n_other = min(n_same, int(sizes.max()) - 1), min(n_other, len(codes) - int(sizes.min()))
    return current_engine().nearest_by_class(X, codes, np.arange(len(codes)), n_same, n_other)
