"""metric-learn's learners from pairs and quadruplets: ITML, MMC, SDML, LSML, and their forms for labels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import pairwise_distances
from sklearn.utils import check_array

import mahala.batch as native
from mahala.comparisons import Pairs, Quadruplets
from mahala.compat.metric_learn._initial import _initialize_metric_mahalanobis, components_from_metric
from mahala.compat.metric_learn._util import warn_of_unused
from mahala.compat.metric_learn.base_metric import (
    MahalanobisMixin,
    PointsLearner,
    _PairsClassifierMixin,
    _QuadrupletsClassifierMixin,
    with_params,
)
from mahala.compat.metric_learn.constraints import Constraints
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray, IndexArray


class _TuplesLearner(MahalanobisMixin):
    """Base class of the learners from tuples."""

    def _prior(self, tuples: FloatArray) -> MahalanobisMetric:
        matrix = _initialize_metric_mahalanobis(tuples, self.prior, self.random_state, "prior", strict_pd=True)
        return MahalanobisMetric(matrix)

    def _keep(self, learner: Any, scale: float = 1.0) -> Self:
        return self._store(learner, np.sqrt(scale) * components_from_metric(learner.get_mahalanobis_matrix()))


class _Supervised(PointsLearner):
    """Base class of the learners that draw tuples from labels, and learn from these."""

    def _drawn(
        self, X: ArrayLike, y: ArrayLike, same_length: bool = False
    ) -> tuple[FloatArray, tuple[IndexArray, ...]]:
        """Return the points, and the rows a, b of pairs of one class and c, d of pairs of two."""
        points, labels = self._points(X, y)
        n = 20 * len(np.unique(labels)) ** 2 if self.n_constraints is None else self.n_constraints
        return points, Constraints(labels).positive_negative_pairs(n, same_length, self.random_state)

    def _pairs(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, IndexArray]:
        """Return the pairs that are drawn, and their labels."""
        points, (a, b, c, d) = self._drawn(X, y)
        rows = np.column_stack([np.concatenate([a, c]), np.concatenate([b, d])])
        return points[rows], np.repeat([1, -1], [len(a), len(c)])

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points with class labels."""
        self._fit(*self._pairs(X, y))
        return self


class _BaseITML(_TuplesLearner):
    def _fit(self, pairs: ArrayLike, y: ArrayLike, bounds: ArrayLike | None = None) -> Self:
        tuples, labels = self._prepare_inputs(pairs, y, "tuples", needs_y=True)
        comparisons, prior = Pairs.from_array(tuples, labels), self._prior(tuples)
        if bounds is None:
            self.bounds_ = np.percentile(pairwise_distances(np.unique(comparisons.X, axis=0)), (5, 95))
        else:
            self.bounds_ = np.array(check_array(bounds, ensure_2d=False, ensure_min_samples=0), dtype=float).ravel()
            if self.bounds_.size != 2:
                raise ValueError("`bounds` should be an array-like of two elements.")
        self.bounds_[self.bounds_ == 0] = 1e-9
        similar, dissimilar = self.bounds_.tolist()
        params = {"prior": prior, "max_iter": self.max_iter, "tol": self.tol, "verbose": self.verbose}
        learner = native.ITML(self.gamma, similar_target=similar, dissimilar_target=dissimilar, **params)
        return self._keep(learner.fit(comparisons))


@with_params(gamma=1.0, max_iter=1000, tol=1e-3, prior="identity", verbose=False, preprocessor=None,
             random_state=None, convergence_threshold="deprecated")  # fmt: skip
class ITML(_BaseITML, _PairsClassifierMixin):
    """Information-theoretic metric learning, see :class:`mahala.ITML`."""

    def fit(  # type: ignore[override]
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        bounds: ArrayLike | None = None,
        calibration_params: dict[str, Any] | None = None,
    ) -> Self:
        """Learn from pairs with labels +1 and -1; `bounds` on the squared distances of similar and other pairs."""
        return self._fit_and_calibrate(pairs, y, calibration_params, bounds=bounds)


@with_params(gamma=1.0, max_iter=1000, tol=1e-3, n_constraints=None, prior="identity", verbose=False,
             preprocessor=None, random_state=None, num_constraints="deprecated",
             convergence_threshold="deprecated")  # fmt: skip
class ITML_Supervised(_Supervised, _BaseITML):
    """ITML from pairs that are drawn from labels."""

    def fit(self, X: ArrayLike, y: ArrayLike, bounds: ArrayLike | None = None) -> Self:
        """Learn from points with class labels."""
        return self._fit(*self._pairs(X, y), bounds=bounds)


