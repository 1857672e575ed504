"""metric-learn's LSML and LSML_Supervised, from quadruplets."""

from typing import Any, Self

import numpy as np

import mahala.batch as native
from mahala.comparisons import Quadruplets
from mahala.compat.metric_learn.base_metric import _QuadrupletsClassifierMixin
from mahala.compat.metric_learn.tuples import _Supervised, _TuplesLearner


class _BaseLSML(_TuplesLearner):
    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int = 1000,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.tol, self.max_iter, self.prior = tol, max_iter, prior
        self.verbose, self.random_state = verbose, random_state

    def _fit(self, quadruplets: Any, weights: Any = None) -> Self:
        quadruplets = self._prepare_inputs(quadruplets, type_of_inputs="tuples")
        weights = np.ones(len(quadruplets)) if weights is None else np.asarray(weights, dtype=float)
        self.w_ = weights / weights.sum()
        learner = native.LSML(
            prior=self._prior(quadruplets), max_iter=self.max_iter, tol=min(self.tol, 1e-6), verbose=self.verbose
        )
        return self._store(learner.fit(Quadruplets.from_array(quadruplets), weights=self.w_))


class LSML(_BaseLSML, _QuadrupletsClassifierMixin):
    """Least squared-residual metric learning, see :class:`mahala.batch.LSML`."""

    def fit(self, quadruplets: Any, weights: Any = None) -> Self:
        """Learn from quadruplets whose first pair is to be nearer than the second."""
        return self._fit(quadruplets, weights)


class LSML_Supervised(_Supervised, _BaseLSML):
    """LSML from quadruplets that are drawn from labels."""

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int = 1000,
        prior: Any = "identity",
        n_constraints: int | None = None,
        weights: Any = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        num_constraints: Any = "deprecated",
    ) -> None:
        _BaseLSML.__init__(self, tol, max_iter, prior, verbose, preprocessor, random_state)
        self._set_n_constraints(n_constraints, num_constraints)
        self.weights = weights

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with class labels."""
        X, rows = self._drawn(X, y, same_length=True)
        return self._fit(X[np.column_stack(rows)], self.weights)
