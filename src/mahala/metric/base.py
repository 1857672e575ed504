"""Metric: what every learner yields, and all that anything downstream sees of it."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from mahala.compiled.ranking import leading
from mahala.data.scaling import divided
from mahala.metric.kernel_map import KernelMap
from mahala.metric.matrices import (
    FloatArray,
    Matrix,
    check_matrix,
    csr_arrays,
    csr_from_arrays,
    map_rows,
    row_blocks,
    row_dots,
    score_blocks,
    times_matrix,
)
from mahala.support.model_files import ModelFileError, array_value, header_value, read_model, write_model
from mahala.support.params import is_count
from mahala.support.validation import check_rows, is_sparse

_EPS = float(np.finfo(np.float64).eps)
# Eigenvalues down to this share of the largest below zero are rounding: the matrix counts as PSD.
_PSD_SLACK = 1e-10


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a squared distance (under a bilinear metric: a similarity) is made of.

    `features` are the contributions `v_i (M v)_i` of the features, `v = x - x2` (bilinear: `x_i (M x2)_i`);
    `directions` are those of the eigenvectors, `λ_j (u_jᵀ v)²` (bilinear: `σ_j (u_jᵀ x) (v_jᵀ x2)`), in the order
    of `Metric.spectrum`. Both sum to `distance`. Under a kernel features have no share of their own: None. The
    directions of a sparse M are not computed: None.
    """

    distance: float
    features: FloatArray | None
    directions: FloatArray | None
    feature_names: tuple[str, ...] | None

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """The n contributions of largest magnitude, of features if there are such, else of directions."""
        if self.features is not None and self.feature_names is not None:
            values, names = self.features, self.feature_names
        elif self.directions is not None:
            values, names = self.directions, tuple(f"direction {j}" for j in range(len(self.directions)))
        else:
            return []
        order = np.argsort(-np.abs(values), kind="stable")[:n]
        return [(names[i], float(values[i])) for i in order]


