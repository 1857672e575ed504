"""MahalanobisMetric: a distance `(x - x2)ᵀ M (x - x2)`."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mahala.comparisons import Comparisons, Pairs
from mahala.data.scaling import divided, unit_length
from mahala.engine.inputs import apply_to_rows
from mahala.metric.base import Metric
from mahala.metric.explanation import Explanation
from mahala.metric.kernel_map import KernelMap
from mahala.metric.matrices import Decomposition, check_symmetric, decompose, in_dtype, map_rows, squared_lengths
from mahala.metric.plots import column_weights, leading_plane, plot_map
from mahala.metric.thresholds import Strategy, best_threshold
from mahala.support.arrays import Arrays, FloatArray, read_only
from mahala.support.lazily import spatial_distance
from mahala.support.model_files import array_value, header_value, number_value
from mahala.support.plots import draw_bars
from mahala.support.validation import as_floats, is_chunked, is_sparse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Eigenvalues down to this share of the largest below zero are rounding: the matrix counts as PSD.
_PSD_SLACK = 1e-10
# Rows so many times as far from the center as any row learned from are far outside.
FAR = 3.0
# With fewer features, eigenvalues are computed in a second at most.
_MANY_FEATURES = 1_000


@dataclass(frozen=True, eq=False, repr=False)
class MahalanobisMetric(Metric):
    """A Mahalanobis distance `(x - x2)ᵀ M (x - x2)`; immutable.

    Parameters
    ----------
    matrix : array of shape (n_features, n_features)
        M, symmetric.
    threshold : float or None, default=None
        The squared distance up to which a pair counts as similar.
    kernel_map : KernelMap or None, default=None
        Maps points to kernel coordinates, on which M then acts.
    scales : array of shape (n_features,) or None, default=None
        Each feature is divided by its scale first, so that a metric of scaled features serves raw ones.
    unit_rows : bool, default=False
        Whether points are divided by their length, after `scales`, so that distances are those of directions.
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
    _is_distance: ClassVar[bool] = True

    matrix: FloatArray
    threshold: float | None = None
    _: KW_ONLY
    kernel_map: KernelMap | None = None
    scales: FloatArray | None = None
    unit_rows: bool = False
    center: FloatArray | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        kernel_map = self.kernel_map
        if kernel_map is not None:
            if not isinstance(kernel_map, KernelMap):
                raise TypeError(f"kernel_map must be a KernelMap, got {type(kernel_map).__name__}")
            if kernel_map.n_features_in is None:
                raise ValueError("kernel_map must have grown over some points")
            self._set("kernel_map", kernel_map.freeze())
        self._set("matrix", check_symmetric(self.matrix, None if kernel_map is None else kernel_map.dimension))
        for name, given in (("scales", self.scales), ("center", self.center)):
            if given is not None:
                vector = read_only(as_floats(given, name).copy())
                if vector.shape != (self.n_features_in,) or not np.isfinite(vector).all():
                    raise ValueError(f"{name} must be {self.n_features_in} finite numbers, got shape {vector.shape}")
                self._set(name, vector)
        if self.scales is not None and not (self.scales > 0.0).all():
            raise ValueError("scales must be positive and finite")
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
        if self.kernel_map is not None and self.kernel_map.n_features_in is not None:
            return self.kernel_map.n_features_in
        return len(self.matrix)

    def learned_from(self, X: Any) -> Self:
        """Return the metric with `center` and `radius` of the rows that it was learned from; sparse rows have none."""
        if self.unit_rows or is_sparse(X) or is_chunked(X) or self.kernel_map is not None or not self.is_psd:
            return self
        center = np.asarray(X, dtype=np.float64).mean(axis=0)
        mapped = replace(self, center=None).transform(np.vstack([X, center]))
        distances = np.sqrt(np.square(mapped[:-1] - mapped[-1]).sum(axis=1))
        return replace(self, center=center, radius=float(distances.max()))

    def in_features(self, n_features: int, name: str) -> Self:
        """Return the metric with `scales` in its matrix, to learn from rows with `n_features`.

        Raise a ValueError that calls it `name` if no matrix of this size is the same metric.
        """
        if self.kernel_map is not None or self.unit_rows or self.n_features_in != n_features:
            problem = f"{name} must be a MahalanobisMetric of {n_features} features without a kernel or unit rows"
            raise ValueError(f"{problem}, got {self!r}")
        if self.scales is None:
            return self
        return type(self)(self.matrix / np.outer(self.scales, self.scales), threshold=self.threshold)

    @cached_property
    def is_psd(self) -> bool:
        """Whether no eigenvalue is negative beyond rounding, so that distances are real."""
        return bool(self.spectrum.min(initial=0.0) >= -_PSD_SLACK * np.abs(self.spectrum).max(initial=0.0))

    @property
    def components(self) -> FloatArray:
        """L, n_components × d, with `M = Lᵀ L`: eigenvectors times the root of their eigenvalue, largest first."""
        self._require_psd("components")
        return self._roots[0]

    def distance(self, x: Any, x2: Any, *, squared: bool = False) -> Any:
        """Return the distance of two points (a float), or row by row (an array); either may be a single point."""
        if not squared:
            self._require_psd("distance (unless squared)")
        x, x2 = self._pair(x, x2)
        result = self._squared(x, x2)
        if not squared:
            result = np.sqrt(result)
        return float(result) if x.ndim == x2.ndim == 1 else result

    def pairwise(self, X: Any, Y: Any = None, *, squared: bool = False) -> FloatArray:
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

    def transform(self, X: Any) -> FloatArray:
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

    def _warn_of_far_rows(self, rows: Any, mapped: FloatArray | None = None) -> None:
        """Warn of rows that are far outside of those learned from, and name the feature that is most to blame."""
        if self.center is None or not self.radius:
            return
        mapped = map_rows(rows, self.components) if mapped is None else mapped
        center = self.center if self.scales is None else self.center / self.scales
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

    def explain(self, x: Any, x2: Any) -> Explanation:
        """Return the contributions to the squared distance of two points."""
        x, x2 = self._single_pair(x, x2)
        vectors, values, _ = self._decomposition
        v = x - x2
        total = float(v @ self.matrix @ v)
        directions = values * (v @ vectors) ** 2
        if self.kernel_map is not None:
            return Explanation(total, None, directions, None)
        return Explanation(total, v * (self.matrix @ v), directions, self._names())

    def map_2d(self, X: Any) -> FloatArray:
        """Return the rows of X in two dimensions: the directions of their largest variance under this metric."""
        return leading_plane(self.transform(X))

    def plot_map(
        self,
        X: Any,
        y: object = None,
        ax: "Axes | Sequence[Axes] | None" = None,
        *,
        names: Sequence[object] | None = None,
    ) -> "Axes":
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

    def column_weights(self, X: Any = None) -> dict[str, float]:
        """Return the share of each column in the mean squared distance of two rows of X.

        The term of two columns is divided between them. So shares sum to 1, and one may be negative. Without X every
        feature counts as if it had, after `scales`, the same variance: these are the shares of the diagonal of M.

        >>> metric = MahalanobisMetric([[4.0, 0.0], [0.0, 1.0]], feature_names=["length", "width"])
        >>> metric.column_weights([[0.0, 0.0], [1.0, 2.0]])
        {'length': 0.5, 'width': 0.5}
        >>> metric.column_weights()
        {'length': 0.8, 'width': 0.2}
        """
        if self.kernel_map is not None:
            raise ValueError("a metric with a kernel has no weights of columns")
        self._require_psd("column_weights")
        return column_weights(self, X)

    def plot_weights(self, X: Any = None, ax: "Axes | None" = None) -> "Axes":
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
        self, pairs: Pairs, y: Any = None, *, strategy: Strategy = "accuracy", beta: float = 1.0, min_rate: float = 0.5
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

    def to_parts(self) -> tuple[dict[str, object], Arrays]:
        """Return the metric as a header and arrays for a model file."""
        header, arrays = super().to_parts()
        header |= {"threshold": self.threshold, "unit_rows": self.unit_rows}
        if self.kernel_map is not None:
            header["kernel_map"], kernel_arrays = self.kernel_map.to_arrays()
            arrays |= kernel_arrays
        if self.scales is not None:
            arrays["scales"] = self.scales
        if self.center is not None:
            arrays["center"], header["radius"] = self.center, self.radius
        return header, arrays

    @classmethod
    def _fields_from_parts(cls, header: dict[str, object], arrays: Arrays) -> dict[str, Any]:
        kernel_header = header_value(header, "kernel_map", dict, type(None))
        return {
            "matrix": array_value(arrays, "matrix", np.float64, (None, None)),
            "threshold": header_value(header, "threshold", float, type(None)),
            "kernel_map": None if kernel_header is None else KernelMap.from_arrays(kernel_header, arrays),
            **{name: array_value(arrays, name, np.float64, (None,)) for name in ("scales", "center") if name in arrays},
            "unit_rows": header_value({"unit_rows": False} | header, "unit_rows", bool),
            "radius": number_value(header, "radius", least=0.0) if "center" in arrays else None,
        }

    def _scores(self, x: Any, items: Any) -> FloatArray:
        return -self.distance(x, items, squared=True)  # type: ignore[no-any-return]

    def _details(self) -> list[str]:
        details = [] if self.threshold is None else [f"threshold={self.threshold:g}"]
        details += ["unit_rows=True"] if self.unit_rows else []
        return details if self.kernel_map is None else [*details, f"kernel={self.kernel_map.kernel!r}"]

    @cached_property
    def _is_diagonal(self) -> bool:
        return np.array_equal(self.matrix, np.diag(self.matrix.diagonal()))

    @cached_property
    def _decomposition(self) -> Decomposition:
        if not self._is_diagonal:
            return decompose(self.matrix, symmetric=True)
        order = np.argsort(-self.matrix.diagonal(), kind="stable")
        vectors, values = np.eye(len(order))[:, order], self.matrix.diagonal()[order]
        return read_only(vectors), read_only(values), vectors

    @property
    def _rounding(self) -> float:
        # The eigenvalues of a diagonal matrix are exact, however far apart.
        return 0.0 if self._is_diagonal else super()._rounding

    @cached_property
    def _roots(self) -> tuple[FloatArray, FloatArray]:
        """P and N with `M = PᵀP - NᵀN`; N has no rows if M counts as PSD."""
        vectors, values, _ = self._decomposition
        positive, negative = values > self._rounding, values < -self._rounding
        if self.is_psd:
            negative[:] = False
        P, N = ((vectors[:, chosen] * np.sqrt(np.abs(values[chosen]))).T for chosen in (positive, negative))
        return read_only(P), read_only(N)

    def _squared(self, x: Any, x2: Any) -> FloatArray:
        if self._is_costly(x) and not is_sparse(x) and not is_sparse(x2):
            v = x - x2
            return np.asarray(((v @ self.matrix) * v).sum(axis=-1))
        positive, negative = self._roots
        result: FloatArray = squared_lengths(x, x2, positive)
        return result - squared_lengths(x, x2, negative) if len(negative) else result

    def _is_costly(self, x: Any) -> bool:
        """Whether eigenvalues, which are not known yet, would take longer than a product of these points with M."""
        n = 1 if x.ndim == 1 else x.shape[0]
        many = len(self.matrix) > _MANY_FEATURES and n < len(self.matrix)
        return many and "_decomposition" not in vars(self) and not self._is_diagonal

    def _embed(self, X: Any, item: bool) -> FloatArray:
        return self.transform(X)

    def _squared_of_pairs(self, pairs: Comparisons, block: slice | int) -> Any:
        return self._squared(*self._compared(pairs, block))

    def _margins(self, comparisons: Comparisons, block: slice | int) -> Any:
        if isinstance(comparisons, Pairs):
            return (self.threshold or 0.0) - self._squared_of_pairs(comparisons, block)
        rows = list(self._compared(comparisons, block))
        far = rows[::2] if len(rows) == 3 else rows[2:]  # an anchor is in both pairs
        return self._squared(*far) - self._squared(*rows[:2])

    @cached_property
    def _takes_vectors(self) -> bool:
        return super()._takes_vectors and self.kernel_map is None and self.scales is None and not self.unit_rows

    def _prepared(self, X: Any) -> Any:
        if self.scales is not None:
            X = divided(X, self.scales)
        if self.unit_rows:
            X = unit_length(X)
        if self.kernel_map is None:
            return super()._prepared(X)
        return self.kernel_map.coordinates(X, check_input=False)

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
