"""Coordinates of points in the span of kernel landmarks, with which a linear learner works under a kernel."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.metric.kernels import Kernel, check_kernel, kernel_values
from mahala.metric.matrices import MatrixField, to_arrays
from mahala.metric.steps import Step
from mahala.support.arrays import FloatArray, IndexArray, RealArray, Rows, read_only, slices
from mahala.support.lazily import linalg, sp
from mahala.support.states import Array, Entry, Fields, Integer
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


@dataclass(frozen=True, eq=False, repr=False)
class KernelMap(Step):
    """Coordinates `z` with `z(x)ᵀ z(y) = ⟨φ(x) - φ(x0), φ(y) - φ(x0)⟩` for the points it has grown over; immutable.

    φ is the kernel's feature map and x0 the first point: learners use only differences of points, and relative to
    one of the points no digits are lost to a shared offset. Landmarks are the points that lay outside the span of
    those before them; L is the lower Cholesky factor of the matrix of their inner products, and
    `z(x) = L⁻¹ ⟨φ(landmarks) - φ(x0), φ(x) - φ(x0)⟩`. Growing only appends coordinates: those of earlier points do not
    change, and are followed by zeros. For a point that is new to the map, z is its projection on the span.

    `kernel` is "linear", "rbf", "poly" or "cosine" with `params` such as gamma (None: 1 / number of features), or
    "precomputed", or a function that takes two blocks of rows and returns the matrix of their kernel values.

    >>> points = KernelMap("linear").grow([[1.0, 1.0], [3.0, 1.0], [5.0, 1.0], [1.0, 4.0]])
    >>> points.dimension
    2
    >>> points.apply(np.array([[1.0, 1.0], [5.0, 1.0], [0.0, 4.0]])).round(9).tolist()
    [[0.0, 0.0], [4.0, 0.0], [-1.0, 3.0]]
    """

    kind: ClassVar[str] = "kernel_map"
    FIELDS: ClassVar[Fields] = (
        Entry("kernel", type=str),
        Entry("params", type=dict),
        Integer("n_features_in"),
        MatrixField("anchors"),
        Array("with_origin", dtype=np.float64, shape=(None,)),
        Array("factor", dtype=np.float64, shape=(None, None)),
    )

    kernel: Kernel
    params: dict[str, Any] = field(default_factory=dict)
    n_features_in: int | None = None
    # What `grow` makes: x0 and the landmarks, as rows, or as numbers of columns if the kernel is precomputed; what
    # `_values` returns for them with x0; and L.
    anchors: Any = None
    with_origin: FloatArray = field(default_factory=lambda: np.zeros(0))
    factor: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", check_kernel(self.kernel, self.params))
        if self.anchors is None:
            return
        m, named = self.dimension, self.kernel == "precomputed"
        shapes = self.anchors.shape, self.with_origin.shape, self.factor.shape
        if shapes != ((m + 1,) if named else (m + 1, self.n_features_in), (m + 1,), (m, m)):
            raise ValueError(f"the shapes of anchors, with_origin and factor do not fit together: {shapes}")
        if np.triu(self.factor, 1).any() or not (self.factor.diagonal() > 0.0).all():
            raise ValueError("factor must be lower triangular, with a positive diagonal")
        if named and not 0 <= self.anchors.min() <= self.anchors.max() < (self.n_features_in or 0):
            raise ValueError(f"anchors must be numbers of columns, up to {self.n_features_in} of them")
        for array in (self.with_origin, self.factor, *to_arrays(self.anchors, "").values()):
            read_only(array)

    @property
    def dimension(self) -> int:
        """The number of landmarks, and so of coordinates."""
        return len(self.factor)

    def grow(self, X: Rows, rows: ArrayLike | None = None) -> Self:
        """Return the map with more landmarks: points of X (or of its `rows`) that lie outside the span so far.

        The very first point is the origin. For a precomputed kernel X is the square kernel matrix of all points, the
        same in every call.
        """
        if is_sparse(X):
            X = X.tocsr()
        elif not (isinstance(X, np.ndarray) and X.ndim == 2):
            X = check_rows(X)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be the square kernel matrix if kernel='precomputed', got shape {X.shape}")
        numbers = np.arange(X.shape[0]) if rows is None else check_indices(rows, X.shape[0], "rows")
        grown = self
        if self.anchors is None and len(numbers):
            origin = self._points(check_rows(X[numbers[:1]]))
            anchors = numbers[:1].copy() if self.kernel == "precomputed" else origin
            value = kernel_values(self.kernel, self.params, origin, anchors, anchors).astype(np.float64)
            grown = replace(self, n_features_in=origin.shape[1], anchors=anchors, with_origin=value[0])
        for grade in _GRADES:
            left = [numbers[:0]]
            for block in slices(len(numbers), _BLOCK):
                points = grown._points(check_rows(X[numbers[block]]))
                grown, inside = grown._with_block(points, numbers[block], grade)
                left.append(inside)
            numbers = np.concatenate(left)
        return grown

    def apply(self, X: Any) -> FloatArray:
        """Return the coordinates of valid rows, or of one dense point.

        For a precomputed kernel a row holds the point's kernel values with all training points.
        """
        if self.anchors is None:
            raise ValueError("this kernel map is empty: call grow first")
        if X.ndim == 1:
            return np.asarray(self.apply(X[np.newaxis])[0])
        result = np.empty((X.shape[0], self.dimension))
        for block in slices(X.shape[0], _BLOCK):
            result[block] = self._project(self._values(self._points(X[block]), self.anchors))
        return result

    def width_before(self, width: int) -> int:
        """Return the number of features of its points; raise ValueError if it has not as many coordinates."""
        if self.n_features_in is None or self.anchors is None:
            raise ValueError("a kernel map must have grown over some points")
        if width != self.dimension:
            raise ValueError(f"matrix must have {self.dimension} rows, the coordinates of the kernel map, got {width}")
        return self.n_features_in

    def _points(self, X: Any) -> Any:
        """Valid rows as float64, so that the kernel loses no digits, and dense or CSR as the anchors are."""
        if X.shape[1] != (self.n_features_in or X.shape[1]):
            raise ValueError(f"X has {X.shape[1]} features, but this kernel map maps points of {self.n_features_in}")
        if self.kernel == "precomputed":
            return X.toarray() if is_sparse(X) else X  # its dtype tells the precision of the kernel values
        if is_sparse(X if self.anchors is None else self.anchors):
            return sp.csr_array(X, dtype=np.float64)
        return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)

    def _values(self, points: Rows, others: Rows) -> RealArray:
        """The values of `kernel_values`; what is subtracted from them later is zero if they are relative to x0."""
        return kernel_values(self.kernel, self.params, points, others, self.anchors[:1])

    def _project(self, values: RealArray) -> FloatArray:
        """Coordinates in the span so far, from the values with the anchors."""
        if not self.dimension:
            return np.empty((len(values), 0))
        values = values.astype(np.float64, copy=False)
        relative = values[:, 1:] - values[:, :1] - (self.with_origin[1:] - self.with_origin[0])
        z: FloatArray = linalg.solve_triangular(self.factor, relative.T, lower=True, check_finite=False)
        return z.T

    def _with_block(self, points: Rows, numbers: IndexArray, grade: float) -> tuple[Self, IndexArray]:
        """Return the map with the points farther outside than `grade`, and the numbers of those less far outside."""
        candidates: Any = numbers if self.kernel == "precomputed" else points
        values = self._values(points, candidates)
        anchored = self._values(points, self.anchors)
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
        gram = values - with_origin[:, None] - (with_origin - self.with_origin[0])
        norms = np.maximum(gram.diagonal(), 0.0)
        # Their rounding error is relative to the kernel values before x0 was subtracted.
        sizes = np.abs(values.diagonal()) + 2 * np.abs(with_origin) + abs(self.with_origin[0])
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
        scale = max(float(sizes.max()), float(np.square(self.factor).sum(axis=1).max(initial=0.0)))
        if (residual < -(eps ** (1 / 6)) * scale).any():
            advice = "rounding errors have accumulated: grow over more points at once, or over shuffled points"
            problem = "kernel must be positive semi-definite, but its values on these points are no inner products"
            raise ValueError(f"{problem}; if it is, {advice}")
        residual[chosen] = 0.0
        left = np.asarray(numbers[residual > enough])
        if not chosen:
            return self, left
        m = self.dimension
        factor = np.zeros((m + len(chosen),) * 2)
        factor[:m, :m] = self.factor
        factor[m:, :m] = z[chosen]
        factor[m:, m:] = fresh[chosen, : len(chosen)]
        stack: Any = sp.vstack if is_sparse(candidates) else np.concatenate
        anchors = stack([self.anchors, candidates[chosen]])
        anchors = sp.csr_array(anchors) if is_sparse(anchors) else anchors
        values_with_origin = np.concatenate([self.with_origin, with_origin[chosen]])
        return replace(self, anchors=anchors, with_origin=values_with_origin, factor=factor), left
