"""Coordinates of points in the span of kernel landmarks: what lets a linear learner work under a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels

from mahala.files import ModelFileError, array_value, header_value
from mahala.validation import check_indices, check_rows

FloatArray = NDArray[np.float64]
Kernel = str | Callable[[Any, Any], Any]

# The named kernels and the parameters that each takes.
KERNELS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "rbf": ("gamma",),
    "poly": ("gamma", "degree", "coef0"),
    "cosine": (),
    "precomputed": (),
}

_BLOCK = 256
# Points are taken in their order, but those far from the span before those close to it. Were close points taken
# as they come, a smooth kernel on points along a curve would write the far end of it in landmarks that crowd at
# its beginning, and rounding would grow beyond every bound.
_GRADES = (1e-3, 1e-6, 0.0)
_TINY = float(np.finfo(np.float64).tiny)


class KernelMap:
    """Coordinates `z` with `z(x)ᵀ z(y) = k(x, y)` for the points it has grown over.

    Landmarks are the points that lay outside the span of those before them; L is the lower Cholesky factor of
    their kernel matrix, and `z(x) = L⁻¹ k(landmarks, x)`. Growing only appends coordinates: those of earlier
    points stay as they are, with zeros behind. For a point that is new to the map, z is its projection on the
    span.

    `kernel` is "linear", "rbf", "poly" or "cosine" with `params` such as gamma (None: 1 / number of
    features), or "precomputed", or a function that takes two blocks of rows and returns the matrix of their
    kernel values.

    >>> points = KernelMap("linear")
    >>> points.grow([[2.0, 0.0], [4.0, 0.0], [1.0, 3.0]])
    >>> points.dimension
    2
    >>> points.coordinates([[4.0, 0.0], [0.0, 3.0]]).tolist()
    [[4.0, 0.0], [0.0, 3.0]]
    """

    def __init__(self, kernel: Kernel, params: dict[str, Any] | None = None) -> None:
        self.kernel = kernel
        self.params = _check_params(kernel, params or {})
        self.n_features_in: int | None = None
        # Arrays are replaced when the map grows, never written to: copies share them.
        self._factor: FloatArray = np.zeros((0, 0))
        self._landmarks: Any = None
        self._scale = 0.0  # the largest k(x, x) so far
        self._frozen = False

    @property
    def dimension(self) -> int:
        """The number of landmarks, and so of coordinates."""
        return len(self._factor)

    @property
    def landmarks(self) -> Any:
        """The landmarks' rows, dense or CSR; their column numbers where the kernel is precomputed."""
        return self._landmarks

    @property
    def factor(self) -> FloatArray:
        """The lower Cholesky factor L of the landmarks' kernel matrix."""
        return self._factor

    def grow(self, X: Any, rows: ArrayLike | None = None) -> None:
        """Make landmarks of those points of X (of its `rows`, where given) that lie outside the span so far.

        For a precomputed kernel X is the square kernel matrix of all the points, the same in every call.
        A call that fails leaves the map as it was.
        """
        if self._frozen:
            raise ValueError("this kernel map is frozen: grow a copy() of it")
        if is_sparse(X):
            X = X.tocsr()
        elif not (isinstance(X, np.ndarray) and X.ndim == 2):
            X = check_rows(X)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be the square kernel matrix where kernel='precomputed', got shape {X.shape}")
        numbers = np.arange(X.shape[0]) if rows is None else check_indices(rows, X.shape[0], "rows")
        before = self.__dict__.copy()
        try:
            for grade in _GRADES:
                blocks = [numbers[start : start + _BLOCK] for start in range(0, len(numbers), _BLOCK)]
                left = [self._grow_block(self._points(X[block]), block, grade) for block in blocks]
                numbers = np.concatenate([numbers[:0], *left])
        except BaseException:
            self.__dict__.update(before)
            raise

    def coordinates(self, X: Any) -> FloatArray:
        """The coordinates of each row of X.

        For a precomputed kernel a row holds the point's kernel values with all the points learned on.
        """
        if self._landmarks is None:
            raise ValueError("this kernel map is empty: call grow first")
        X = check_rows(X)
        result = np.empty((X.shape[0], self.dimension))
        for start in range(0, X.shape[0], _BLOCK):
            block = slice(start, start + _BLOCK)
            result[block] = self._project(self._points(X[block]))
        return result

    def copy(self) -> KernelMap:
        """An independent map that can grow on."""
        return self._duplicate(frozen=False)

    def freeze(self) -> KernelMap:
        """An independent map that never changes; the map itself where it is frozen already."""
        return self if self._frozen else self._duplicate(frozen=True)

    def to_arrays(self) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
        """The map as a header and arrays for a model file."""
        if not isinstance(self.kernel, str):
            raise ValueError(
                f"kernel is a function, which a model file cannot hold: use one of the named {list(KERNELS)}"
            )
        header: dict[str, object] = {
            "kernel": self.kernel,
            "params": dict(self.params),
            "n_features_in": self.n_features_in,
        }
        arrays: dict[str, NDArray[Any]] = {"kernel_factor": self._factor}
        if is_sparse(self._landmarks):
            arrays["kernel_landmarks_data"] = self._landmarks.data
            arrays["kernel_landmarks_indices"] = self._landmarks.indices.astype(np.int64)
            arrays["kernel_landmarks_indptr"] = self._landmarks.indptr.astype(np.int64)
        elif self._landmarks is not None:
            arrays["kernel_landmarks"] = self._landmarks
        return header, arrays

    @classmethod
    def from_arrays(cls, header: dict[str, object], arrays: dict[str, NDArray[Any]]) -> KernelMap:
        """The map that `to_arrays` took apart; a ModelFileError where the parts do not fit together."""
        try:
            result = cls(header_value(header, "kernel", str), header_value(header, "params", dict))
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"the kernel is damaged: {error}") from error
        factor = array_value(arrays, "kernel_factor", np.float64, (None, None))
        m = len(factor)
        if factor.shape != (m, m) or not np.isfinite(factor).all() or np.triu(factor, 1).any():
            raise ModelFileError("array 'kernel_factor' should be square, finite and lower triangular")
        if not (factor.diagonal() > 0).all():
            raise ModelFileError("array 'kernel_factor' should have a positive diagonal")
        factor.flags.writeable = False
        result._factor = factor
        with np.errstate(over="ignore"):
            result._scale = float(np.square(factor).sum(axis=1).max(initial=0.0))
        if header_value(header, "n_features_in", int, type(None)) is not None:
            result.n_features_in = header_value(header, "n_features_in", int)
            result._landmarks = _read_landmarks(arrays, result.kernel == "precomputed", m, result.n_features_in)
        elif m:
            raise ModelFileError("header entry 'n_features_in' should be int, as there are landmarks, found None")
        return result

    def _duplicate(self, frozen: bool) -> KernelMap:
        result = KernelMap(self.kernel, self.params)
        result.n_features_in = self.n_features_in
        result._landmarks = self._landmarks
        result._factor = self._factor
        result._scale = self._scale
        result._frozen = frozen
        return result

    def _points(self, X: Any) -> Any:
        """Rows as float64, so that the kernel loses no digits, and dense or CSR as the landmarks are."""
        X = check_rows(X)
        if X.shape[1] != (self.n_features_in or X.shape[1]):
            raise ValueError(f"X has {X.shape[1]} features, but this kernel map is of points of {self.n_features_in}")
        if self.kernel == "precomputed":
            return X.toarray() if is_sparse(X) else X  # its dtype tells how precise the kernel values are
        if is_sparse(X if self._landmarks is None else self._landmarks):
            return sp.csr_array(X, dtype=np.float64)
        return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)

    def _values(self, points: Any, others: Any) -> NDArray[Any]:
        """The kernel values of points (rows) with others (columns; their numbers where precomputed)."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kernel == "precomputed":
                values = points[:, others]
            elif not isinstance(self.kernel, str):
                values = self.kernel(points, others)
            elif self.kernel == "rbf" and not is_sparse(points):
                # scikit-learn expands the square, which for far-off points loses the digits that tell equal
                # points from close ones.
                gamma = self.params.get("gamma")
                gamma = 1 / points.shape[1] if gamma is None else gamma
                values = np.exp(-gamma * cdist(points, others, "sqeuclidean"))
            else:
                values = pairwise_kernels(points, others, metric=self.kernel, **self.params)
        values = np.asarray(values.toarray() if is_sparse(values) else values)
        if values.shape != (points.shape[0], others.shape[0]):
            raise ValueError(
                f"kernel must return a value for each pair, a {points.shape[0]}×{others.shape[0]} matrix, "
                f"got shape {values.shape}"
            )
        if values.dtype.kind not in "fiub":
            raise ValueError(f"kernel must return real numbers, got dtype {values.dtype}")
        if not np.isfinite(values).all():
            raise ValueError(
                "kernel must return finite values, got NaN or infinity: scale the features or its parameters"
            )
        return values

    def _project(self, points: Any) -> FloatArray:
        """Coordinates in the span so far."""
        if not self.dimension:
            return np.empty((points.shape[0], 0))
        values = self._values(points, self._landmarks).astype(np.float64, copy=False)
        z: FloatArray = solve_triangular(self._factor, values.T, lower=True, check_finite=False)
        return z.T

    def _grow_block(self, points: Any, numbers: NDArray[np.intp], grade: float) -> NDArray[np.intp]:
        """Take the points farther outside than `grade`, and return the numbers of those less far outside."""
        candidates = numbers if self.kernel == "precomputed" else points
        gram = self._values(points, candidates)
        share = _landmark_share(gram.dtype)
        gram = gram.astype(np.float64, copy=False)
        norms = gram.diagonal()
        scale = max(self._scale, float(np.abs(gram).max()))
        if (np.abs(gram - gram.T) > math.sqrt(share) * scale).any():
            raise ValueError("kernel must be symmetric, k(x, y) = k(y, x)")
        if (norms < -math.sqrt(share) * scale).any():
            raise ValueError(f"kernel must be positive semi-definite, got k(x, x) = {norms.min():.3g}")

        z = self._project(points)
        rest = gram - z @ z.T  # the Schur complement: inner products outside the span so far
        residual = rest.diagonal().copy()
        fresh = np.zeros_like(rest)  # the coordinates along the block's own landmarks
        chosen: list[int] = []
        for i in range(len(residual)):
            if residual[i] > max(max(grade, share) * norms[i], _TINY):
                j = len(chosen)
                fresh[i, j] = pivot = math.sqrt(residual[i])
                fresh[i + 1 :, j] = (rest[i + 1 :, i] - fresh[i + 1 :, :j] @ fresh[i, :j]) / pivot
                residual[i + 1 :] -= fresh[i + 1 :, j] ** 2
                chosen.append(i)
        if (residual < -(share**0.25) * scale).any():
            raise ValueError(
                "kernel must be positive semi-definite, but its values between these points are no inner products; "
                "if it is, then rounding has piled up: grow over more points at once, or over shuffled points"
            )
        self._append(candidates[chosen], np.hstack([z[chosen], fresh[chosen, : len(chosen)]]))
        self.n_features_in = points.shape[1]
        self._scale = max(self._scale, float(norms.max()))
        residual[chosen] = 0.0
        return numbers[residual > np.maximum(share * norms, _TINY)]

    def _append(self, landmarks: Any, factor_rows: FloatArray) -> None:
        m = self.dimension
        if len(factor_rows):
            larger = np.zeros((m + len(factor_rows),) * 2)
            larger[:m, :m] = self._factor
            larger[m:] = factor_rows
            larger.flags.writeable = False
            self._factor = larger
        if self._landmarks is None:
            self._landmarks = landmarks
        elif is_sparse(landmarks):
            self._landmarks = sp.vstack([self._landmarks, landmarks], format="csr")
        else:
            self._landmarks = np.concatenate([self._landmarks, landmarks])
        for array in _arrays_of(self._landmarks):
            array.flags.writeable = False


def is_sparse(X: Any) -> bool:
    """SciPy's issparse, without its narrowing to a static type that has no attributes."""
    return bool(sp.issparse(X))


