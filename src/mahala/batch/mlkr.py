"""MLKR: metric learning for kernel regression (Weinberger, Tesauro, 2007)."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.descent import descend, first_components
from mahala.batch.run import IterationParams, Run
from mahala.batch.whitening import centred
from mahala.comparisons import Comparisons
from mahala.learner import LabelledRows
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import RealArray, Rows, RowsLike, slices
from mahala.support.parameters import Count, NonNegative, Seed
from mahala.support.validation import as_floats, to_numpy

# Rows of a block, whose weights stay in the processor's cache.
_BLOCK = 128


@dataclass(eq=False, repr=False)
class MLKR(IterationParams, BatchLearner):
    """Metric learning for kernel regression: rows that are near are to have similar target values.

    Kernel regression predicts the target of a row from those of the others, ŷ_i = Σ_{j≠i} p_ij y_j with
    p_ij ∝ exp(-‖Lx_i - Lx_j‖²). MLKR minimises its leave-one-out error Σ_i (y_i - ŷ_i)² over the linear map L by
    L-BFGS, in float64 on one core. The objective is not convex. The descent starts in the unit that
    :class:`mahala.NCA` has: scale the features relative to each other first.

    Parameters
    ----------
    n_components : int or None, default=None
        Number m of rows of L; None for the number of features.
    n_samples : int or None, default=None
        Number of rows drawn at random, from which alone it learns: the time of an iteration grows with their square.
        None for all rows.
    init : "auto", "identity", "pca", "random" or MahalanobisMetric, default="auto"
        The first L. "auto" is "identity" if L is square, else "pca".
    max_iter, tol : int and float, default=100 and 1e-5; see :class:`mahala.NCA`
    warm_start, callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    K. Q. Weinberger, G. Tesauro: Metric learning for kernel regression. Artificial Intelligence and Statistics
    (AISTATS), 2007, 612-619.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> y = np.sin(2.0 * X[:, 0])
    >>> round(MLKR().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2)
    0.99
    """

    _learns_numbers = True
    _test_settings = ({"max_iter": 10, "n_components": 2}, {"max_iter": 10, "n_samples": 20})
    _takes_chunks = False

    n_components: Count | None = None
    _: KW_ONLY
    n_samples: Count | None = None
    init: Literal["auto", "identity", "pca", "random"] | MahalanobisMetric = "auto"
    max_iter: Count = 100
    tol: NonNegative = 1e-5
    random_state: Seed = None

    def _learn(self, data: LabelledRows, run: Run) -> str:
        # In float64: an error as small as the rounding of float32 grows from step to step until the fit ends elsewhere.
        rows = np.arange(len(data.X))
        if self.n_samples is not None and self.n_samples < len(rows):
            rows = np.sort(self._rng.choice(rows, int(self.n_samples), replace=False))
        (X, unit), deviation = centred(data.X[rows].astype(np.float64)), float(data.codes.std())
        targets = (data.codes[rows] - data.codes.mean()) / deviation

        def objective(L: RealArray) -> tuple[float, RealArray]:
            error, pull = leave_one_out(X @ L.T, targets)
            return error, 2.0 * pull.T @ X

        start = first_components(self.init, self.n_components, X, None, run, unit)
        in_features: Any = {"to_model": lambda L: {"L": L / unit}, "report": lambda error: deviation**2 * error}
        return descend(objective, start, run, **in_features)

    def _validated(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None", *, reset: bool
    ) -> LabelledRows | Comparisons:
        if isinstance(X, Comparisons):
            return super()._validated(X, y, reset=reset)  # which says what it learns from
        X, targets = self._labelled_rows(X, y, reset=reset)
        if targets.min() == targets.max():
            raise ValueError("y has one value; MLKR needs rows of at least two target values that differ")
        return LabelledRows(X, targets)

    def _labelled_rows(self, X: "RowsLike", y: "ArrayLike | None", *, reset: bool) -> tuple[Rows, Any]:
        """Validate rows and their target values."""
        if y is None:
            raise ValueError("MLKR requires y to be passed, but the target y is None; it holds a number for each row")
        X, y = self._rows(X, reset=reset), to_numpy(y)
        targets = as_floats(column_or_1d(y) if getattr(y, "ndim", 1) == 2 else y, "y")
        if targets.shape != (X.shape[0],):
            raise ValueError(f"y must hold a number for each of the {X.shape[0]} rows, got shape {targets.shape}")
        if not (np.abs(targets) < 1e150).all():
            raise ValueError("y must hold finite numbers up to 1e150, got NaN, infinity or a larger one")
        return X, targets

    def score(self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None) -> float:
        """Return how well the metric judges, the higher the better.

        For rows with target values, the share R² of their variance that leave-one-out kernel regression explains: 1 at
        best, and below 0 if it does worse than their mean. For comparisons as for every learner.

        Parameters
        ----------
        X : rows, or Pairs or Triplets
        y : target values of rows, or labels of pairs that have none of their own
        """
        if isinstance(X, Comparisons):
            return super().score(X, y)
        self._check_fitted()
        X, targets = self._labelled_rows(X, y, reset=False)
        spread = float(targets.std())
        if spread == 0.0:
            raise ValueError("y has one value, of whose variance no share can be explained")
        error, _ = leave_one_out(self.metric_.transform(X).astype(np.float64), (targets - targets.mean()) / spread)
        return 1.0 - error / len(targets)


def leave_one_out(Z: RealArray, y: RealArray) -> tuple[float, RealArray]:
    """Return Σ_i (y_i - ŷ_i)² of leave-one-out kernel regression, and its pull on Z, half of its gradient.

    >>> error, pull = leave_one_out(np.array([[0.0], [0.0], [100.0]]), np.array([1.0, 3.0, 3.0]))
    >>> error
    9.0
    """
    n, m = Z.shape
    norms, ones = np.einsum("ij,ij->i", Z, Z), np.ones(n)
    left, right = np.column_stack([-2.0 * Z, norms, ones]), np.column_stack([Z, ones, norms]).T.copy()
    wide = np.column_stack([Z, ones])
    both = np.column_stack([wide, y[:, None] * wide])
    error, pull = 0.0, np.zeros_like(Z)
    for block in slices(n, _BLOCK):
        p = left[block] @ right
        p[np.arange(len(p)), np.arange(n)[block]] = np.inf
        np.subtract(p.min(axis=1, keepdims=True), p, out=p)
        np.exp(p, out=p)
        sums = p @ both
        predicted = sums[:, -1:] / sums[:, m : m + 1]
        errors = predicted - y[block, None]
        error += float(np.square(errors, dtype=np.float64).sum())
        # The derivative by the squared distance of i and j is factors_i p_ij (ŷ_i - y_j), in both parts of which the
        # weights are those of Z and 1, times (z_i - z_j) for both ends of the pair.
        factors = 2.0 * errors / sums[:, m : m + 1]
        first = factors * (predicted * sums[:, : m + 1] - sums[:, m + 1 :])
        weights = factors * wide[block]
        sums = p.T @ np.column_stack([predicted * weights, weights])
        second = sums[:, : m + 1] - y[:, None] * sums[:, m + 1 :]
        pull[block] += first[:, -1:] * Z[block] - first[:, :-1]
        pull += second[:, -1:] * Z - second[:, :-1]
    return error, pull
