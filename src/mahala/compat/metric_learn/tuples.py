"""metric-learn's learners from pairs: ITML, MMC, SDML, and twins from labels."""

from typing import Any, Self

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.utils import check_array

import mahala.batch as native
from mahala.comparisons import Pairs
from mahala.compat.metric_learn._initial import _initialize_metric_mahalanobis, components_from_metric
from mahala.compat.metric_learn._util import renamed, warn_of_unused
from mahala.compat.metric_learn.base_metric import MahalanobisMixin, PointsLearner, _PairsClassifierMixin
from mahala.compat.metric_learn.constraints import Constraints
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray


class _TuplesLearner(MahalanobisMixin):
    """Base class of the learners from tuples."""

    prior: Any
    random_state: Any

    def _prior(self, tuples: FloatArray) -> MahalanobisMetric:
        matrix = _initialize_metric_mahalanobis(
            tuples, self.prior, self.random_state, strict_pd=True, matrix_name="prior"
        )
        return MahalanobisMetric(matrix)

    def _store(self, learner: Any, scale: float = 1.0) -> Self:
        self.learner_, self.n_iter_ = learner, max(learner.n_iter_, 1)
        self.components_ = np.sqrt(scale) * components_from_metric(learner.get_mahalanobis_matrix())
        return self


class _Supervised(PointsLearner):
    """Draws tuples from labels, and learns from them."""

    n_constraints: int | None
    random_state: Any

    def _set_n_constraints(self, n_constraints: int | None, num_constraints: Any) -> None:
        self.n_constraints = renamed(num_constraints, n_constraints, "num_constraints", "n_constraints")
        self.num_constraints = "deprecated"

    def _drawn(self, X: Any, y: Any, same_length: bool = False) -> tuple[FloatArray, Any]:
        """Return the points, and the rows a, b of pairs of one class and c, d of pairs of two."""
        X, y = self._prepare_inputs(X, y, needs_y=True, ensure_min_samples=2)
        n = 20 * len(np.unique(y)) ** 2 if self.n_constraints is None else self.n_constraints
        return X, Constraints(y).positive_negative_pairs(n, same_length, self.random_state)

    def _pairs(self, X: Any, y: Any) -> tuple[FloatArray, Any]:
        X, (a, b, c, d) = self._drawn(X, y)
        rows = np.column_stack([np.concatenate([a, c]), np.concatenate([b, d])])
        return X[rows], np.repeat([1, -1], [len(a), len(c)])


class _BaseITML(_TuplesLearner):
    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        convergence_threshold: Any = "deprecated",
    ) -> None:
        super().__init__(preprocessor)
        self.tol = renamed(convergence_threshold, tol, "convergence_threshold", "tol")
        self.gamma, self.max_iter, self.prior, self.convergence_threshold = gamma, max_iter, prior, "deprecated"
        self.verbose, self.random_state = verbose, random_state

    def _fit(self, pairs: Any, y: Any, bounds: Any = None) -> Self:
        pairs, y = self._prepare_inputs(pairs, y, "tuples", needs_y=True)
        given = Pairs.from_array(pairs, y)
        learner = native.ITML(self.gamma, prior=self._prior(pairs), max_iter=self.max_iter, tol=self.tol,
                              verbose=self.verbose)  # fmt: skip
        if bounds is None:
            self.bounds_ = np.percentile(pairwise_distances(np.unique(given.X, axis=0)), (5, 95))
        else:
            self.bounds_ = np.array(check_array(bounds, ensure_2d=False, ensure_min_samples=0), dtype=float).ravel()
            if self.bounds_.size != 2:
                raise ValueError("`bounds` should be an array-like of two elements.")
        self.bounds_[self.bounds_ == 0] = 1e-9
        learner.set_params(similar_target=float(self.bounds_[0]), dissimilar_target=float(self.bounds_[1]))
        return self._store(learner.fit(given))


class ITML(_BaseITML, _PairsClassifierMixin):
    """Information-theoretic metric learning, see :class:`mahala.ITML`."""

    def fit(self, pairs: Any, y: Any, bounds: Any = None, calibration_params: dict[str, Any] | None = None) -> Self:
        """Learn from pairs with labels +1 and -1; `bounds` on the squared distances of similar and other pairs."""
        return self._fit_and_calibrate(pairs, y, calibration_params, bounds=bounds)