def _landmark_share(dtype: np.dtype[Any]) -> float:
    """A point becomes a landmark where its squared distance from the span exceeds this share of k(x, x).

    A point that is left out has coordinates wrong by up to √T, T being the share. One that is taken in lets
    other points be written in landmarks that close together, which makes of the rounding ε of kernel values an
    error of ε / T. T = ε^⅔ balances the two: 3.7e-11 for float64.
    """
    eps = np.finfo(dtype).eps if dtype.kind == "f" else 0.0
    return math.pow(max(eps, np.finfo(np.float64).eps), 2 / 3)


def _arrays_of(landmarks: Any) -> list[NDArray[Any]]:
    return [landmarks.data, landmarks.indices, landmarks.indptr] if is_sparse(landmarks) else [landmarks]


def _check_params(kernel: Kernel, params: dict[str, Any]) -> dict[str, Any]:
    if callable(kernel):
        known: tuple[str, ...] = ()
    elif isinstance(kernel, str) and kernel in KERNELS:
        known = KERNELS[kernel]
    else:
        raise ValueError(f"kernel must be one of {list(KERNELS)} or a function of two blocks of rows, got {kernel!r}")
    for name, value in params.items():
        if name not in known:
            raise ValueError(f"kernel {kernel!r} takes {list(known) or 'no parameters'}, got {name!r} in params")
        if name == "gamma" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"params[{name!r}] must be a finite number, got {value!r}")
        if name == "gamma" and value < 0:
            raise ValueError(f"params['gamma'] must not be negative, got {value!r}")
        if name == "degree" and value < 1:
            raise ValueError(f"params['degree'] must be at least 1, got {value!r}")
    return dict(params)


