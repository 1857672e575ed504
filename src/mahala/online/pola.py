"""POLA: the pseudo-metric online learning algorithm (Shalev-Shwartz, Singer, Ng, 2004)."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mahala.comparisons import Pairs
from mahala.learner import Arrays
from mahala.metric import MahalanobisMetric
from mahala.online.margin_learner import MarginLearner
from mahala.online.online_learner import signs
from mahala.online.storage.pair_model import PairModel, Rule
from mahala.support.model_files import header_value
from mahala.support.params import is_count, is_number


class POLA(MarginLearner):
    """Online learning of a pseudo-metric M ⪰ 0 and a threshold b ≥ 1 by successive projections.

    Each pair with hinge loss l = max(0, 1 - y (b - vᵀMv)) > 0 moves the model by τ = l / (1 + γ + ‖v‖⁴) towards
    the half-space where its loss is zero, and then back to M ⪰ 0, b ≥ 1. On a sequence that some (M*, b*)
    separates with margin, the squared losses sum to at most `loss_bound(M*, b*)`, whatever the order.

    Parameters
    ----------
    gamma : float
        0 for separable data; larger values make smaller steps where no metric separates all pairs.
    kernel : None, "linear", "rbf", "poly", "cosine", "precomputed" or callable
        Learn in the feature space of a kernel; `kernel_params` are its parameters.
    epsilon : float or None
        Batch conversion: `fit` cycles through the pairs until none has a hinge loss above epsilon (`converged_`), at
        most `max_passes` times. None is a single pass.
    max_passes : int
    n_pairs : int or "auto"
        Pairs drawn from labelled rows; "auto" is 40 c (c - 1) for c classes.
    balance : float or None
        Share of similar pairs among those drawn from labels; None draws uniformly from all pairs.
    record : bool
        Keep `history_`. It grows by 18 bytes a step: turn it off for a stream without end.
    rank_every : int or None
        Record the effective dimension of M in `history_` every so many steps.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    metric_ : Metric, what has been learned so far
    threshold_, components_, n_features_in_, feature_names_in_
    history_ : History, what happened at each step
    n_steps_, n_updates_, n_mistakes_ : int
    loss_, squared_loss_ : float, the hinge loss and its square summed over all steps
    radius_ : float, the largest ‖v‖⁴ + 1 seen
    n_passes_, converged_ : passes of the last `fit`, and whether no pair was left with a loss above epsilon

    Examples
    --------
    >>> import numpy as np, mahala
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 30)
    >>> X = np.column_stack([y + 0.1 * rng.normal(size=60), rng.normal(size=60)])  # the second column is noise
    >>> pairs = mahala.Pairs.from_labels(X, y, 500, random_state=0)
    >>> pola = mahala.POLA(epsilon=0.1, max_passes=1000).fit(pairs)
    >>> pola.converged_, pola.score(pairs)
    (True, 1.0)
    >>> float(pola.squared_loss_) <= pola.loss_bound(pola.metric_)
    True
    """

    def __init__(
        self,
        gamma: float = 0.0,
        kernel: Any = None,
        epsilon: float | None = None,
        max_passes: int = 100,
        n_pairs: Any = "auto",
        balance: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        record: bool = True,
        rank_every: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.gamma = gamma
        self.kernel = kernel
        self.epsilon = epsilon
        self.max_passes = max_passes
        self.n_pairs = n_pairs
        self.balance = balance
        self.kernel_params = kernel_params
        self.record = record
        self.rank_every = rank_every
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from labelled rows (X 2-D, y class labels) or comparisons (Pairs, or X 3-D and y = ±1)."""
        self._check_params()
        with self._all_or_nothing():
            pairs, _ = self._comparisons(X, y, reset=True)
            self._start()
            pairs = self._in_span(pairs)
            self.n_passes_ = 0
            self.converged_ = False
            while self.n_passes_ < (1 if self.epsilon is None else self.max_passes) and not self.converged_:
                self._feed_in_span(pairs, len(pairs))
                self.n_passes_ += 1
                self.converged_ = self.epsilon is not None and self._largest_loss(pairs) <= self.epsilon
        if self.epsilon is not None and not self.converged_:
            warnings.warn(
                f"POLA left pairs with a loss above epsilon={self.epsilon} after max_passes={self.max_passes}; raise "
                "max_passes, or give a gamma above 0 where no metric separates the pairs",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def loss_bound(self, metric: MahalanobisMetric, threshold: float | None = None, squared_loss: float = 0.0) -> float:
        """The most that `squared_loss_` can be, given any model to compare with.

        For a model (M*, b*) without loss on the pairs seen it is (R + γ) (‖M*‖² + b*²), where R ≥ ‖v‖⁴ + 1 for every
        pair. Where it has lost, `squared_loss` = Σ l*² is what it lost, and the bound is
        (R + γ) (‖M*‖² + b*² + Σ l*² / γ); that needs γ > 0.

        Parameters
        ----------
        metric : the matrix M*
        threshold : b*, by default the metric's own
        squared_loss : hinge losses of (M*, b*) on the pairs seen, squared and summed
        """
        check_is_fitted(self, "n_steps_")
        if not isinstance(metric, MahalanobisMetric) or metric.n_features_in != self.n_features_in_:
            raise ValueError(f"metric must be a Mahalanobis metric of {self.n_features_in_} features, got {metric!r}")
        b = metric.threshold if threshold is None else threshold
        if b is None:
            raise ValueError("threshold is needed: this metric has none of its own")
        if not 0.0 <= squared_loss < np.inf or (squared_loss > 0.0 and self.gamma == 0.0):
            raise ValueError(
                f"squared_loss={squared_loss} must be 0 with gamma=0 (the bound of the separable case), else from 0 up"
            )
        excess = squared_loss / self.gamma if squared_loss else 0.0
        return (self.radius_ + self.gamma) * float(np.sum(metric.matrix**2) + b**2 + excess)

    def _largest_loss(self, pairs: Pairs) -> float:
        parts = ((part.differences(), signs(part)) for part in self._chunks(pairs))
        return max(float(self._model.losses(V, y).max()) for V, y in parts)

    def _rule(self) -> Rule:
        return float(self.gamma), 0.0, np.inf

    @property
    def _psd_steps(self) -> int:
        return 1

    def _first_model(self, d: int) -> PairModel:
        return PairModel(np.zeros((d, d)), 0.0, self._psd_steps)

    def _check_params(self) -> None:
        if not (is_number(self.gamma) and 0.0 <= self.gamma < np.inf):
            raise ValueError(f"gamma must be a number from 0 up, got {self.gamma!r}")
        if self.epsilon is not None and not (is_number(self.epsilon) and 0.0 < self.epsilon < np.inf):
            raise ValueError(f"epsilon must be None or a positive number, got {self.epsilon!r}")
        if not is_count(self.max_passes):
            raise ValueError(f"max_passes must be a number from 1 up, got {self.max_passes!r}")
        super()._check_params()

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._get_state()
        return header | {
            "n_passes": getattr(self, "n_passes_", None),
            "converged": getattr(self, "converged_", None),
        }, arrays

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        if header_value(header, "n_passes", int, type(None)) is not None:
            self.n_passes_ = header_value(header, "n_passes", int)
            self.converged_ = header_value(header, "converged", bool)
