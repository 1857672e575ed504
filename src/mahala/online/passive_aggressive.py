"""PA, PA-I, PA-II and PA-LS: passive-aggressive online metrics (Pérez-Suay, Ferri, Arevalillo-Herráez, 2013)."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mahala.comparisons import Pairs
from mahala.compiled.neighbors import leave_one_out_errors
from mahala.learner import Arrays
from mahala.metric import MahalanobisMetric, Metric
from mahala.online.margin_learner import MarginLearner
from mahala.online.storage.pair_model import PairModel, Rule
from mahala.support.model_files import header_value, number_value
from mahala.support.params import is_count, is_number

# The paper's range for the aggressiveness, a value for each power of ten.
C_GRID = tuple(float(C) for C in np.logspace(-4, 2, 7))
# The paper's k-NN rules, of which the best counts.
MOST_NEIGHBORS = 25


class PA(MarginLearner):
    r"""Passive-aggressive online learning of a Mahalanobis metric M and a threshold b.

    A pair at distance d = vᵀMv, v = x - x', is predicted to be similar iff d <= b. With y = ±1 and
    p = 1 - y (b - d), each step is M ← M - τ y v vᵀ, b ← b + τ y, where

    ========  ==========================================
    variant   step length τ (l = max(0, p))
    ========  ==========================================
    "hard"    l / (1 + ‖v‖⁴)
    "I"       min(C, l / (1 + ‖v‖⁴))
    "II"      l / (1 + 1/(2C) + ‖v‖⁴)
    "LS"      p / (1 + 1/(2C) + ‖v‖⁴): it may be negative
    ========  ==========================================

    Parameters
    ----------
    variant : {"hard", "I", "II", "LS"}
    C : float or "auto"
        Aggressiveness. "auto" is the paper's tuner: one pass for each of 1e-4, 1e-3, ..., 1e2, and the best model
        counts (see `tune_by`); the value found is `C_`.
    psd : "every", "end" or int
        When M ⪰ 0 and b ≥ 1 are enforced by projection: after every update (the paper's "+"), only in `metric_`
        (its "-": the stream's own M stays indefinite), or after every k-th step.
    tolerance : float
        Steps with |τ| below it are skipped.
    init : "zero", "identity", "random" or Metric
        The model before the first step. With a kernel only "zero" has a meaning.
    n_pairs : int or "auto"
        Pairs drawn from labelled rows; "auto" is the paper's 40 c (c - 1) for c classes.
    n_steps : int or "auto"
        Steps that `fit` takes, through the pairs in cycles. "auto" is one pass over given comparisons, and from
        labels the paper's rule: at least two passes over the r pairs, up to t = min(⌊n(n-2)/40⌋, 50 r) steps.
        There n counts the whole data set, half of which trains; `fit` sees the training half, so n is read as
        twice the number of rows given, and ⌊n(n-2)/40⌋ is a fifth of all pairs of training rows.
    balance : float or None
        Share of similar pairs among those drawn from labels; None draws uniformly from all pairs.
    kernel : None, "linear", "rbf", "poly", "cosine", "precomputed" or callable
        Learn in the feature space of a kernel; `kernel_params` are its parameters.
    tune_by : {"knn", "loss"}
        What C="auto" minimises: the leave-one-out error of the best k-NN rule, k = 1..25, on the labelled rows, or
        the cumulated hinge loss of the pass. Where only comparisons are given it is always the loss.
    record : bool
        Keep `history_`. It grows by 18 bytes a step: turn it off for a stream without end.
    rank_every : int or None
        Record the effective dimension of M in `history_` every so many steps.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    metric_ : Metric, what has been learned so far (under psd="end" the projection of the state at this moment)
    raw_metric_ : Metric, the stream's own model, which under psd="end" may be indefinite
    threshold_, components_, C_, n_features_in_, feature_names_in_
    history_ : History, what happened at each step
    n_steps_, n_updates_, n_mistakes_ : int
    loss_, squared_loss_ : float, the hinge loss and its square summed over all steps
    radius_ : float, the largest ‖v‖⁴ + 1 seen

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = MinMaxScaler().fit_transform(X)
    >>> learner = mahala.PA("I", random_state=0).fit(X, y)
    >>> pairs = mahala.Pairs.from_labels(X, y, 1000, random_state=1)
    >>> learner.score(pairs) > 0.9
    True
    """

    def __init__(
        self,
        variant: Literal["hard", "I", "II", "LS"] = "I",
        C: float | Literal["auto"] = 1.0,
        psd: Literal["every", "end"] | int = "every",
        tolerance: float = 0.0,
        init: Literal["zero", "identity", "random"] | Metric = "zero",
        n_pairs: int | Literal["auto"] = "auto",
        n_steps: int | Literal["auto"] = "auto",
        balance: float | None = None,
        kernel: Any = None,
        kernel_params: dict[str, Any] | None = None,
        tune_by: Literal["knn", "loss"] = "knn",
        record: bool = True,
        rank_every: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.variant = variant
        self.C = C
        self.psd = psd
        self.tolerance = tolerance
        self.init = init
        self.n_pairs = n_pairs
        self.n_steps = n_steps
        self.balance = balance
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.tune_by = tune_by
        self.record = record
        self.rank_every = rank_every
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from labelled rows (X 2-D, y class labels) or comparisons (Pairs, or X 3-D and y = ±1)."""
        self._check_params()
        with self._all_or_nothing():
            pairs, labels = self._comparisons(X, y, reset=True)
            n_steps = len(pairs)
            if not isinstance(self.n_steps, str):
                n_steps = self.n_steps
            elif labels is not None:
                n = 2 * len(labels)
                n_steps = max(2 * n_steps, min(n * (n - 2) // 40, 50 * n_steps))
            self._start()
            in_span = self._in_span(pairs)
            if isinstance(self.C, str):
                self._tune(pairs, in_span, labels)
            self._restart()
            self._feed_in_span(in_span, n_steps)
        return self

    def _tune(self, pairs: Pairs, in_span: Pairs, labels: NDArray[np.intp] | None) -> None:
        """Take the value of C_GRID with the lowest cost after one pass over the pairs; ties go to the smallest."""
        costs = []
        for self._tuned_C in C_GRID:
            self._restart()
            self._feed_in_span(in_span, len(in_span))
            if labels is None or self.tune_by == "loss":
                costs.append(self.loss_)
            else:
                embedded = self.metric_.transform(pairs.X)
                costs.append(float(leave_one_out_errors(embedded, labels, MOST_NEIGHBORS).min()))
        self._tuned_C = C_GRID[int(np.argmin(costs))]

    @property
    def C_(self) -> float:
        """The aggressiveness in force: the one that C="auto" found, or C."""
        check_is_fitted(self, "_tuned_C" if isinstance(self.C, str) else "n_steps_")
        return self._aggressiveness()

    def _aggressiveness(self) -> float:
        return self._tuned_C if isinstance(self.C, str) else float(self.C)

    def _rule(self) -> Rule:
        C = self._aggressiveness()
        return {
            "hard": (0.0, 0.0, np.inf),
            "I": (0.0, 0.0, C),
            "II": (0.5 / C, 0.0, np.inf),
            "LS": (0.5 / C, -np.inf, np.inf),
        }[self.variant]

    @property
    def _tolerance(self) -> float:
        return float(self.tolerance)

    @property
    def _psd_steps(self) -> int:
        return {"every": 1, "end": 0}[self.psd] if isinstance(self.psd, str) else int(self.psd)

    def _first_model(self, d: int) -> PairModel:
        psd = self._psd_steps
        if isinstance(self.init, Metric):
            if not isinstance(self.init, MahalanobisMetric) or self.init.kernel_map is not None:
                raise ValueError("init must be a Mahalanobis Metric without a kernel")
            if self.init.n_features_in != d:
                raise ValueError(f"init has {self.init.n_features_in} features, the data have {d}")
            metric = self.init if psd == 0 else self.init.projected()
            return PairModel(metric.matrix, metric.threshold or 0.0, psd)
        if self.init == "identity":
            return PairModel(np.eye(d), 0.0, psd)
        if self.init == "random":
            A = np.random.default_rng([self._seed, d]).standard_normal((d, d))
            return PairModel(A @ A.T / max(d, 1), 0.0, psd)
        return PairModel(np.zeros((d, d)), 0.0, psd)

    def _check_params(self) -> None:
        if self.variant not in ("hard", "I", "II", "LS"):
            raise ValueError(f"variant must be 'hard', 'I', 'II' or 'LS', got {self.variant!r}")
        if not _is_word(self.C, "auto") and not (is_number(self.C) and 0.0 < float(self.C) < np.inf):
            raise ValueError(f"C must be 'auto' or a positive number, got {self.C!r}")
        if not _is_word(self.psd, "every", "end") and not is_count(self.psd):
            raise ValueError(f"psd must be 'every', 'end' or a number of steps from 1 up, got {self.psd!r}")
        if not (is_number(self.tolerance) and 0.0 <= self.tolerance < np.inf):
            raise ValueError(f"tolerance must be a number from 0 up, got {self.tolerance!r}")
        if not isinstance(self.init, Metric) and not _is_word(self.init, "zero", "identity", "random"):
            raise ValueError(f"init must be 'zero', 'identity', 'random' or a Metric, got {self.init!r}")
        if self.kernel is not None and not _is_word(self.init, "zero"):
            raise ValueError("init must be 'zero' with a kernel: no other model lies in the span of the pairs")
        if not _is_word(self.n_steps, "auto") and not is_count(self.n_steps):
            raise ValueError(f"n_steps must be 'auto' or a number from 1 up, got {self.n_steps!r}")
        if self.tune_by not in ("knn", "loss"):
            raise ValueError(f"tune_by must be 'knn' or 'loss', got {self.tune_by!r}")
        super()._check_params()

    def _check_open(self, method: str) -> None:
        super()._check_open(method)
        if isinstance(self.C, str) and not hasattr(self, "_tuned_C"):
            raise ValueError(f"C='auto' needs the whole set of pairs: call fit before {method}, or give a number")

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._get_state()
        return header | {"C": getattr(self, "_tuned_C", None)}, arrays

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        if header_value(header, "C", float, type(None)) is not None:
            self._tuned_C = number_value(header, "C", least=min(C_GRID))


def _is_word(value: Any, *words: str) -> bool:
    return isinstance(value, str) and value in words