def _read_landmarks(arrays: dict[str, NDArray[Any]], precomputed: bool, m: int, n_features: int) -> Any:
    landmarks: Any
    if precomputed:
        landmarks = array_value(arrays, "kernel_landmarks", np.int64, (m,))
        valid = n_features > 0 and bool(((landmarks >= 0) & (landmarks < n_features)).all())
    elif "kernel_landmarks_indptr" in arrays:
        data = array_value(arrays, "kernel_landmarks_data", np.float64, (None,))
        indices = array_value(arrays, "kernel_landmarks_indices", np.int64, data.shape)
        indptr = array_value(arrays, "kernel_landmarks_indptr", np.int64, (m + 1,))
        try:
            landmarks = sp.csr_array((data, indices, indptr), shape=(m, n_features))
            landmarks.check_format(full_check=True)
        except ValueError as error:
            raise ModelFileError(f"the kernel's landmarks are damaged: {error}") from error
        valid = bool(np.isfinite(data).all())
    else:
        landmarks = array_value(arrays, "kernel_landmarks", np.float64, (m, n_features))
        valid = bool(np.isfinite(landmarks).all())
    if not valid:
        raise ModelFileError("the kernel's landmarks are damaged: they hold impossible values")
    for array in _arrays_of(landmarks):
        array.flags.writeable = False
    return landmarks
