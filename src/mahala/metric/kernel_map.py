"""Coordinates of points in the span of kernel landmarks, with which a linear learner works under a kernel."""

import copy
import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mahala.metric.kernels import KERNELS, Kernel, check_kernel, kernel_values
from mahala.metric.matrices import from_arrays, to_arrays
from mahala.support.arrays import Arrays, FloatArray, IndexArray, read_only, slices
from mahala.support.lazily import linalg, sp
from mahala.support.locking import all_or_nothing
from mahala.support.model_files import ModelFileError, array_value, finite, finite_array, header_value
from mahala.support.validation import LARGEST_VALUE, check_indices, check_rows, is_sparse

_BLOCK = 256  # points
# Points are taken in their order, but those far from the span before those close to it. Otherwise a smooth kernel on
# points along a curve would express the far end of the curve in landmarks crowded at its beginning, and rounding errors
# would grow without bound.
_GRADES = (1e-3, 1e-6, 0.0)
# The squared length of a landmark is increased by this share of the distance that makes a point a landmark. Without it,
# a smooth kernel on points in order, each expressed in the crowd before it, would need coefficients that grow without
# bound, and so would rounding errors; with it such points become landmarks themselves.
_RIDGE = 1e-3
_EPS, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


class KernelMap:
    """Coordinates `z` with `z(x)ᵀ z(y) = ⟨φ(x) - φ(x0), φ(y) - φ(x0)⟩` for the points it has grown over.

    φ is the kernel's feature map and x0 the first point: learners use only differences of points, and relative to
    one of the points no digits are lost to a shared offset. Landmarks are the points that lay outside the span of
    those before them; L is the lower Cholesky factor of the matrix of their inner products, and
    `z(x) = L⁻¹ ⟨φ(landmarks) - φ(x0), φ(x) - φ(x0)⟩`. Growing only appends coordinates: those of earlier points do not
    change, and are followed by zeros. For a point that is new to the map, z is its projection on the span.

    `kernel` is "linear", "rbf", "poly" or "cosine" with `params` such as gamma (None: 1 / number of features), or
    "precomputed", or a function that takes two blocks of rows and returns the matrix of their kernel values.

    >>> points = KernelMap("linear")
    >>> points.grow([[1.0, 1.0], [3.0, 1.0], [5.0, 1.0], [1.0, 4.0]])
    >>> points.dimension
    2
    >>> points.coordinates([[1.0, 1.0], [5.0, 1.0], [0.0, 4.0]]).round(9).tolist()
    [[0.0, 0.0], [4.0, 0.0], [-1.0, 3.0]]
    """

    def __init__(self, kernel: Kernel, params: dict[str, Any] | None = None) -> None:
        self.kernel = kernel
        self.params = check_kernel(kernel, params)
        self.n_features_in: int | None = None
        # Arrays are replaced when the map grows, never written to, because a frozen map shares them.
        self._anchors: Any = None  # x0 and the landmarks: rows, or column numbers if the kernel is precomputed
        self._with_origin: FloatArray = np.zeros(0)  # the values of `_values` of the anchors with x0
        self._factor: FloatArray = np.zeros((0, 0))
        self._frozen = False

    @property
    def dimension(self) -> int:
        """The number of landmarks, and so of coordinates."""
        return len(self._factor)

    def grow(self, X: Any, rows: ArrayLike | None = None) -> None:
        """Add as landmarks the points of X (or of its `rows`, if given) that lie outside the span so far.

        The very first point is the origin. For a precomputed kernel X is the square kernel matrix of all points, the
        same in every call. A call that fails leaves the map unchanged.
        """
        if self._frozen:
            raise ValueError("this kernel map is frozen: only the map that it was copied from can grow")
        if is_sparse(X):
            X = X.tocsr()
        elif not (isinstance(X, np.ndarray) and X.ndim == 2):
            X = check_rows(X)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be the square kernel matrix if kernel='precomputed', got shape {X.shape}")
        numbers = np.arange(X.shape[0]) if rows is None else check_indices(rows, X.shape[0], "rows")
        with all_or_nothing(self):
            if self._anchors is None and len(numbers):
                origin = self._points(check_rows(X[numbers[:1]]))
                self._anchors = numbers[:1].copy() if self.kernel == "precomputed" else origin
                self._set(self._anchors, self._values(origin, self._anchors).astype(np.float64)[0], self._factor)
                self.n_features_in = origin.shape[1]
            for grade in _GRADES:
                blocks = [numbers[block] for block in slices(len(numbers), _BLOCK)]
                left = [self._grow_block(self._points(check_rows(X[block])), block, grade) for block in blocks]
                numbers = np.concatenate([numbers[:0], *left])

    def coordinates(self, X: Any, *, check_input: bool = True) -> FloatArray:
        """Return the coordinates of each row of X.

        For a precomputed kernel a row holds the point's kernel values with all training points. `check_input=False` is
        for rows that are known to be valid.
        """
        if self._anchors is None:
            raise ValueError("this kernel map is empty: call grow first")
        if check_input:
            X = check_rows(X)
        result = np.empty((X.shape[0], self.dimension))
        for block in slices(X.shape[0], _BLOCK):
            result[block] = self._project(self._values(self._points(X[block]), self._anchors))
        return result

    def freeze(self) -> Self:
        """Return an independent map that never changes; the map itself if it is frozen already."""
        if self._frozen:
            return self
        result = copy.copy(self)
        result._frozen = True
        return result

    def to_arrays(self) -> tuple[dict[str, object], Arrays]:
        """Return the map as a header and arrays for a model file."""
        if not isinstance(self.kernel, str):
            raise ValueError(f"kernel is a function, which a file cannot hold: use one of the named {list(KERNELS)}")
        header: dict[str, object] = {"kernel": self.kernel, "params": dict(self.params)}
        header["n_features_in"] = self.n_features_in
        arrays: Arrays = {"kernel_factor": self._factor}
        if self._anchors is not None:
            arrays |= {"kernel_with_origin": self._with_origin, **to_arrays(self._anchors, "kernel_anchors")}
        return header, arrays

    @classmethod
    def from_arrays(cls, header: dict[str, object], arrays: Arrays) -> Self:
        """Return the map from what `to_arrays` returned; raise ModelFileError if the parts do not fit together."""
        try:
            result = cls(header_value(header, "kernel", str), header_value(header, "params", dict))
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"the kernel is damaged: {error}") from error
        factor = finite(array_value(arrays, "kernel_factor", np.float64, (None, None)), "kernel_factor")
        m = len(factor)
        if factor.shape != (m, m) or np.triu(factor, 1).any() or not (factor.diagonal() > 0).all():
            raise ModelFileError("array 'kernel_factor' should be square, lower triangular, with a positive diagonal")
        n_features = header_value(header, "n_features_in", int, type(None))
        if n_features is not None:
            anchors: Any
            if result.kernel == "precomputed":
                anchors = array_value(arrays, "kernel_anchors", np.int64, (m + 1,))
                if not 0 <= anchors.min() <= anchors.max() < n_features:
                    raise ModelFileError(f"array 'kernel_anchors' should hold numbers from 0 to {n_features - 1}")
            else:
                anchors = from_arrays(arrays, "kernel_anchors", (m + 1, n_features))
                finite(anchors.data if is_sparse(anchors) else anchors, "kernel_anchors")
            result._set(anchors, finite_array(arrays, "kernel_with_origin", (m + 1,)), factor)
            result.n_features_in = n_features
        elif m:
            raise ModelFileError("header entry 'n_features_in' should be int if there are landmarks, found None")
        return result

    def _points(self, X: Any) -> Any:
        """Valid rows as float64, so that the kernel loses no digits, and dense or CSR as the anchors are."""
        if X.shape[1] != (self.n_features_in or X.shape[1]):
            raise ValueError(f"X has {X.shape[1]} features, but this kernel map maps points of {self.n_features_in}")
        if self.kernel == "precomputed":
            return X.toarray() if is_sparse(X) else X  # its dtype tells the precision of the kernel values
        if is_sparse(X if self._anchors is None else self._anchors):
            return sp.csr_array(X, dtype=np.float64)
        return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)

    def _values(self, points: Any, others: Any) -> NDArray[Any]:
        """The values of `kernel_values`; what is subtracted from them later is zero if they are relative to x0."""
        return kernel_values(self.kernel, self.params, points, others, self._anchors[:1])

    def _project(self, values: NDArray[Any]) -> FloatArray:
        """Coordinates in the span so far, from the values with the anchors."""
        if not self.dimension:
            return np.empty((len(values), 0))
        values = values.astype(np.float64, copy=False)
        relative = values[:, 1:] - values[:, :1] - (self._with_origin[1:] - self._with_origin[0])
        z: FloatArray = linalg.solve_triangular(self._factor, relative.T, lower=True, check_finite=False)
        return z.T

    def _grow_block(self, points: Any, numbers: IndexArray, grade: float) -> IndexArray:
        """Take the points farther outside than `grade`, and return the numbers of those less far outside."""
        candidates: Any = numbers if self.kernel == "precomputed" else points
        values = self._values(points, candidates)
        anchored = self._values(points, self._anchors)
        # The relative rounding error of kernel values of this dtype.
        eps = max(_EPS, float(np.finfo(values.dtype).eps) if values.dtype.kind == "f" else _EPS)
        values = values.astype(np.float64, copy=False)
        with_origin = anchored[:, 0].astype(np.float64)
        largest = float(max(np.abs(values).max(), np.abs(with_origin).max()))
        if largest > LARGEST_VALUE**2:
            problem = f"kernel has values as large as {largest:.3g} on these points, whose third power overflows"
            raise ValueError(f"{problem}; scale the features, for instance with StandardScaler")
        if (np.abs(values - values.T) > eps ** (1 / 3) * largest).any():
            raise ValueError("kernel must be symmetric, k(x, y) = k(y, x)")
        gram = values - with_origin[:, None] - (with_origin - self._with_origin[0])
        norms = np.maximum(gram.diagonal(), 0.0)
        # Their rounding error is relative to the kernel values before x0 was subtracted.
        sizes = np.abs(values.diagonal()) + 2 * np.abs(with_origin) + abs(self._with_origin[0])
        if self.kernel == "cosine":
            sizes = np.sqrt(norms)  # x0 was subtracted from x, which has length 1 and is rounded relative to that
        # The squared distance from the span above which a point becomes a landmark. In units of its squared norm: a
        # point at distance T that is left out has coordinates wrong by up to √T. If it is taken, other points are
        # expressed in landmarks that close together, which turns the rounding error ε of kernel values into ε / T.
        # T = ε^⅔ balances the two: 3.7e-11 for float64. Distances of a few rounding errors count as zero.
        enough = np.maximum(np.cbrt(eps * sizes) ** 2 * np.cbrt(norms), np.maximum(64 * eps * sizes, _TINY))

        z = self._project(anchored)
        rest = gram - z @ z.T  # the Schur complement: inner products outside the span so far
        residual = rest.diagonal().copy()
        fresh = np.zeros_like(rest)  # the coordinates along the block's own landmarks
        chosen: list[int] = []
        for i in range(len(residual)):
            if residual[i] > max(grade * norms[i], enough[i]):
                j = len(chosen)
                fresh[i, j] = pivot = math.sqrt(residual[i] + _RIDGE * enough[i])
                fresh[i + 1 :, j] = (rest[i + 1 :, i] - fresh[i + 1 :, :j] @ fresh[i, :j]) / pivot
                residual[i + 1 :] -= fresh[i + 1 :, j] ** 2
                chosen.append(i)
        scale = max(float(sizes.max()), float(np.square(self._factor).sum(axis=1).max(initial=0.0)))
        if (residual < -(eps ** (1 / 6)) * scale).any():
            advice = "rounding errors have accumulated: grow over more points at once, or over shuffled points"
            problem = "kernel must be positive semi-definite, but its values on these points are no inner products"
            raise ValueError(f"{problem}; if it is, {advice}")
        if chosen:
            m = self.dimension
            factor = np.zeros((m + len(chosen),) * 2)
            factor[:m, :m] = self._factor
            factor[m:, :m] = z[chosen]
            factor[m:, m:] = fresh[chosen, : len(chosen)]
            stack: Any = sp.vstack if is_sparse(candidates) else np.concatenate
            anchors = stack([self._anchors, candidates[chosen]])
            self._set(anchors, np.concatenate([self._with_origin, with_origin[chosen]]), factor)
        residual[chosen] = 0.0
        return np.asarray(numbers[residual > enough])

    def _set(self, anchors: Any, with_origin: FloatArray, factor: FloatArray) -> None:
        self._anchors = sp.csr_array(anchors) if is_sparse(anchors) else anchors
        self._with_origin, self._factor = read_only(with_origin), read_only(factor)
        for array in to_arrays(self._anchors, "").values():
            read_only(array)
