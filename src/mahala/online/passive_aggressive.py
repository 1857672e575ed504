"""PA, PA-I, PA-II and PA-LS: passive-aggressive online metrics (Pérez-Suay, Ferri, Arevalillo-Herráez, 2013)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from sklearn.exceptions import NotFittedError

from mahala.comparisons import Comparisons, Pairs
from mahala.engine.neighbors import leave_one_out_errors
from mahala.metric import MahalanobisMetric
from mahala.online.pair_learner import PairLearner
from mahala.online.state.margin import MOST_SLACK, MarginRule, MarginState, check_memory, first_state
from mahala.support.locking import one_at_a_time
from mahala.support.model_files import ModelFileError
from mahala.support.parameters import Count, NonNegative, ReadableSignature, Where, between
from mahala.support.states import Number
from mahala.support.tags import Labels

# The paper's range for the aggressiveness, a value for each power of ten.
C_GRID = tuple(float(C) for C in np.logspace(-4, 2, 7))
Aggressiveness = Annotated[float, Where(between(1.0 / MOST_SLACK), f"a number of at least {1.0 / MOST_SLACK:g}")]
# The paper's k-NN rules, of which the best counts.
MOST_NEIGHBORS = 25


@dataclass(kw_only=True, eq=False, repr=False)
class KernelParams(ReadableSignature):
    """What PA and POLA share: a kernel, the record of ranks, and a model that is not projected."""

    kernel: str | Callable[..., float] | None = None
    kernel_params: dict[str, object] | None = None
    rank_every: Count | None = None

    _fixed: ClassVar[tuple[str, ...]] = ("kernel", "kernel_params")

    def _check_params(self) -> None:
        if self.kernel_params is not None and self.kernel is None:
            raise ValueError(f"kernel_params={self.kernel_params!r} need a kernel, but kernel is None")

    def _check_open(self, method: str) -> None:
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            advice = f"{method} cannot bring new ones; use fit, or a kernel that can be evaluated"
            raise ValueError(f"kernel='precomputed' holds the points that were there from the start: {advice}")

    @property
    @one_at_a_time
    def raw_metric_(self: Any) -> MahalanobisMetric:
        """The stream's own model as it stands: it may be indefinite under psd="end", and b below 1."""
        self._check_fitted()
        return self._model.raw_metric()  # type: ignore[no-any-return]

    @property
    def radius_(self: Any) -> float:
        """The largest ‖v‖⁴ + 1 of the pairs seen."""
        self._check_fitted()
        return float(self._model.radius)


