"""The regret of an online learner: its summed loss beside that of the best fixed metric, and what is proven of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mahala.comparisons import Comparisons, Pairs, Triplets
from mahala.evaluation.hindsight import PairLosses, TripletLosses
from mahala.metric import BilinearMetric, MahalanobisMetric
from mahala.online.ogd import OGD
from mahala.online.online_learner import OnlineLearner
from mahala.online.pair_learner import PairLearner
from mahala.online.passive_aggressive import PA
from mahala.online.pola import POLA
from mahala.online.similarity_learner import SimilarityLearner
from mahala.online.sors import SORS, AdaSORS
from mahala.support.arrays import BoolArray, FloatArray, check_room
from mahala.support.parameters import Positive, check_value
from mahala.support.plots import new_axes, plain_frame
from mahala.support.validation import is_sparse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A loss of the best metric below this in each step is removed by a slightly larger metric.
REMOVABLE = 1e-1


class RegretRow(NamedTuple):
    """Losses summed up to and including a step."""

    step: int
    stream: float
    best: float
    regret: float
    bound: float | None


@dataclass(frozen=True, eq=False)
class Regret:
    """Losses of a stream, summed up to and including each step; result of :func:`regret`."""

    stream: FloatArray
    """The learner's loss, of each step before its update."""
    best: FloatArray
    """The loss of the best fixed metric of the whole stream."""
    bound: FloatArray | None
    """What the learner's loss is proven not to exceed, if anything is."""
    metric: MahalanobisMetric | BilinearMetric
    """The best fixed metric."""
    gap: float
    """The most that the last number in `best` is above the least one, over metrics up to ten times as large."""

    @property
    def regret(self) -> FloatArray:
        """The learner's loss less that of the best fixed metric."""
        return self.stream - self.best

    @property
    def rows(self) -> list[RegretRow]:
        """The numbers after 1, 2, 5, 10, 20, ... steps, and after all of them."""
        n = len(self.stream)
        steps = {k * 10**power for power in range(len(str(n))) for k in (1, 2, 5) if k * 10**power < n} | {n}
        bound = [None] * n if self.bound is None else self.bound.tolist()
        rows = zip(range(1, n + 1), self.stream.tolist(), self.best.tolist(), self.regret.tolist(), bound, strict=True)
        return [RegretRow(*row) for row in rows if row[0] in steps]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the summed losses by step, and the bound as far as it is not far above; return Matplotlib's axes."""
        ax = ax or new_axes()[0]
        steps = np.arange(1, len(self.stream) + 1)
        ax.plot(steps, self.stream, label="learner")
        ax.plot(steps, self.best, label="best fixed metric")
        top = 1.05 * float(max(self.stream[-1], self.best[-1])) or 1.0
        if self.bound is not None:
            ax.plot(steps, self.bound, linestyle="--", label=f"bound ({self.bound[-1]:,.4g} at the end)")
            top = min(max(top, 1.05 * float(self.bound[-1])), 5.0 * top)
        ax.set_ylim(0.0, top)
        ax.legend(fontsize="small", frameon=False)
        return plain_frame(ax, xlabel="step", ylabel="summed loss")


def regret(learner: OnlineLearner, comparisons: Pairs | Triplets, *, tol: float = 1e-3) -> Regret:
    """Compare the loss of an online learner on a stream with that of the best fixed metric, in hindsight.

    A copy of the learner learns from the comparisons once each, in their order. The loss of a pair is the square of
    the learner's loss (the hinge loss of :class:`mahala.PA`); that of a triplet is the hinge loss and, for SORS and
    AdaSORS, λ r(M). The best fixed metric minimises the sum of these losses over M ⪰ 0 and b ≥ 1, or over all M.

    A bound is given where a paper proves one: for POLA, and PA where its steps are POLA's (variants "hard" and "II"
    from zero, projected in every step), by the theorem of 2004, which for γ = 0 needs a metric without loss; for OGD,
    SORS and AdaSORS with `init="zero"` and a number `eta` by Theorems 1 and 2 of 2015. To the second theorem belongs
    δ ‖M*‖² / 2η, which the paper leaves out.

    Parameters
    ----------
    learner : online learner without a kernel, and with a number as `margin`
    comparisons : Pairs with labels, or Triplets, as the learner needs
    tol : float, default=1e-3
        The fit of the best metric ends when its loss is proven to be at most this share above the least one.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import minmax_scale
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> pairs = mahala.Pairs.from_labels(minmax_scale(X), y, 1000, random_state=0)
    >>> result = mahala.evaluation.regret(mahala.POLA(gamma=1.0), pairs)
    >>> bool(result.best[-1] < result.stream[-1] < result.bound[-1])
    True
    """
    check_value(tol, "tol", Positive)
    if not isinstance(learner, OnlineLearner):
        raise TypeError(f"learner must be an online learner, such as PA or OASIS, got {type(learner).__name__}")
    if not len(comparisons):
        raise ValueError("comparisons must not be empty")
    params = learner.get_params(deep=False) | {"record": True}
    if isinstance(learner, PairLearner) and isinstance(comparisons, Pairs):
        return _of_pairs(type(learner)(**params), comparisons.labelled(None), tol)
    if isinstance(learner, SimilarityLearner) and isinstance(comparisons, Triplets):
        return _of_triplets(type(learner)(**params | {"average": False}), comparisons, tol)
    kind, wanted = type(learner).__name__, "Pairs" if isinstance(learner, PairLearner) else "Triplets"
    raise TypeError(f"comparisons must be {wanted} for {kind}, got {type(comparisons).__name__}")


