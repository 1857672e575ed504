"""Modules that are imported on first use, so that a process that only applies a metric starts without them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import scipy.linalg as linalg
    import scipy.sparse as sp
    import scipy.spatial.distance as spatial_distance
    import sklearn.metrics.pairwise as pairwise
    import sklearn.preprocessing as preprocessing
    import sklearn.utils.validation as sklearn_checks
else:

    class _Module:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self._name), name)
            setattr(self, name, value)
            return value

    linalg = _Module("scipy.linalg")
    sp = _Module("scipy.sparse")
    spatial_distance = _Module("scipy.spatial.distance")
    pairwise = _Module("sklearn.metrics.pairwise")
    preprocessing = _Module("sklearn.preprocessing")
    sklearn_checks = _Module("sklearn.utils.validation")

__all__ = ["linalg", "pairwise", "preprocessing", "sklearn_checks", "sp", "spatial_distance"]