@dataclass(eq=False, repr=False)
class PA(KernelParams, PairLearner):
    """Learn a Mahalanobis metric M and a threshold b from pairs, by passive-aggressive steps.

    Parameters
    ----------
    variant : {"hard", "I", "II", "LS"}, default="I"
        The rule of the step length τ; see Notes.
    C : float or "auto", default=1.0
        Aggressiveness. "auto" is the paper's tuner: one pass for each of 1e-4, 1e-3, ..., 1e2, and the best model
        counts (see `tune_by`); the chosen value is `C_`.
    psd : {"every", "end"} or int, default="every"
        When M ⪰ 0 and b ≥ 1 are enforced by projection: after every update (the paper's "+"), only in `metric_`
        (its "-": the stream's own M stays indefinite), or after every k-th step.
    min_step : float, default=0.0
        Steps with |τ| below it are skipped.
    init : {"zero", "identity", "random"} or MahalanobisMetric, default="zero"
        The model before the first step. With a kernel only "zero" has a meaning.
    n_pairs : int or "auto", default="auto"
        Pairs drawn from labelled rows; "auto" is the paper's 40 c (c - 1) for c classes.
    n_steps : int or "auto", default="auto"
        Steps that `fit` takes, through the pairs in cycles. "auto" is one pass over given comparisons, and from
        labels the paper's rule: at least two passes over the r pairs, up to t = min(⌊n(n-2)/40⌋, 50 r) steps.
        There n counts the whole data set, half of which trains; `fit` sees the training half, so n is read as
        twice the number of rows given, and ⌊n(n-2)/40⌋ is a fifth of all pairs of training rows.
    balance : float or None, default=None
        Share of similar pairs among those drawn from labels; None draws uniformly from all pairs.
    kernel : {"linear", "rbf", "poly", "cosine", "precomputed"}, callable or None, default=None
        Learn in the feature space of a kernel.
    kernel_params : dict or None, default=None
        Parameters of the kernel.
    tune_by : {"knn", "loss"}, default="knn"
        What C="auto" minimises: the leave-one-out error of the best k-NN rule, k = 1..25, on the labelled rows, or
        the cumulated hinge loss of the pass. Where comparisons are given, or tags, it is always the loss.
    record : bool or int, default=100_000
        Number of last steps that `history_` holds, at 18 bytes each; True for all, False for none.
    rank_every : int or None, default=None
        Record the effective dimension of M in `history_` every so many steps.
    random_state : int, RandomState, Generator or None, default=None

    Attributes
    ----------
    metric_ : MahalanobisMetric, what has been learned so far; under psd="end" the projection of the current state
    raw_metric_ : MahalanobisMetric, the stream's own model, which under psd="end" may be indefinite
    threshold_, components_, C_, n_features_in_, feature_names_in_
    history_ : History, what happened at each step
    n_steps_, n_updates_, n_mistakes_ : int
    n_skipped_ : int, steps that were not taken because their numbers would overflow
    loss_, squared_loss_ : float, the hinge loss and its square summed over all steps
    radius_ : float, the largest ‖v‖⁴ + 1 seen

    Notes
    -----
    A pair at distance d = vᵀMv, v = x - x', is predicted to be similar iff d <= b. With y = ±1, p = 1 - y (b - d) and
    l = max(0, p), each step is M ← M - τ y v vᵀ, b ← b + τ y, where τ is l / (1 + ‖v‖⁴) for "hard", at most C for "I",
    l / (1 + 1/(2C) + ‖v‖⁴) for "II", and the same with p, which may be negative, for "LS".

    References
    ----------
    A. Pérez-Suay, F. J. Ferri, M. Arevalillo-Herráez: Passive-aggressive online distance metric learning and
    extensions. Progress in Artificial Intelligence 2, 2013.

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

    _test_settings = (
        {"min_step": 0.02, "variant": "LS"},
        {"variant": "I", "psd": "end", "C": 0.1, "init": "random"},
        {"variant": "II", "psd": 3, "C": 0.1, "init": "identity"},
        {"kernel": "cosine", "psd": 4},
        {"kernel": "poly", "kernel_params": {"gamma": 0.3}, "psd": "end", "variant": "LS", "C": 0.1},
    )

    variant: Literal["hard", "I", "II", "LS"] = "I"
    _: KW_ONLY
    C: Literal["auto"] | Aggressiveness = 1.0
    psd: Literal["every", "end"] | Count = "every"
    min_step: NonNegative = 0.0
    init: Literal["zero", "identity", "random"] | MahalanobisMetric = "zero"
    n_steps: Literal["auto"] | Count = "auto"
    tune_by: Literal["knn", "loss"] = "knn"

    _fixed: ClassVar = ("kernel", "kernel_params", "psd")
    FIELDS: ClassVar = (Number("_tuned_C", optional=True),)
    _tuned_C = None  # type: float | None

    def _check_params(self) -> None:
        super()._check_params()
        if self.kernel is not None and not (isinstance(self.init, str) and self.init == "zero"):
            raise ValueError("init must be 'zero' with a kernel: no other model lies in the span of the pairs")

    def _rule(self) -> MarginRule:
        return self._rule_with(np.inf if self.variant == "hard" else self._aggressiveness())

    def _rule_with(self, C: float) -> MarginRule:
        slack = 0.5 / C if self.variant in ("II", "LS") else 0.0
        lower = -np.inf if self.variant == "LS" else 0.0
        upper = C if self.variant == "I" else np.inf
        return MarginRule(slack, lower, upper, float(self.min_step))

    def _aggressiveness(self) -> float:
        if not isinstance(self.C, str):
            return float(self.C)
        if self._tuned_C is None:
            raise NotFittedError("C='auto' needs the whole set of pairs: call fit first, or give a number")
        return float(self._tuned_C)

    @property
    def C_(self) -> float:
        """The aggressiveness in force: the one that C="auto" found, or C."""
        self._check_fitted()
        return self._aggressiveness()

    def _first_state(self, comparisons: Pairs | None, complete: bool) -> MarginState:
        d = self.n_features_in_
        psd = {"every": 1, "end": 0}[self.psd] if isinstance(self.psd, str) else int(self.psd)
        if isinstance(self.init, str) and self.init == "zero":
            return first_state(d, psd, self.kernel, self.kernel_params)
        check_memory(d, psd)
        if isinstance(self.init, MahalanobisMetric):
            metric = self.init.in_features(d, "init")
            metric = metric if psd == 0 else metric.projected()
            return MarginState(metric.matrix, metric.threshold or 0.0, psd)
        if self.init == "identity":
            return MarginState(np.eye(d), 0.0, psd)
        A = np.random.default_rng([self._seed, d]).standard_normal((d, d))
        return MarginState(A @ A.T / max(d, 1), 0.0, psd)

    def _stored_state(self, header: dict[str, object]) -> MarginState:
        if self._tuned_C not in (None, *C_GRID):
            raise ModelFileError(f"header entry 'tuned_C' should be one of {C_GRID}, found {self._tuned_C}")
        return self._first_state(None, complete=False)

    def _n_steps(self, comparisons: Comparisons, labels: Labels | None) -> int:
        if labels is None or not isinstance(self.n_steps, str):
            return super()._n_steps(comparisons, labels)
        n_pairs, n = len(comparisons), 2 * len(labels)
        return max(2 * n_pairs, min(n * (n - 2) // 40, 50 * n_pairs))

    def _learn(self, pairs: Pairs, labels: Labels | None) -> None:
        n_steps = self._n_steps(pairs, labels)
        prepared = self._model.prepare(pairs, n_steps, complete=True)
        self._model.planned = n_steps
        if isinstance(self.C, str):
            self._tuned_C = self._best_C(pairs, prepared, labels)
        self._feed(prepared, n_steps, self._rule())

    def _best_C(self, pairs: Pairs, prepared: Pairs, labels: Labels | None) -> float:
        """Return the value of C_GRID with the lowest cost after one pass over the pairs; ties go to the smallest."""
        costs = []
        for C in C_GRID:
            state, cost = after_one_pass(self._model, prepared, self._rule_with(C))
            if isinstance(labels, np.ndarray) and self.tune_by == "knn":
                embedded = state.metric().transform(pairs.X)
                cost = float(leave_one_out_errors(embedded, labels, MOST_NEIGHBORS).min())
            costs.append(cost)
        return C_GRID[int(np.argmin(costs))]


def after_one_pass(first: MarginState, prepared: Pairs, rule: MarginRule) -> tuple[MarginState, float]:
    """Return a copy of a state after one pass over the pairs by a rule, and the sum of the hinge losses."""
    state, loss = MarginState(first.M, first.b, first.psd, *first.steps), 0.0
    state.planned = first.planned
    for chunk in state.chunks(prepared, len(prepared), rule, None):
        n = len(chunk.y)
        p = np.empty(n)
        state.feed(chunk, rule, (p, np.empty(n), np.empty(n, dtype=np.int8)))
        loss += float(np.maximum(p, 0.0).sum())
    return state, loss