class ITML_Supervised(_Supervised, _BaseITML):
    """ITML from pairs that are drawn from labels."""

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        n_constraints: int | None = None,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        num_constraints: Any = "deprecated",
        convergence_threshold: Any = "deprecated",
    ) -> None:
        _BaseITML.__init__(
            self, gamma, max_iter, tol, prior, verbose, preprocessor, random_state, convergence_threshold
        )
        self._set_n_constraints(n_constraints, num_constraints)

    def fit(self, X: Any, y: Any, bounds: Any = None) -> Self:
        """Learn from points with class labels."""
        return self._fit(*self._pairs(X, y), bounds=bounds)


class _BaseMMC(_TuplesLearner):
    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-3,
        init: Any = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        convergence_threshold: Any = "deprecated",
    ) -> None:
        super().__init__(preprocessor)
        self.tol = renamed(convergence_threshold, tol, "convergence_threshold", "tol")
        self.max_iter, self.max_proj, self.init, self.convergence_threshold = max_iter, max_proj, init, "deprecated"
        self.diagonal, self.diagonal_c, self.verbose, self.random_state = diagonal, diagonal_c, verbose, random_state

    def _fit(self, pairs: Any, y: Any) -> Self:
        """Learn the direction of M, which its two formulations share, and give it the scale that theirs has.

        They bound the similar pairs' sum of squared distances instead of the other pairs' sum of distances: to a
        hundredth of the sum under `init` for a full M. For a diagonal M they minimise S - c log D, which scales it to
        S = c / 2.
        """
        warn_of_unused(self, "nothing is projected", max_proj=10000)
        pairs, y = self._prepare_inputs(pairs, y, "tuples", needs_y=True)
        first = _initialize_metric_mahalanobis(pairs, self.init, self.random_state, matrix_name="init")
        learner = native.MMC(
            diagonal=self.diagonal, max_iter=self.max_iter, tol=min(self.tol, 1e-6), verbose=self.verbose
        )
        learner.fit(Pairs.from_array(pairs, y))
        similar = pairs[y == 1, 0] - pairs[y == 1, 1]
        scatter = similar.T @ similar
        target = self.diagonal_c / 2.0 if self.diagonal else float((scatter * first).sum()) / 100.0
        size = float((scatter * learner.get_mahalanobis_matrix()).sum())
        return self._store(learner, target / size if size > 0.0 and target > 0.0 else 1.0)


class MMC(_BaseMMC, _PairsClassifierMixin):
    """Metric for clustering with side information, see :class:`mahala.MMC`."""

    def fit(self, pairs: Any, y: Any, calibration_params: dict[str, Any] | None = None) -> Self:
        """Learn from pairs with labels +1 and -1."""
        return self._fit_and_calibrate(pairs, y, calibration_params)


class MMC_Supervised(_Supervised, _BaseMMC):
    """MMC from pairs that are drawn from labels."""

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-6,
        n_constraints: int | None = None,
        init: Any = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        num_constraints: Any = "deprecated",
        convergence_threshold: Any = "deprecated",
    ) -> None:
        _BaseMMC.__init__(self, max_iter, max_proj, tol, init, diagonal, diagonal_c, verbose, preprocessor,
                          random_state, convergence_threshold)  # fmt: skip
        self._set_n_constraints(n_constraints, num_constraints)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with class labels."""
        return self._fit(*self._pairs(X, y))


class _BaseSDML(_TuplesLearner):
    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.balance_param, self.sparsity_param, self.prior = balance_param, sparsity_param, prior
        self.verbose, self.random_state = verbose, random_state

    def _fit(self, pairs: Any, y: Any) -> Self:
        pairs, y = self._prepare_inputs(pairs, y, "tuples", needs_y=True)
        if pairs.shape[2] < 2:
            raise ValueError(f"Cannot fit SDML with {pairs.shape[2]} feature(s)")
        learner = native.SDML(
            balance=self.balance_param, sparsity=self.sparsity_param, prior=self._prior(pairs), verbose=self.verbose
        )
        return self._store(learner.fit(Pairs.from_array(pairs, y)))


class SDML(_BaseSDML, _PairsClassifierMixin):
    """Sparse distance metric learning, see :class:`mahala.batch.SDML`."""

    def fit(self, pairs: Any, y: Any, calibration_params: dict[str, Any] | None = None) -> Self:
        """Learn from pairs with labels +1 and -1."""
        return self._fit_and_calibrate(pairs, y, calibration_params)


class SDML_Supervised(_Supervised, _BaseSDML):
    """SDML from pairs that are drawn from labels."""

    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: Any = "identity",
        n_constraints: int | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        num_constraints: Any = "deprecated",
    ) -> None:
        _BaseSDML.__init__(self, balance_param, sparsity_param, prior, verbose, preprocessor, random_state)
        self._set_n_constraints(n_constraints, num_constraints)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with class labels."""
        return self._fit(*self._pairs(X, y))
