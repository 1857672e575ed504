"""Answers to comparisons as an order of squared distances, and the map that minimises their logistic loss."""

from collections.abc import Callable
from operator import getitem
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.batch.descent import descend
from mahala.batch.run import Model, Run
from mahala.comparisons import Comparisons
from mahala.comparisons.folds import compared_pairs
from mahala.compiled.sums.lmnn import add_pull, squared_distances
from mahala.learner import LabelledRows
from mahala.metric.thresholds import best_threshold
from mahala.support.arrays import Arrays, BoolArray, FloatArray, IndexArray, RealArray
from mahala.support.model_files import ModelFileError, array_value, finite
from mahala.support.validation import check_weights

# The temperature of the loss is this many times the median of the absolute margins under the prior.
SOFTNESS = 3.0
# The default penalty is this divided by the number of answers: the prior counts as much as it does for few answers.
PENALTY = 6.0
THRESHOLD = -1


class Answers(NamedTuple):
    """Answers that put one squared distance below another, or below or above a threshold.

    X : rows
    near, far : arrays of shape (2, n): the two row numbers whose distance should be the smaller one, and the larger
        one; -1 where it is the threshold
    weights : the weight of each answer
    """

    X: RealArray
    near: IndexArray
    far: IndexArray
    weights: FloatArray

    @classmethod
    def of(cls, comparisons: Comparisons, weights: FloatArray | None = None) -> Self:
        """Return the answers that pairs, triplets or quadruplets are."""
        weights = np.ones(len(comparisons)) if weights is None else weights
        return cls(comparisons.X, *compared_pairs(comparisons), weights)

    def select(self, key: BoolArray | IndexArray) -> Self:
        """Return some of the answers, over the same rows."""
        return self._replace(near=self.near[:, key], far=self.far[:, key], weights=self.weights[key])

    @property
    def size(self) -> int:
        """The number of answers."""
        return int(self.near.shape[1])

    @property
    def has_threshold(self) -> bool:
        return bool((self.far[0] == THRESHOLD).any() or (self.near[0] == THRESHOLD).any())

    @property
    def only_kind(self) -> str:
        """The kind of pairs that all are, "similar" or "dissimilar", of which no threshold can be learned; else ""."""
        if (self.far[0] == THRESHOLD).all():
            return "similar"
        return "dissimilar" if (self.near[0] == THRESHOLD).all() else ""

    def compact(self, read: Callable[[RealArray, IndexArray], RealArray] = getitem) -> Self:
        """Return the same answers over the rows that they compare, as they are read from X."""
        rows, numbers = np.unique(np.concatenate([self.near, self.far]), return_inverse=True)
        numbers = numbers.reshape(4, -1) - int(rows[0] == THRESHOLD)
        return self._replace(X=read(self.X, rows[rows != THRESHOLD]), near=numbers[:2], far=numbers[2:])

    def joined(self, others: Self) -> Self:
        """Return the others and then these; rows that are equal are one."""
        X = np.concatenate([others.X, self.X.astype(others.X.dtype)])
        rows, numbers = np.unique(X, axis=0, return_inverse=True)
        numbers = np.append(numbers.ravel(), THRESHOLD)

        def renumbered(first: IndexArray, second: IndexArray) -> IndexArray:
            moved = np.where(second == THRESHOLD, THRESHOLD, second + len(others.X))
            return np.asarray(numbers[np.concatenate([first, moved], axis=1)])

        weights = np.concatenate([others.weights, self.weights])
        return self._replace(
            X=rows, near=renumbered(others.near, self.near), far=renumbered(others.far, self.far), weights=weights
        )

    @classmethod
    def restored(cls, arrays: Arrays, n_features: int) -> Self:
        """Return the answers whose fields a model file has; raise ModelFileError if they are damaged."""
        dtype = np.float32 if arrays["X"].dtype == np.float32 else np.float64
        X = finite(array_value(arrays, "X", dtype, (None, n_features)), "X")
        near, far = (array_value(arrays, name, np.int64, (2, None)) for name in ("near", "far"))
        weights = finite(array_value(arrays, "weights", np.float64, (None,)), "weights")
        n, numbers = len(weights), np.concatenate([near.ravel(), far.ravel()])
        if not near.shape == far.shape == (2, n) or not n or not -1 <= numbers.min() <= numbers.max() < len(X):
            raise ModelFileError(f"near and far should be 2 x {n} row numbers below {len(X)}")
        if (weights <= 0.0).any() or ((near == THRESHOLD) & (far == THRESHOLD)).any():
            raise ModelFileError("answers should have positive weights and compare rows")
        return cls(X, near.astype(np.intp), far.astype(np.intp), weights)


def weighted_answers(weights: ArrayLike, data: LabelledRows | Comparisons) -> Answers:
    """Return answers with their weights."""
    if isinstance(data, LabelledRows):
        raise ValueError("weights must be None with class labels: they weight comparisons")
    return Answers.of(data, check_weights(weights, len(data)))


