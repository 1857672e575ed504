"""Metric: what every learner yields, and all that anything downstream sees of it."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from mahala.files import ModelFileError, array_value, header_value, read_model, write_model
from mahala.kernel_map import KernelMap, is_sparse
from mahala.validation import LARGEST_VALUE, check_rows

FloatArray = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
# Eigenvalues down to this share of the largest below zero are rounding: the matrix counts as PSD.
_PSD_SLACK = 1e-10
# Between points as large as are accepted, distances under a larger matrix overflow.
_LARGEST_ENTRY = 1e300 / LARGEST_VALUE**2


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a squared distance (under a bilinear metric: a similarity) is made of.

    `features` are the contributions `v_i (M v)_i` of the features, `v = x - x2` (bilinear: `x_i (M x2)_i`);
    `directions` are those of the eigenvectors, `λ_j (u_jᵀ v)²` (bilinear: `σ_j (u_jᵀ x) (v_jᵀ x2)`), in the order
    of `Metric.spectrum`. Both sum to `distance`. Under a kernel features have no share of their own: None.
    """

    distance: float
    features: FloatArray | None
    directions: FloatArray
    feature_names: tuple[str, ...] | None

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """The n contributions of largest magnitude, of features if there are such, else of directions."""
        if self.features is None or self.feature_names is None:
            values, names = self.directions, tuple(f"direction {j}" for j in range(len(self.directions)))
        else:
            values, names = self.features, self.feature_names
        order = np.argsort(-np.abs(values), kind="stable")[:n]
        return [(names[i], float(values[i])) for i in order]


@dataclass(frozen=True, eq=False, repr=False)
class Metric:
    """A Mahalanobis distance `(x - x2)ᵀ M (x - x2)` or a bilinear similarity `xᵀ M x2`; immutable.

    `threshold` is the squared distance up to which a pair counts as similar, where the learner has one. With a
    `kernel_map` the points are mapped to kernel coordinates first, and M acts on these.

    >>> metric = Metric([[4.0, 0.0], [0.0, 1.0]], threshold=2.0)
    >>> metric.distance([1.0, 1.0], [0.0, 1.0])
    2.0
    >>> metric.transform([[1.0, 1.0]]).tolist()
    [[2.0, 1.0]]
    >>> metric.truncate(1).rank
    1
    >>> metric.explain([1.0, 1.0], [0.0, 0.0]).top()
    [('x0', 4.0), ('x1', 1.0)]
    """

    matrix: FloatArray
    threshold: float | None = None
    kind: Literal["mahalanobis", "bilinear"] = "mahalanobis"
    feature_names: tuple[str, ...] | None = None
    kernel_map: KernelMap | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("mahalanobis", "bilinear"):
            raise ValueError(f"kind must be 'mahalanobis' or 'bilinear', got {self.kind!r}")
        kernel_map = self.kernel_map
        if kernel_map is not None:
            if not isinstance(kernel_map, KernelMap):
                raise TypeError(f"kernel_map must be a KernelMap, got {type(kernel_map).__name__}")
            if self.kind == "bilinear":
                raise ValueError("kernel_map goes with kind='mahalanobis' only")
            if kernel_map.n_features_in is None:
                raise ValueError("kernel_map must have grown over some points")
            kernel_map = kernel_map.freeze()
        matrix = _check_matrix(self.matrix, self.kind, kernel_map)
        matrix.flags.writeable = False
        names = self.feature_names
        if names is not None:
            n_features = len(matrix) if kernel_map is None else kernel_map.n_features_in
            names = _check_names(names, n_features)
        # The class is frozen, so fields are set behind its back: once, here.
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "threshold", _check_threshold(self.threshold))
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "kernel_map", kernel_map)

    @classmethod
    def euclidean(cls, n_features: int) -> Metric:
        """The Euclidean distance between points of n_features features."""
        return cls(np.eye(n_features))
