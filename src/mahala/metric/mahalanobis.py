"""MahalanobisMetric: a distance `(x - x2)ᵀ M (x - x2)`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.comparisons import Comparisons, Pairs
from mahala.engine.inputs import apply_to_rows
from mahala.metric.base import Metric
from mahala.metric.explanation import Explanation
from mahala.metric.kernel_map import KernelMap
from mahala.metric.kernels import Kernel
from mahala.metric.matrices import (
    Decomposition,
    check_symmetric,
    decompose,
    decompose_low_rank,
    in_dtype,
    map_rows,
    squared_lengths,
)
from mahala.metric.plots import column_weights, leading_plane, plot_map
from mahala.metric.steps import Scales, Step
from mahala.metric.thresholds import Strategy, best_threshold
from mahala.support.arrays import FloatArray, Rows, RowsLike, read_only
from mahala.support.lazily import spatial_distance
from mahala.support.plots import draw_bars
from mahala.support.states import Array, Fields, Number, Objects
from mahala.support.validation import as_floats, is_chunked, is_sparse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Eigenvalues down to this share of the largest below zero are rounding: the matrix counts as PSD.
_PSD_SLACK = 1e-10
# Rows so many times as far from the center as any row learned from are far outside.
FAR = 3.0
# With fewer features, eigenvalues are computed in a second at most, and in milliseconds.
_MANY_FEATURES, _SEVERAL_FEATURES = 1_000, 200


@dataclass(frozen=True, eq=False, repr=False)
class MahalanobisMetric(Metric):
    """A Mahalanobis distance `(x - x2)ᵀ M (x - x2)`; immutable.

    Parameters
    ----------
    matrix : array of shape (n_features, n_features)
        M, symmetric.
    threshold : float or None, default=None
        The squared distance up to which a pair counts as similar.
    steps : sequence of Scales, UnitRows or KernelMap, default=()
        What is done to points, in this order, before M acts on them: features are divided by their scales, points by
        their lengths, or points mapped to the coordinates of a kernel.
    center : array of shape (n_features,) or None, default=None
        Mean of the rows learned from. `transform` and `rank` warn of rows that are far from it.
    radius : float or None, default=None
        The largest distance of a row learned from to `center`; rows at more than three times this distance are far.
    feature_names : sequence of str or None, default=None
        The name of each feature.
    origin : mapping or None, default=None
        Which learner with which parameters the metric comes from; it is stored in the file.
    preprocessor : TablePreprocessor or None, default=None
        With it, methods take data frames with text and gaps.

    Examples
    --------
    >>> metric = MahalanobisMetric([[4.0, 0.0], [0.0, 1.0]], threshold=2.0)
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
    >>> metric.margins(Pairs([[0.0, 0.0], [0.0, 1.0]], left=[0], right=[1])).tolist()
    [1.0]
    """

    kind: ClassVar[str] = "mahalanobis"
    FIELDS: ClassVar[Fields] = (
        Array("matrix", dtype=np.float64, shape=(None, None)),
        Number("threshold", optional=True),
        Objects("steps", base=Step),
        Array("center", optional=True, dtype=np.float64, shape=(None,)),
        Number("radius", optional=True, least=0.0),
    )
    _is_distance: ClassVar[bool] = True

    matrix: FloatArray
    threshold: float | None = None
    _: KW_ONLY
    steps: Sequence[Step] = ()
    center: FloatArray | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(step, Step) for step in self.steps):
            raise TypeError(f"steps must be Scales, UnitRows or KernelMap, got {self.steps!r:.80}")
        self._set("steps", tuple(self.steps))
        self._set("matrix", check_symmetric(self.matrix, may_be_empty=self.kernel is not None))
        n_features = self.n_features_in  # for which the steps must fit together
        if self.center is not None:
            center = read_only(as_floats(self.center, "center").copy())
            if center.shape != (n_features,) or not np.isfinite(center).all():
                raise ValueError(f"center must be {n_features} finite numbers, got shape {center.shape}")
            self._set("center", center)
        if self.threshold is not None:
            if not math.isfinite(float(self.threshold)):
                raise ValueError(f"threshold must be finite or None, got {self.threshold!r}")
            self._set("threshold", float(self.threshold))
        super().__post_init__()

    @classmethod
    def euclidean(cls, n_features: int) -> Self:
        """Return the Euclidean distance between points of n_features features."""
        return cls(np.eye(n_features))

    @cached_property
    def n_features_in(self) -> int:
        """The number of features of a point."""
        width = len(self.matrix)
        for step in reversed(self.steps):
            width = step.width_before(width)
        return width

    @property
    def kernel(self) -> Kernel | None:
        """The kernel in whose coordinates M acts, if there is one."""
        return next((step.kernel for step in self.steps if isinstance(step, KernelMap)), None)

    def plain(self) -> Self:
        """Return the metric before anything was learned: after the same steps, with the identity as its matrix."""
        return replace(self, matrix=np.eye(len(self.matrix)))

    def after(self, *steps: Step) -> Self:
        """Return the metric of rows to which some steps are applied first."""
        return replace(self, steps=(*steps, *self.steps))

    def learned_from(self, X: RowsLike) -> Self:
        """Return the metric with `center` and `radius` of the rows that it was learned from; sparse rows have none."""
        if is_sparse(X) or is_chunked(X) or not self._only_scales or not self.is_psd:
            return self
        rows = np.asarray(X, dtype=np.float64)
        center = rows.mean(axis=0)
        mapped = replace(self, center=None).transform(np.vstack([rows, center]))
        distances = np.sqrt(np.square(mapped[:-1] - mapped[-1]).sum(axis=1))
        return replace(self, center=center, radius=float(distances.max()))

    def in_features(self, n_features: int, name: str) -> Self:
        """Return the metric with scales in its matrix, to learn from rows with `n_features`.

        Raise a ValueError that calls it `name` if no matrix of this size is the same metric.
        """
        if not self._only_scales or self.n_features_in != n_features:
            problem = f"{name} must be a MahalanobisMetric of {n_features} features without a kernel or unit rows"
            raise ValueError(f"{problem}, got {self!r}")
        factors = self._prepared(np.ones(n_features))
        return type(self)(self.matrix * np.outer(factors, factors), threshold=self.threshold) if self.steps else self

    @cached_property
    def is_psd(self) -> bool:
        """Whether no eigenvalue is negative beyond rounding, so that distances are real."""
        return bool(self.spectrum.min(initial=0.0) >= -_PSD_SLACK * np.abs(self.spectrum).max(initial=0.0))

    @property
    def components(self) -> FloatArray:
        """L, n_components × d, with `M = Lᵀ L`: eigenvectors times the root of their eigenvalue, largest first."""
        self._require_psd("components")
        return self._roots[0]

    def distance(self, x: RowsLike, x2: RowsLike, *, squared: bool = False) -> Any:
        """Return the distance of two points (a float), or row by row (an array); either may be a single point."""
        if not squared:
            self._require_psd("distance (unless squared)")
        a, b = self._pair(x, x2)
        result = self._squared(a, b)
        if not squared:
            result = np.sqrt(result)
        return float(result) if a.ndim == b.ndim == 1 else result

    def pairwise(self, X: RowsLike, Y: RowsLike | None = None, *, squared: bool = False) -> FloatArray:
        """Return the distance of every row of X and every row of Y (None: X)."""
        rows = self._rows(X, "X")
        others = self._items(Y, "Y", rows)
        if not squared:
            self._require_psd("pairwise (unless squared)")
        positive, negative = self._roots
        result = _cross_distances(rows @ positive.T, others @ positive.T, squared)
        if len(negative):
            result -= _cross_distances(rows @ negative.T, others @ negative.T, squared)
        return result

    def transform(self, X: RowsLike) -> FloatArray:
        """Map points to `n_components` dimensions in which this metric is the Euclidean distance.

        Rows of float32 stay float32, but are computed in float64. Rows of Dask give an array that is not computed yet.
        """
        self._require_psd("transform")
        if is_chunked(X):
            self._check_width(X, "X")
            return apply_to_rows(self.transform, X, self.n_components)  # type: ignore[no-any-return]
        rows = self._rows(X, "X")
        mapped = map_rows(rows, self.components)
        self._warn_of_far_rows(rows, mapped)
        return mapped if mapped.dtype == np.float32 else in_dtype(mapped, getattr(X, "dtype", None))

    def _warn_of_far_rows(self, rows: Rows, mapped: FloatArray | None = None) -> None:
        """Warn of rows that are far outside of those learned from, and name the feature that is most to blame."""
        if self.center is None or not self.radius:
            return
        mapped = map_rows(rows, self.components) if mapped is None else mapped
        center = self._prepared(self.center)
        distances = np.sqrt(np.square(mapped - self.components @ center).sum(axis=1))
        far = np.flatnonzero(distances > FAR * self.radius)
        if not len(far):
            return
        worst = int(distances.argmax())
        row = rows[[worst]].toarray()[0] if is_sparse(rows) else np.asarray(rows[worst])
        blamed = int((np.abs(row - center) * np.sqrt(np.square(self.components).sum(axis=0))).argmax())
        warnings.warn(
            f"{len(far)} of {len(mapped)} rows are far outside of what the metric was learned from: row {worst} is "
            f"{distances[worst] / self.radius:.3g} times as far from the center as any row learned from, mostly "
            f"because of {self._names()[blamed]!r}",
            stacklevel=3,
        )

    def projected(self) -> Self:
        """Return the nearest metric with a PSD matrix: negative eigenvalues become zero."""
        return self if self.is_psd else self._leading(self.n_components)

    def truncate(self, k: int) -> Self:
        """Return the metric of the k leading directions only."""
        self._require_psd("truncate")
        return super().truncate(k)

    def explain(self, x: RowsLike, x2: RowsLike) -> Explanation:
        """Return the contributions to the squared distance of two points."""
        x, x2 = self._single_pair(x, x2)
        vectors, values, _ = self._decomposition
        v = x - x2
        total = float(v @ self.matrix @ v)
        directions = self._padded(values * (v @ vectors) ** 2)
        if self.kernel is not None:
            return Explanation(total, None, directions, None)
        return Explanation(total, v * (self.matrix @ v), directions, self._names())

    def map_2d(self, X: RowsLike) -> FloatArray:
        """Return the rows of X in two dimensions: the directions of their largest variance under this metric."""
        return leading_plane(self.transform(X))

    def plot_map(
        self,
        X: RowsLike,
        y: object = None,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        names: Sequence[object] | None = None,
    ) -> Axes:
        """Draw the rows of X in two dimensions, under the plain distance on the left and under this one on the right.

        The plain distance is that of the same features, scaled as for this metric. Of more than 2,000 rows a sample is
        drawn. Return Matplotlib's axes of this metric; `ax.figure.axes` has both.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,) or Comparisons or None, default=None
            Classes or numbers, which give points their colours; or Pairs, Triplets or Quadruplets of the rows of X,
            of which lines join those that are said to be near (of pairs, all), red if the distance contradicts it.
        ax : Axes or two Axes or None, default=None
            Where to draw; into one Axes, the learned map alone. None makes a figure.
        names : sequence or None, default=None
            What the rows are called; names that would overlap are left out.
        """
        return plot_map(self, X, y, ax, names)

    def column_weights(self, X: RowsLike | None = None) -> dict[str, float]:
        """Return the share of each column in the mean squared distance of two rows of X.

        The term of two columns is divided between them. So shares sum to 1, and one may be negative. Without X every
        feature counts as if it had, after the steps, the same variance: these are the shares of the diagonal of M.

        >>> metric = MahalanobisMetric([[4.0, 0.0], [0.0, 1.0]], feature_names=["length", "width"])
        >>> metric.column_weights([[0.0, 0.0], [1.0, 2.0]])
        {'length': 0.5, 'width': 0.5}
        >>> metric.column_weights()
        {'length': 0.8, 'width': 0.2}
        """
        if self.kernel is not None:
            raise ValueError("a metric with a kernel has no weights of columns")
        self._require_psd("column_weights")
        return column_weights(self, X)

    def plot_weights(self, X: RowsLike | None = None, ax: Axes | None = None) -> Axes:
        """Draw the largest `column_weights`; return Matplotlib's axes."""
        what = "weights, every feature in its own unit" if X is None else "mean squared distance"
        texts = {"title": "What distances consist of", "xlabel": f"share of the {what}"}
        return draw_bars(self.column_weights(X), ".0%", ax, **texts)

    def pair_distance(self, pairs: Pairs, *, squared: bool = False) -> FloatArray:
        """Return the distance of the two rows of each pair."""
        if not isinstance(pairs, Pairs):
            raise TypeError(f"pairs must be Pairs, got {type(pairs).__name__}")
        if not squared:
            self._require_psd("pair_distance (unless squared)")
        result = self._in_blocks(pairs, self._squared_of_pairs)
        return result if squared else np.sqrt(result)

    def calibrate_threshold(
        self,
        pairs: Pairs,
        y: ArrayLike | None = None,
        *,
        strategy: Strategy = "accuracy",
        beta: float = 1.0,
        min_rate: float = 0.5,
    ) -> Self:
        """Return the metric with the threshold that is best for labelled pairs; use pairs it was not learned from.

        Parameters
        ----------
        pairs : Pairs
            Pairs of both kinds.
        y : array of +1 / -1 or None, default=None
            Labels for pairs that have none.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What is maximised: the accuracy; the F-score of similar pairs; the true positive rate, where the true
            negative rate is at least `min_rate`; or the true negative rate, where the true positive rate is.
            Similar pairs are the positive ones.
        beta : float, default=1.0
            Weight of recall against precision in "f_beta".
        min_rate : float, default=0.5
            A share from 0 to 1.

        Examples
        --------
        >>> pairs = Pairs([[0.0], [1.0], [2.0], [5.0]], [0, 0, 0], [1, 2, 3], similar=[True, True, False])
        >>> metric = MahalanobisMetric.euclidean(1).calibrate_threshold(pairs)
        >>> metric.threshold, metric.predict_comparisons(pairs).tolist()
        (14.5, [1, 1, -1])
        """
        squared = self.pair_distance(pairs, squared=True)
        similar = np.asarray(pairs.labelled(y).similar)
        return replace(self, threshold=best_threshold(squared, similar, strategy, beta, min_rate))

    def margins(self, comparisons: Comparisons) -> FloatArray:
        """Return for each comparison by how much the metric agrees with it; negative if it disagrees.

        For Pairs the threshold (0 if there is none) minus the squared distance: positive means similar. For Triplets
        the squared distance from the anchor to the negative minus that to the positive, and for Quadruplets that of
        the far pair minus that of the near one.
        """
        if not isinstance(comparisons, Comparisons):
            kinds = "Pairs, Triplets or Quadruplets"
            raise TypeError(f"comparisons must be {kinds}, got {type(comparisons).__name__}")
        return self._in_blocks(comparisons, self._margins)

    def _scores(self, x: Rows, items: Rows) -> FloatArray:
        return -self.distance(x, items, squared=True)  # type: ignore[no-any-return]

    def _details(self) -> list[str]:
        kinds = [step.kind for step in self.steps]
        return kinds if self.threshold is None else [f"threshold={self.threshold:g}", *kinds]

    @property
    def _only_scales(self) -> bool:
        return all(isinstance(step, Scales) for step in self.steps)

    @cached_property
    def _is_diagonal(self) -> bool:
        return np.array_equal(self.matrix, np.diag(self.matrix.diagonal()))

    @cached_property
    def _decomposition(self) -> Decomposition:
        if not self._is_diagonal:
            low_rank = decompose_low_rank(self.matrix) if len(self.matrix) > _SEVERAL_FEATURES else None
            return decompose(self.matrix, symmetric=True) if low_rank is None else low_rank
        order = np.argsort(-self.matrix.diagonal(), kind="stable")
        vectors, values = np.eye(len(order))[:, order], self.matrix.diagonal()[order]
        return read_only(vectors), read_only(values), vectors

    @property
    def _rounding(self) -> float:
        # The eigenvalues of a diagonal matrix are exact, however far apart.
        return 0.0 if self._is_diagonal else super()._rounding

    @cached_property
    def spectrum(self) -> FloatArray:
        """The eigenvalues of M, largest first."""
        return read_only(self._padded(self._decomposition[1]))

    def _padded(self, values: FloatArray) -> FloatArray:
        """Return values of all directions: 0 for those that a decomposition of low rank leaves out."""
        return np.pad(values, (0, len(self.matrix) - len(values)))

    @cached_property
    def _roots(self) -> tuple[FloatArray, FloatArray]:
        """P and N with `M = PᵀP - NᵀN`; N has no rows if M counts as PSD."""
        vectors, values, _ = self._decomposition
        positive, negative = values > self._rounding, values < -self._rounding
        if self.is_psd:
            negative[:] = False
        P, N = ((vectors[:, chosen] * np.sqrt(np.abs(values[chosen]))).T for chosen in (positive, negative))
        return read_only(P), read_only(N)

    def _squared(self, x: Rows, x2: Rows) -> FloatArray:
        if self._is_costly(x) and not is_sparse(x) and not is_sparse(x2):
            v = x - x2
            return np.asarray(((v @ self.matrix) * v).sum(axis=-1))
        positive, negative = self._roots
        result: FloatArray = squared_lengths(x, x2, positive)
        return result - squared_lengths(x, x2, negative) if len(negative) else result

    def _is_costly(self, x: Rows) -> bool:
        """Whether eigenvalues, which are not known yet, would take longer than a product of these points with M."""
        n = 1 if x.ndim == 1 else x.shape[0]
        many = len(self.matrix) > _MANY_FEATURES and n < len(self.matrix)
        return many and "_decomposition" not in vars(self) and not self._is_diagonal

    def _embed(self, X: RowsLike, item: bool) -> FloatArray:
        return self.transform(X)

    def _squared_of_pairs(self, pairs: Comparisons, block: slice | int) -> FloatArray:
        return self._squared(*self._compared(pairs, block))

    def _margins(self, comparisons: Comparisons, block: slice | int) -> FloatArray:
        if isinstance(comparisons, Pairs):
            return (self.threshold or 0.0) - self._squared_of_pairs(comparisons, block)
        rows = list(self._compared(comparisons, block))
        far = rows[::2] if len(rows) == 3 else rows[2:]  # an anchor is in both pairs
        return self._squared(*far) - self._squared(*rows[:2])

    def _prepared(self, X: Rows) -> Any:
        for step in self.steps:
            X = step.apply(X)
        return super()._prepared(X)

    def _require_psd(self, what: str) -> None:
        if not self.is_psd:
            problem = f"the smallest eigenvalue is {self.spectrum.min():.3g}"
            advice = "call .projected() and use the metric that it returns"
            raise ValueError(f"{what} needs a positive semi-definite matrix, but {problem}: {advice}")


def _cross_distances(rows: FloatArray, others: FloatArray, squared: bool) -> FloatArray:
    if rows.shape[1] == 0:
        return np.zeros((len(rows), len(others)))
    # cdist subtracts before it squares; the faster matrix product would lose the digits of close points.
    return spatial_distance.cdist(rows, others, "sqeuclidean" if squared else "euclidean")
