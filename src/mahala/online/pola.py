"""POLA: the pseudo-metric online learning algorithm (Shalev-Shwartz, Singer, Ng, 2004)."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mahala.comparisons import Pairs
from mahala.metric import MahalanobisMetric
from mahala.online.pair_learner import PairLearner
from mahala.online.passive_aggressive import KernelParams
from mahala.online.state.margin import MOST_SLACK, MarginRule, MarginState, first_state
from mahala.support.parameters import Count, Positive, Where, between
from mahala.support.states import Entry, Integer
from mahala.support.tags import Labels

Gamma = Annotated[float, Where(between(0.0, MOST_SLACK), f"a number from 0 to {MOST_SLACK:g}")]


@dataclass(eq=False, repr=False)
class POLA(KernelParams, PairLearner):
    """Learn a pseudo-metric M ⪰ 0 and a threshold b ≥ 1 from pairs by successive projections.

    Parameters
    ----------
    gamma : float, default=0.0
        0 for separable data; larger values make smaller steps where no metric separates all pairs.
    max_loss : float or None, default=None
        Batch conversion: `fit` cycles through the pairs until none has a hinge loss above it (`converged_`), at most
        `max_passes` times. None is a single pass.
    max_passes : int, default=100
        The most passes that `fit` takes with `max_loss`.
    kernel, kernel_params, n_pairs, balance, record, rank_every, random_state
        See :class:`mahala.PA`.

    Attributes
    ----------
    n_passes_ : int, passes of the last `fit`
    converged_ : bool, whether no pair was left with a loss above `max_loss`
    metric_, raw_metric_, threshold_, radius_, history_, n_steps_, n_updates_, n_mistakes_, loss_, squared_loss_
        See :class:`mahala.PA`.

    Notes
    -----
    Each pair with hinge loss l = max(0, 1 - y (b - vᵀMv)) > 0 moves the model by τ = l / (1 + γ + ‖v‖⁴) towards
    the half-space where its loss is zero, and then back to M ⪰ 0, b ≥ 1. On a sequence that some (M*, b*)
    separates with margin, the squared losses sum to at most `loss_bound(M*, b*)`, whatever the order.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, A. Y. Ng: Online and batch learning of pseudo-metrics. Proceedings of the 21st
    International Conference on Machine Learning (ICML), 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = MinMaxScaler().fit_transform(X)
    >>> learner = mahala.POLA(gamma=1.0, n_pairs=1000, random_state=0).fit(X, y)
    >>> pairs = mahala.Pairs.from_labels(X, y, 1000, random_state=1)
    >>> round(learner.score(pairs), 2)
    0.93
    """

    _test_settings = ({}, {"gamma": 1.0, "kernel": "rbf"})

    gamma: Gamma = 0.0
    _: KW_ONLY
    max_loss: Positive | None = None
    max_passes: Count = 100

    FIELDS: ClassVar = (Integer("n_passes_", optional=True), Entry("converged_", optional=True))

    def _rule(self) -> MarginRule:
        return MarginRule(float(self.gamma), 0.0, np.inf)

    def _first_state(self, comparisons: Pairs | None, complete: bool) -> MarginState:
        return first_state(self.n_features_in_, 1, self.kernel, self.kernel_params)

    def _learn(self, pairs: Pairs, labels: Labels | None) -> None:
        prepared = self._model.prepare(pairs, len(pairs), complete=True)
        self.n_passes_ = 0
        self.converged_ = False
        while self.n_passes_ < (1 if self.max_loss is None else self.max_passes) and not self.converged_:
            self._feed(prepared, len(prepared), self._rule())
            self.n_passes_ += 1
            if self.max_loss is not None:
                chunks = self._model.chunks(prepared, len(prepared), self._rule(), None)
                largest = max(float(self._model.losses(V, y).max()) for V, y in chunks)
                self.converged_ = bool(largest <= self.max_loss)
        if self.max_loss is not None and not self.converged_:
            left = f"pairs with a loss above max_loss={self.max_loss} after max_passes={self.max_passes}"
            advice = "raise max_passes, or give a gamma above 0 where no metric separates the pairs"
            warnings.warn(f"POLA left {left}; {advice}", ConvergenceWarning, stacklevel=3)

    def loss_bound(self, metric: MahalanobisMetric, threshold: float | None = None, squared_loss: float = 0.0) -> float:
        """Return the most that `squared_loss_` can be, given any model to compare with.

        For a model (M*, b*) without loss on the pairs seen it is (R + γ) (‖M*‖² + b*²), where R ≥ ‖v‖⁴ + 1 for every
        pair. Where it has lost, `squared_loss` = Σ l*² is what it lost, and the bound is
        (R + γ) (‖M*‖² + b*² + Σ l*² / γ); that needs γ > 0.

        Parameters
        ----------
        metric : the matrix M*
        threshold : b*, by default the metric's own
        squared_loss : hinge losses of (M*, b*) on the pairs seen, squared and summed
        """
        self._check_fitted()
        b = metric.threshold if threshold is None else threshold
        if b is None:
            raise ValueError("threshold is needed: this metric has none of its own")
        if not isinstance(metric, MahalanobisMetric) or metric.n_features_in != self.n_features_in_:
            raise ValueError(f"metric must be a Mahalanobis metric of {self.n_features_in_} features, got {metric!r}")
        if not 0.0 <= squared_loss < np.inf or (squared_loss > 0.0 and self.gamma == 0.0):
            raise ValueError(f"squared_loss must be 0 with gamma=0, else a number from 0 up, got {squared_loss}")
        if metric.kernel is None:
            metric = metric.in_features(self.n_features_in_, "metric")
        excess = squared_loss / self.gamma if squared_loss else 0.0
        return (self.radius_ + self.gamma) * float(np.sum(metric.matrix**2) + b**2 + excess)