class _BaseMMC(_TuplesLearner):
    def _fit(self, pairs: ArrayLike, y: ArrayLike) -> Self:
        """Learn the direction of M, which its two formulations share, and give it the scale that theirs has.

        They bound the similar pairs' sum of squared distances instead of the other pairs' sum of distances: to a
        hundredth of the sum under `init` for a full M. For a diagonal M they minimise S - c log D, which scales it to
        S = c / 2.
        """
        warn_of_unused(self, "nothing is projected", "max_proj")
        tuples, labels = self._prepare_inputs(pairs, y, "tuples", needs_y=True)
        first = _initialize_metric_mahalanobis(tuples, self.init, self.random_state, "init")
        learner = native.MMC(
            diagonal=self.diagonal, max_iter=self.max_iter, tol=min(self.tol, 1e-6), verbose=self.verbose
        )
        learner.fit(Pairs.from_array(tuples, labels))
        similar = tuples[labels == 1, 0] - tuples[labels == 1, 1]
        scatter = similar.T @ similar
        target = self.diagonal_c / 2.0 if self.diagonal else float((scatter * first).sum()) / 100.0
        size = float((scatter * learner.get_mahalanobis_matrix()).sum())
        return self._keep(learner, target / size if size > 0.0 and target > 0.0 else 1.0)


@with_params(max_iter=100, max_proj=10000, tol=1e-3, init="identity", diagonal=False, diagonal_c=1.0, verbose=False,
             preprocessor=None, random_state=None, convergence_threshold="deprecated")  # fmt: skip
class MMC(_BaseMMC, _PairsClassifierMixin):
    """Metric for clustering with side information, see :class:`mahala.MMC`."""


@with_params(max_iter=100, max_proj=10000, tol=1e-6, n_constraints=None, init="identity", diagonal=False,
             diagonal_c=1.0, verbose=False, preprocessor=None, random_state=None, num_constraints="deprecated",
             convergence_threshold="deprecated")  # fmt: skip
class MMC_Supervised(_Supervised, _BaseMMC):
    """MMC from pairs that are drawn from labels."""


class _BaseSDML(_TuplesLearner):
    def _fit(self, pairs: ArrayLike, y: ArrayLike) -> Self:
        tuples, labels = self._prepare_inputs(pairs, y, "tuples", needs_y=True)
        if tuples.shape[2] < 2:
            raise ValueError(f"Cannot fit SDML with {tuples.shape[2]} feature(s)")
        learner = native.SDML(
            balance=self.balance_param, sparsity=self.sparsity_param, prior=self._prior(tuples), verbose=self.verbose
        )
        return self._keep(learner.fit(Pairs.from_array(tuples, labels)))


@with_params(balance_param=0.5, sparsity_param=0.01, prior="identity", verbose=False, preprocessor=None,
             random_state=None)  # fmt: skip
class SDML(_BaseSDML, _PairsClassifierMixin):
    """Sparse distance metric learning, see :class:`mahala.batch.SDML`."""


@with_params(balance_param=0.5, sparsity_param=0.01, prior="identity", n_constraints=None, verbose=False,
             preprocessor=None, random_state=None, num_constraints="deprecated")  # fmt: skip
class SDML_Supervised(_Supervised, _BaseSDML):
    """SDML from pairs that are drawn from labels."""


class _BaseLSML(_TuplesLearner):
    def _fit(self, quadruplets: ArrayLike, weights: ArrayLike | None = None) -> Self:
        tuples = self._prepare_inputs(quadruplets, type_of_inputs="tuples")
        each = np.ones(len(tuples)) if weights is None else np.asarray(weights, dtype=float)
        self.w_ = each / each.sum()
        learner = native.LSML(
            prior=self._prior(tuples), max_iter=self.max_iter, tol=min(self.tol, 1e-6), verbose=self.verbose
        )
        return self._keep(learner.fit(Quadruplets.from_array(tuples), weights=self.w_))


@with_params(tol=1e-3, max_iter=1000, prior="identity", verbose=False, preprocessor=None, random_state=None)
class LSML(_BaseLSML, _QuadrupletsClassifierMixin):
    """Least squared-residual metric learning, see :class:`mahala.batch.LSML`."""

    def fit(self, quadruplets: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Learn from quadruplets whose first pair is to be nearer than the second."""
        return self._fit(quadruplets, weights)


@with_params(tol=1e-3, max_iter=1000, prior="identity", n_constraints=None, weights=None, verbose=False,
             preprocessor=None, random_state=None, num_constraints="deprecated")  # fmt: skip
class LSML_Supervised(_Supervised, _BaseLSML):
    """LSML from quadruplets that are drawn from labels."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points with class labels."""
        points, rows = self._drawn(X, y, same_length=True)
        return self._fit(points[np.column_stack(rows)], self.weights)