@dataclass(frozen=True, eq=False, repr=False)
class Metric:
    """A Mahalanobis distance `(x - x2)ᵀ M (x - x2)` or a bilinear similarity `xᵀ M x2`; immutable.

    `threshold` is the squared distance up to which a pair counts as similar, where the learner has one. With
    `scales` each feature is divided by its own first: what was learned from scaled features then serves raw ones. With
    a `kernel_map` the points are mapped to kernel coordinates then, and M acts on these. `origin` says which learner
    with which parameters it comes from; it goes into the file.

    A sparse `matrix` of a bilinear metric stays sparse, as a `csr_array` of float32 or float64. One that is canonical
    CSR already is not copied: its arrays become read-only.

    >>> metric = Metric([[4.0, 0.0], [0.0, 1.0]], threshold=2.0)
    >>> metric.distance([1.0, 1.0], [0.0, 1.0])
    2.0
    >>> metric.transform([[1.0, 1.0]]).tolist()
    [[2.0, 1.0]]
    >>> metric.truncate(1).n_components
    1
    >>> metric.explain([1.0, 1.0], [0.0, 0.0]).top()
    [('x0', 4.0), ('x1', 1.0)]
    >>> metric.rank([0.0, 0.0], items=[[1.0, 0.0], [0.0, 1.5], [0.0, 1.0]]).tolist()
    [2, 1, 0]
    """

    matrix: Matrix
    threshold: float | None = None
    kind: Literal["mahalanobis", "bilinear"] = "mahalanobis"
    feature_names: Sequence[str] | None = None
    kernel_map: KernelMap | None = None
    origin: Mapping[str, object] | None = None
    scales: FloatArray | None = None

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
        matrix = check_matrix(self.matrix, self.kind, None if kernel_map is None else kernel_map.dimension)
        scales = self.scales
        if scales is not None:
            if self.kind == "bilinear":
                raise ValueError("scales go with kind='mahalanobis' only: items of a bilinear metric stay as they are")
            n_features = matrix.shape[0] if kernel_map is None else kernel_map.n_features_in
            scales = _check_scales(scales, n_features)
        names = self.feature_names
        if names is not None:
            n_features = matrix.shape[0] if kernel_map is None else kernel_map.n_features_in
            names = _check_names(names, n_features)
        # The class is frozen, so fields are set behind its back: once, here.
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "threshold", _check_threshold(self.threshold))
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "kernel_map", kernel_map)
        object.__setattr__(self, "scales", scales)

    @classmethod
    def euclidean(cls, n_features: int) -> Metric:
        """The Euclidean distance between points of n_features features."""
        return cls(np.eye(n_features))

    @property
    def n_features_in(self) -> int:
        """The number of features of a point; of the first one, the query, under a bilinear metric."""
        if self.kernel_map is not None and self.kernel_map.n_features_in is not None:
            return self.kernel_map.n_features_in
        return int(self.matrix.shape[0])

    @cached_property
    def sparsity(self) -> float:
        """The share of the entries of M that are zero."""
        size = math.prod(self.matrix.shape)
        non_zero = np.count_nonzero(self.matrix.data if self._is_sparse else self.matrix)
        return 1.0 - non_zero / size if size else 0.0

    @property
    def spectrum(self) -> FloatArray:
        """The eigenvalues of M, largest first; the singular values under a bilinear metric."""
        return self._decomposition[1]

    @cached_property
    def n_components(self) -> int:
        """The number of eigenvalues (bilinear: singular values) above zero, as far as rounding lets tell."""
        return int((self.spectrum > self._rounding).sum())

    @cached_property
    def is_psd(self) -> bool:
        """Whether no eigenvalue is negative beyond rounding, so that distances are real."""
        self._refuse_bilinear("is_psd")
        return bool(self.spectrum.min(initial=0.0) >= -_PSD_SLACK * np.abs(self.spectrum).max(initial=0.0))

    @property
    def components(self) -> FloatArray:
        """L, n_components × d, with `M = Lᵀ L`: eigenvectors times the root of their eigenvalue, largest first."""
        self._require_psd("components")
        return self._roots[0]

    def distance(self, x: Any, x2: Any, *, squared: bool = False) -> Any:
        """The distance of a point from a point (a float), or row by row (an array); either may be one point."""
        if squared:
            self._refuse_bilinear("distance")
        else:
            self._require_psd("distance (unless squared)")
        x, x2 = self._pair(x, x2)
        positive, negative = (_squared_lengths(x, x2, root) for root in self._roots)
        return _plain(positive - negative if squared else np.sqrt(positive))

    def similarity(self, x: Any, x2: Any) -> Any:
        """`xᵀ M x2` of a point and a point (a float), or row by row (an array); either may be one point."""
        x, x2 = self._pair(x, x2)
        if x.ndim == 1:
            return _plain(x2 @ times_matrix(x[None], self.matrix)[0])
        if x2.ndim == 1 and not self._is_sparse:
            return x @ (self.matrix @ x2)
        result = np.empty(x.shape[0])
        for block in row_blocks(x.shape[0], max(self.matrix.shape)):
            product = times_matrix(x[block], self.matrix)
            result[block] = product @ x2 if x2.ndim == 1 else row_dots(product, x2[block])
        return result

    def pairwise(self, X: Any, Y: Any = None, *, squared: bool = False) -> FloatArray:
        """The distances (under a bilinear metric: similarities) of every row of X and every row of Y (None: X)."""
        rows = self._rows(X, "X")
        others = self._items(Y, "Y", rows)
        if self.kind == "bilinear":
            if squared:
                raise ValueError("squared has no meaning for the similarities of a bilinear metric")
            similarities = np.empty((rows.shape[0], others.shape[0]))
            for block, scores in self._scores(rows, others):
                similarities[block] = scores
            return similarities
        if not squared:
            self._require_psd("pairwise (unless squared)")
        positive, negative = self._roots
        result = _cross_distances(rows @ positive.T, others @ positive.T, squared)
        if len(negative):
            result -= _cross_distances(rows @ negative.T, others @ negative.T, squared)
        return result

    def transform(self, X: Any) -> FloatArray:
        """Points in the space where this metric is the Euclidean distance, one of `n_components` dimensions.

        Rows of float32 stay float32, through float64.
        """
        self._require_psd("transform")
        rows = self._rows(X, "X")
        mapped = map_rows(rows, self.components)
        return mapped.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else mapped

    def embed(self, X: Any, side: Literal["query", "item"] = "query") -> Any:
        """Points such that the inner product of a query and an item is their similarity.

        Under a bilinear metric items stay as they are, so that an index over them serves every metric. Sparse
        queries under a sparse M stay sparse.
        """
        if side not in ("query", "item"):
            raise ValueError(f"side must be 'query' or 'item', got {side!r}")
        if self.kind == "mahalanobis":
            return self.transform(X)
        rows = self._rows(X, "X", item=side == "item")
        if side == "item":
            return rows
        if not (self._is_sparse and is_sparse(rows)):
            return times_matrix(rows, self.matrix)
        blocks = row_blocks(rows.shape[0], max(self.matrix.shape))
        return sp.vstack([sp.csr_array(times_matrix(rows[block], self.matrix)) for block in blocks], format="csr")

    def rank(self, query: Any, items: Any, k: int | None = None) -> NDArray[np.intp]:
        """The row numbers of `items` from the most similar (or nearest) to the least, the first k where k is given.

        A 1-D array for one query, a row for each of several. Items that tie are in their order. The matrix may be
        indefinite. Distances that differ by less than about 1e-8 of those between the items are not told apart.
        """
        rows, single = self._points(query, "query")
        others = self._rows(items, "items", item=True)
        n_items = others.shape[0]
        if k is not None and not (is_count(k) and k <= n_items):
            raise ValueError(f"k must be None or from 1 to {n_items}, the number of items, got {k!r}")
        result = np.empty((rows.shape[0], n_items if k is None else int(k)), dtype=np.intp)
        for block, scores in self._scores(rows, others):
            result[block] = leading(scores, result.shape[1])
        return result[0] if single else result

    def projected(self) -> Metric:
        """The nearest metric with a PSD matrix: negative eigenvalues become zero."""
        self._refuse_bilinear("projected")
        return self if self.is_psd else self._leading(self.n_components)

    def truncate(self, k: int) -> Metric:
        """The metric of the k leading directions only."""
        k = operator.index(k)
        if k < 0:
            raise ValueError(f"k must not be negative, got {k}")
        if self.kind == "mahalanobis":
            self._require_psd("truncate")
        return self if k >= self.n_components else self._leading(k)

    def explain(self, x: Any, x2: Any) -> Explanation:
        """What the squared distance (under a bilinear metric: the similarity) of two points is made of."""
        x, x2 = self._pair(x, x2)
        if x.ndim != 1 or x2.ndim != 1:
            raise ValueError("x and x2 must be single points, 1-D arrays, to be explained")
        directions: FloatArray | None
        if self._is_sparse:
            rows = np.flatnonzero(x)
            features = np.zeros(len(x))
            features[rows] = x[rows] * (self.matrix[rows] @ x2)
            directions = None
            total = float(features.sum())
        elif self.kind == "bilinear":
            left, values, right = self._decomposition
            features = x * (self.matrix @ x2)
            directions = values * (x @ left) * (x2 @ right)
            total = float(x @ self.matrix @ x2)
        else:
            left, values, _ = self._decomposition
            v = x - x2
            features = v * (self.matrix @ v)
            directions = values * (v @ left) ** 2
            total = float(v @ self.matrix @ v)
        if self.kernel_map is not None:
            return Explanation(total, None, directions, None)
        names = self.feature_names or tuple(f"x{i}" for i in range(len(features)))
        return Explanation(total, features, directions, tuple(names))

    def to_parts(self) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
        """The metric as a header and arrays for a model file."""
        kernel_header, arrays = (None, {}) if self.kernel_map is None else self.kernel_map.to_arrays()
        header: dict[str, object] = {
            "kind": self.kind,
            "threshold": self.threshold,
            "feature_names": self.feature_names,
            "kernel_map": kernel_header,
            "origin": self.origin,
        }
        if self._is_sparse:
            return header | {"shape": list(self.matrix.shape)}, csr_arrays(self.matrix)
        if self.scales is not None:
            arrays = arrays | {"scales": self.scales}
        return header, {"matrix": self.matrix, **arrays}

    @classmethod
    def from_parts(cls, header: dict[str, object], arrays: dict[str, NDArray[Any]]) -> Metric:
        """The metric that `to_parts` took apart."""
        kernel_header = header_value(header, "kernel_map", dict, type(None))
        kind: Any = header_value(header, "kind", str)
        matrix: Matrix
        if "matrix.indptr" in arrays:
            if kind != "bilinear":
                raise ModelFileError(
                    f"header entry 'kind' should be 'bilinear' with a sparse matrix, found {kind[:40]!r}"
                )
            matrix = csr_from_arrays(arrays, header_value(header, "shape", list))
        else:
            matrix = array_value(arrays, "matrix", np.float64, (None, None))
        return cls(
            matrix,
            threshold=header_value(header, "threshold", float, type(None)),
            kind=kind,
            feature_names=header_value(header, "feature_names", list, type(None)),
            kernel_map=None if kernel_header is None else KernelMap.from_arrays(kernel_header, arrays),
            origin=header_value(header, "origin", dict, type(None)),
            scales=array_value(arrays, "scales", np.float64, (None,)) if "scales" in arrays else None,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a model file, replacing what is there."""
        header, arrays = self.to_parts()
        write_model(path, "metric", arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Metric:
        """The metric in a model file; a ModelFileError where there is none that can be used."""
        header, arrays = read_model(path, "metric")
        try:
            return cls.from_parts(header, arrays)
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"{os.fspath(path)} cannot be read: {error}") from error

    def __repr__(self) -> str:
        parts = [repr(self.kind), "×".join(map(str, self.matrix.shape))]
        if self._is_sparse:
            parts.append(f"sparsity={self.sparsity:.6g}")
        if self.threshold is not None:
            parts.append(f"threshold={self.threshold:g}")
        if self.kernel_map is not None:
            parts.append(f"kernel={self.kernel_map.kernel!r}")
        return f"Metric({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy or an unpickled metric is built anew, so that its arrays cannot be written to either.
        fields = self.matrix, self.threshold, self.kind, self.feature_names, self.kernel_map, self.origin, self.scales
        return Metric, fields

    @property
    def _is_sparse(self) -> bool:
        return is_sparse(self.matrix)

    @cached_property
    def _is_diagonal(self) -> bool:
        return self.kind == "mahalanobis" and np.array_equal(self.matrix, np.diag(self.matrix.diagonal()))

    @cached_property
    def _decomposition(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Directions as columns, values from the largest down, and directions of the other side."""
        if self._is_sparse:
            raise ValueError(
                "the spectrum, n_components and truncate need a dense matrix, but this one is sparse: "
                "use Metric(metric.matrix.toarray(), kind='bilinear') where it fits into memory"
            )
        if self._is_diagonal:
            order = np.argsort(-self.matrix.diagonal(), kind="stable")
            left = right = np.eye(len(order))[:, order]
            values = self.matrix.diagonal()[order]
        else:
            try:
                if self.kind == "mahalanobis":
                    ascending, vectors = np.linalg.eigh(self.matrix)
                    left = right = vectors[:, ::-1]
                    values = ascending[::-1]
                else:
                    left, values, rows = np.linalg.svd(self.matrix, full_matrices=False)
                    right = rows.T
            except np.linalg.LinAlgError as error:
                raise ValueError("the decomposition of matrix does not converge: rescale the features") from error
            # Of each direction and its opposite, the one whose largest entry is positive.
            signs = np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
            left, right = left * signs, right * signs
        for array in (left, values, right):
            array.flags.writeable = False
        return left, values, right

    @property
    def _rounding(self) -> float:
        """The error of computed eigenvalues. Those of a diagonal matrix are exact, however far apart."""
        if self._is_diagonal:
            return 0.0
        return float(max(self.matrix.shape) * _EPS * np.abs(self.spectrum).max(initial=0.0))

    @cached_property
    def _roots(self) -> tuple[FloatArray, FloatArray]:
        """P and N with `M = PᵀP - NᵀN`; N has no rows where M counts as PSD."""
        vectors, values, _ = self._decomposition
        positive, negative = values > self._rounding, values < -self._rounding
        if self.is_psd:
            negative[:] = False
        roots = [(vectors[:, chosen] * np.sqrt(np.abs(values[chosen]))).T for chosen in (positive, negative)]
        for array in roots:
            array.flags.writeable = False
        return roots[0], roots[1]

    def _leading(self, k: int) -> Metric:
        left, values, right = self._decomposition
        return replace(self, matrix=(left[:, :k] * values[:k]) @ right[:, :k].T)

    def _rows(self, X: Any, name: str, item: bool = False) -> Any:
        """Rows to which M applies: checked, in float64 (CSR in its own dtype), mapped by the kernel map."""
        X = check_rows(X, name)
        expected = self.matrix.shape[1] if item and self.kind == "bilinear" else self.n_features_in
        if X.shape[1] != expected:
            raise ValueError(f"{name} has {X.shape[1]} features, but this metric compares points of {expected}")
        if self.scales is not None:
            X = divided(X, self.scales)
        if self.kernel_map is not None:
            return self.kernel_map.coordinates(X)
        return X if is_sparse(X) else X.astype(np.float64, copy=False)

    def _items(self, items: Any, name: str, rows: Any) -> Any:
        """Rows of items to compare with rows of queries; None: those themselves."""
        if items is not None:
            return self._rows(items, name, item=True)
        if self.kind == "bilinear" and self.matrix.shape[0] != self.matrix.shape[1]:
            raise ValueError(f"{name} must be given, as queries and items have {self.matrix.shape} features")
        return rows

    def _points(self, points: Any, name: str, item: bool = False) -> tuple[Any, bool]:
        """Rows of one point or several, and whether it is one."""
        single = not is_sparse(points) and np.ndim(points) == 1
        return self._rows([points] if single else points, name, item), single

    def _scores(self, rows: Any, items: Any) -> Iterator[tuple[slice, FloatArray]]:
        return score_blocks(rows, items, self.matrix, distances=self.kind == "mahalanobis")

    def _pair(self, x: Any, x2: Any) -> tuple[Any, Any]:
        """Points or rows of points to compare one by one, each 1-D or 2-D as given."""
        pair = []
        for points, name in ((x, "x"), (x2, "x2")):
            rows, single = self._points(points, name, item=name == "x2")
            pair.append(rows[0] if single else rows)
        if pair[0].ndim == pair[1].ndim == 2 and pair[0].shape[0] != pair[1].shape[0]:
            raise ValueError(
                f"x and x2 must have the same number of rows, got {pair[0].shape[0]} and {pair[1].shape[0]}; "
                "to compare every row with every other use pairwise"
            )
        return pair[0], pair[1]

    def _refuse_bilinear(self, what: str) -> None:
        if self.kind == "bilinear":
            raise ValueError(f"{what} is for Mahalanobis metrics; this one is bilinear: use similarity or embed")

    def _require_psd(self, what: str) -> None:
        self._refuse_bilinear(what)
        if not self.is_psd:
            raise ValueError(
                f"{what} needs a positive semi-definite matrix, but the smallest eigenvalue is "
                f"{self.spectrum.min():.3g}: call .projected() and use the metric that it returns"
            )


def scores_in_blocks(metric: Metric | None, X: Any, X_items: Any = None) -> Iterator[tuple[slice, FloatArray]]:
    """Scores of X (queries) × X_items (None: X), some rows of X at a time; the larger, the more similar.

    They are similarities under a bilinear metric. Under a Mahalanobis metric, or None for the Euclidean distance, they
    are the squared distances times -1, up to a number for each row of X. All is checked before the first block.
    """
    if metric is None:
        rows = check_rows(X)
        items = rows if X_items is None else check_rows(X_items, "X_items")
        if items.shape[1] != rows.shape[1]:
            raise ValueError(f"X_items must have the {rows.shape[1]} columns of X, got {items.shape[1]}")
        return score_blocks(rows, items, None, distances=True)
    if not isinstance(metric, Metric):
        raise TypeError(f"metric must be a Metric or None, got {type(metric).__name__}; of a learner give its metric_")
    rows = metric._rows(X, "X")
    return metric._scores(rows, metric._items(X_items, "X_items", rows))


def _plain(result: Any) -> Any:
    """A float where two single points were compared, else the array."""
    return float(result) if np.ndim(result) == 0 else result


def _squared_lengths(x: Any, x2: Any, root: FloatArray) -> Any:
    sparse = is_sparse(x) or is_sparse(x2)  # then the difference of the points themselves may be dense
    differences = x @ root.T - x2 @ root.T if sparse else (x - x2) @ root.T
    return np.square(differences).sum(axis=-1)


def _cross_distances(rows: FloatArray, others: FloatArray, squared: bool) -> FloatArray:
    if rows.shape[1] == 0:
        return np.zeros((len(rows), len(others)))
    # cdist subtracts before it squares; the faster matrix product would lose the digits of close points.
    return cdist(rows, others, "sqeuclidean" if squared else "euclidean")


def _check_names(names: Sequence[str], n_features: int | None) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError("feature_names must be a sequence of strings")
    if len(names) != n_features:
        raise ValueError(f"feature_names must have {n_features} names, one a feature, got {len(names)}")
    return tuple(str(name) for name in names)


def _check_scales(scales: Any, n_features: int | None) -> FloatArray:
    result = np.array(scales, dtype=np.float64)
    if result.shape != (n_features,):
        raise ValueError(f"scales must be {n_features} numbers, one a feature, got an array of shape {result.shape}")
    if not (np.isfinite(result) & (result > 0.0)).all():
        raise ValueError("scales must be positive and finite")
    result.flags.writeable = False
    return result


def _check_threshold(threshold: Any) -> float | None:
    if threshold is None:
        return None
    value = float(threshold)
    if not math.isfinite(value):
        raise ValueError(f"threshold must be finite or None, got {threshold!r}")
    return value