def _of_pairs(learner: PairLearner, pairs: Pairs, tol: float) -> Regret:
    kernel = learner.get_params().get("kernel")
    if kernel is not None:
        raise ValueError(f"kernel must be None for regret, got {kernel!r}: no best metric is fitted in its space")
    learner.partial_fit(pairs)
    V, y = _dense(pairs, "left") - _dense(pairs, "right"), np.asarray(pairs.y, dtype=np.float64)
    losses = PairLosses(V, *learner._loss_terms(y))
    best = losses.best(tol)
    has_threshold = bool(losses.weight.any())
    worst = float(np.sqrt(best.losses.max()))
    if has_threshold and 0.0 < worst < REMOVABLE and best.losses.sum() <= tol:
        M, b = best.matrix / (1.0 - worst), best.threshold / (1.0 - worst)
        best = best._replace(matrix=M, threshold=b, losses=np.zeros(len(y)), gap=0.0)
    stream, summed = np.cumsum(learner.history_.loss**2), np.cumsum(best.losses)
    metric = MahalanobisMetric(best.matrix, best.threshold if has_threshold else None)
    bound, gamma = None, _slack_of_pola(learner)
    if gamma is not None and (gamma > 0.0 or not summed[-1]):
        radius = np.maximum.accumulate(np.square(V).sum(axis=1) ** 2) + 1.0
        excess = summed / gamma if gamma else 0.0
        bound = (radius + gamma) * (float(np.sum(best.matrix**2)) + best.threshold**2 + excess)
    return Regret(stream, summed, bound, metric, best.gap)


def _slack_of_pola(learner: PairLearner) -> float | None:
    """Return γ if the learner's steps are those of POLA, else None."""
    if isinstance(learner, PA):
        plain = learner.variant in ("hard", "II") and learner.min_step == 0.0
        if not plain or learner.psd not in ("every", 1) or not isinstance(learner.init, str) or learner.init != "zero":
            return None
    elif not isinstance(learner, POLA):
        return None
    return learner._rule().slack


def _of_triplets(learner: SimilarityLearner, triplets: Triplets, tol: float) -> Regret:
    if isinstance(learner.margin, str):
        raise ValueError(
            "margin must be a number for regret, got 'auto', under which the loss changes along the stream"
        )
    X, Q = _dense(triplets, "anchor"), _dense(triplets, "positive") - _dense(triplets, "negative")
    lam = float(learner.lam) if isinstance(learner, SORS) else 0.0
    penalties = np.full((X.shape[1], Q.shape[1]), lam)
    if isinstance(learner, SORS) and learner.penalty == "offdiagonal":
        np.fill_diagonal(penalties, 0.0)
    losses = TripletLosses(X, Q, float(learner.margin), penalties)
    best = losses.best(tol)
    eta = learner.eta if isinstance(learner, OGD | SORS) and learner.init == "zero" else "auto"
    delta = float(learner.delta) if isinstance(learner, AdaSORS) else None
    distances, penalty = np.zeros(len(X)), np.zeros(len(X))
    if lam > 0.0 or (delta is not None and not isinstance(eta, str)):
        M = _first_matrix(learner, penalties.shape)
        for t in range(len(X)):
            penalty[t], distances[t] = losses.penalty(M), np.abs(M - best.matrix).max()
            M = _as_array(learner.partial_fit(triplets[t : t + 1]).metric_)
    else:
        learner.partial_fit(triplets)
    hinges = learner.history_.loss
    stream, summed = np.cumsum(hinges + penalty), np.cumsum(best.losses)
    bound, size = None, float(np.sum(best.matrix**2))
    if not isinstance(eta, str) and delta is not None:
        # Theorem 2.
        lengths = _summed_lengths(X, Q, hinges > 0.0)
        D = np.maximum.accumulate(distances)
        bound = summed + (D**2 / (2.0 * eta) + eta) * lengths + delta * size / (2.0 * eta)
    elif not isinstance(eta, str):
        # Theorem 1, with the Lipschitz constant of the losses.
        lipschitz = float((np.square(X).sum(axis=1) * np.square(Q).sum(axis=1)).max())
        bound = summed + size / (2.0 * eta) + eta / 2.0 * lipschitz * np.arange(1, len(X) + 1)
    return Regret(stream, summed, bound, BilinearMetric(best.matrix), best.gap)


def _summed_lengths(X: FloatArray, Q: FloatArray, moved: BoolArray) -> FloatArray:
    """Return Σ_ij √(Σ G_ij²) over the gradients G = x qᵀ of the steps that moved, up to and including each step."""
    squares, lengths = np.zeros((X.shape[1], Q.shape[1])), np.empty(len(X))
    for t in range(len(X)):
        if moved[t]:
            squares += np.outer(X[t] ** 2, Q[t] ** 2)
        lengths[t] = np.sqrt(squares).sum()
    return lengths


def _first_matrix(learner: SimilarityLearner, shape: tuple[int, ...]) -> FloatArray:
    if isinstance(learner.init, BilinearMetric):
        return _as_array(learner.init)
    return np.eye(shape[0], shape[1]) if learner.init == "identity" else np.zeros(shape)


def _as_array(metric: BilinearMetric) -> FloatArray:
    return np.asarray(metric.matrix.toarray() if is_sparse(metric.matrix) else metric.matrix)


def _dense(comparisons: Comparisons, role: str) -> FloatArray:
    """Return the rows of a role in float64."""
    rows = comparisons.rows_of(role, slice(None))
    check_room(8.0 * rows.shape[0] * rows.shape[1], None, "the rows of the comparisons", "give fewer comparisons")
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)