class LogisticLoss:
    """The mean logistic loss of answers, and its gradient, as a function of the mapped rows and of the threshold.

    The probability of an answer is noise + (1 - 2 noise) σ(m / t), where m is its margin: the squared distance
    that should be larger minus the other one.
    """

    def __init__(self, answers: Answers, Z: RealArray, noise: float) -> None:
        n = len(Z)
        codes = np.concatenate([answers.near, answers.far], axis=1).astype(np.int64)
        keys, numbers = np.unique(codes.min(axis=0) * n + codes.max(axis=0), return_inverse=True)
        self.near, self.far = numbers.reshape(2, -1)
        self._has_threshold = bool(len(keys) and keys[0] < 0)  # which is the first edge then
        self.left, self.right = np.divmod(keys[int(self._has_threshold) :], n)
        self.weights, self.noise = answers.weights / answers.weights.sum(), noise
        first = squared_distances(Z, self.left, self.right)
        self.threshold, middle = self._first_thresholds(first) if self._has_threshold else (0.0, 0.0)
        margins = np.abs(self.margins(first, middle))
        largest = float(first.max(initial=0.0))
        margins[margins <= 100.0 * np.finfo(Z.dtype).eps * largest] = 0.0  # but for rounding
        positive = margins > 0.0
        # Where most answers are about equal distances, the median of the others.
        median = _median(margins, self.weights)
        if not median and positive.any():
            median = _median(margins[positive], self.weights[positive])
        self.temperature = SOFTNESS * (median or largest or 1.0)

    def _first_thresholds(self, squared: FloatArray) -> tuple[float, float]:
        """Return the threshold that most pairs agree with, and the one halfway between the means of both kinds."""
        is_pair = (self.far == 0) | (self.near == 0)  # later answers may be of another kind
        similar, weights = self.far[is_pair] == 0, self.weights[is_pair]
        lengths = squared[(self.near + self.far)[is_pair] - 1]
        if similar.all() or not similar.any():
            return (_median(lengths, weights),) * 2
        means = [float(np.average(lengths[kind], weights=weights[kind])) for kind in (similar, ~similar)]
        return best_threshold(lengths, similar, "accuracy", 1.0, 0.5), sum(means) / 2.0

    def margins(self, squared: FloatArray, threshold: float) -> FloatArray:
        """Return by how much each answer agrees with squared distances along the edges."""
        if self._has_threshold:
            squared = np.concatenate([[threshold], squared])
        return np.asarray(squared[self.far] - squared[self.near])

    def __call__(self, Z: RealArray, threshold: float) -> tuple[float, RealArray, float]:
        """Return the loss, half its gradient with respect to Z, and its derivative by the threshold."""
        squared = squared_distances(Z, self.left, self.right)
        margins = self.margins(squared, threshold) / self.temperature
        wrong = 1.0 / (1.0 + np.exp(np.clip(margins, -500.0, 500.0)))  # σ(-m / t)
        if self.noise:
            right = self.noise + (1.0 - 2.0 * self.noise) * (1.0 - wrong)
            losses, slopes = -np.log(right), (1.0 - 2.0 * self.noise) * wrong * (1.0 - wrong) / right
        else:
            losses, slopes = np.logaddexp(0.0, -margins), wrong
        slopes = self.weights * slopes / self.temperature
        n_edges = len(squared) + int(self._has_threshold)
        pulls = np.bincount(self.near, slopes, n_edges).astype(np.float64) - np.bincount(self.far, slopes, n_edges)
        by_threshold = float(pulls[0]) if self._has_threshold else 0.0
        pull = np.zeros_like(Z)
        add_pull(Z, self.left, self.right, pulls[len(pulls) - len(squared) :], pull)
        return float(self.weights @ losses), pull, by_threshold


def _median(values: FloatArray, weights: FloatArray) -> float:
    """Return the smallest value such that the values up to it have half of the weight."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, 0.5 * total[-1] * (1.0 - 1e-12))]])


class Fit(NamedTuple):
    """A map A of rows in the coordinates of the prior, and the threshold of squared distances."""

    A: RealArray
    threshold: float
    reason: str = ""


def fit_map(
    answers: Answers,
    start: RealArray,
    lam: float,
    noise: float,
    run: Run,
    *,
    warm: Fit | None = None,
    to_model: Callable[[Fit], Model],
) -> Fit:
    """Minimise the mean loss + lam ‖A - start‖² over A and the threshold; with an infinite lam A is `start`."""
    answers = answers.compact()
    X, shape = answers.X, start.shape
    loss = LogisticLoss(answers, X @ start.T, noise)
    if np.isinf(lam):
        prior = Fit(start, loss.threshold, "prior")
        run.step(loss(X @ start.T, loss.threshold)[0], to_model(prior))
        return prior
    last = first = Fit(start, loss.threshold) if warm is None else warm

    def unpacked(variables: RealArray) -> Fit:
        return Fit(variables[:-1].reshape(shape), float(variables[-1]) * loss.temperature)

    def objective(variables: RealArray) -> tuple[float, RealArray]:
        A, threshold, _ = unpacked(variables)
        value, pull, by_threshold = loss(X @ A.T, threshold)
        gap = A - start
        gradient = 2.0 * (pull.T @ X) + 2.0 * lam * gap
        return value + lam * float(np.vdot(gap, gap)), np.append(gradient.ravel(), by_threshold * loss.temperature)

    def model_of(variables: RealArray) -> Callable[[], Model]:
        nonlocal last
        last = fit = unpacked(variables.copy())
        return lambda: to_model(fit)  # which maps all features, and few iterations are asked for

    variables = np.append(first.A.astype(X.dtype).ravel(), X.dtype.type(first.threshold / loss.temperature))
    reason = descend(objective, variables, run, to_model=model_of)
    return last._replace(reason=reason)


def predicted_margins(answers: Answers, Z: RealArray, threshold: float) -> FloatArray:
    """Return by how much mapped rows agree with each answer."""

    def squared(pairs: IndexArray) -> FloatArray:
        return np.where(pairs[0] == THRESHOLD, threshold, squared_distances(Z, pairs[0], pairs[1]))

    return np.asarray(squared(answers.far) - squared(answers.near))
