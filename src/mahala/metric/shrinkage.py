"""Mix a learned matrix with the plain one, with the share that predicts triplets of held-out items best."""

import warnings
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from mahala.comparisons import Triplets
from mahala.comparisons.folds import folds_over_items
from mahala.judge import FEWEST, QUANTILE, standard_errors
from mahala.metric.base import Metric
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.limits import out_of_time
from mahala.support.parameters import Share

# Values of "auto" where triplets cannot determine M: the first one, unless another is better on held-out answers by
# more than so many standard errors. Less is not tried: for new items it may lose much more than it gains.
CANDIDATES = 0.5, 0.75, 0.875, 1.0
BETTER = 0.5
FOLDS = 3
# Of the user's call of `fit`, for a warning.
STACK_LEVEL = 7

Shrinkage = Literal["auto"] | Share


class Weights(NamedTuple):
    """The weights of the learned and of the plain matrix in the metric."""

    learned: float = 1.0
    plain: float = 0.0


def mixing_weights(
    name: str,
    shrinkage: float | str,
    triplets: Triplets,
    learned: Callable[[], Metric],
    plain: Metric,
    fit: Callable[[Triplets], Metric],
    seed: int,
) -> Weights:
    """Return the weights 1 - shrinkage of the learned and c · shrinkage of the plain matrix.

    c is the ratio of their mean absolute margins on the triplets, so that both count alike at a shrinkage of 1/2. With
    "auto", the shrinkage is 0 for triplets that determine M; else `fit` learns from parts of them, and held-out answers
    choose. A warning says so, unless they show that what is kept helps.
    """
    if isinstance(shrinkage, str):
        items = item_numbers(triplets)
        if is_determined(triplets, items):
            shrinkage = 0.0
        else:
            shrinkage, problem = _choose(*hold_out(triplets, items, plain, fit, seed))
            if problem:
                size = f"{len(triplets):,} triplets over {int(items.max()) + 1:,} items"
                M = f"a {triplets.n_features} × {triplets.n_item_features} matrix"
                advice = "mahala.compare(triplets) shows whether learning helps"
                message = f"{name}: {size} cannot determine {M}. {problem}; shrinkage=0 turns this off. {advice}."
                warnings.warn(message, stacklevel=STACK_LEVEL)
    if not shrinkage:
        return Weights()
    return Weights(1.0 - float(shrinkage), float(shrinkage) * _scale(triplets, learned(), plain))


def item_numbers(triplets: Triplets) -> IndexArray:
    """Return the number of the item in each role; equal rows are one item if no row number occurs twice."""
    numbers = np.stack([triplets.anchor, triplets.positive, triplets.negative])
    if triplets.items is not None:
        numbers[1:] += triplets.X.shape[0]
    used, items = np.unique(numbers, return_inverse=True)
    if len(used) == numbers.size and isinstance(triplets.X, np.ndarray) and triplets.items is None:  # a 3-D array
        items = np.unique(triplets.X[used], axis=0, return_inverse=True)[1].ravel()[items.ravel()]
    return np.asarray(items.reshape(numbers.shape))


def is_determined(triplets: Triplets, items: IndexArray) -> bool:
    """Whether there are more items than features, and at least as many answers as numbers in M."""
    d, e = triplets.n_features, triplets.n_item_features
    n_numbers = d * (d + 1) // 2 if triplets.items is None else d * e
    return len(triplets) >= n_numbers and int(items.max()) + 1 > min(d, e)


def hold_out(
    triplets: Triplets, items: IndexArray, plain: Metric, fit: Callable[[Triplets], Metric], seed: int
) -> tuple[FloatArray, IndexArray]:
    """Predict answers about items that were not learned from: by each candidate, and without shrinkage.

    Return 1 for a right prediction, 1/2 for ties and 0, and the anchors of these answers. Items are divided into folds.
    `fit` learns from the answers without any item of a fold, and is tested on those whose
    anchor is in it. Folds that leave nothing to learn from, or no room or time for it, are left out.
    """
    shares = np.array([*CANDIDATES, 0.0])

    def predicted(train: IndexArray, test: IndexArray) -> FloatArray | None:
        try:
            learned = None if out_of_time() else fit(triplets[train])
        except (ValueError, MemoryError):
            return None
        if learned is None or out_of_time():
            return None
        margins, plain_margins = (metric.margins(triplets[test])[:, np.newaxis] for metric in (learned, plain))
        mixed = (1.0 - shares) * margins + shares * _scale(triplets[train], learned, plain) * plain_margins
        return np.where(mixed == 0.0, 0.5, mixed > 0.0)

    by_item = folds_over_items(items[:2], items[[0, 2]], FOLDS, np.random.default_rng(seed))
    values, _, anchors = by_item.measure(predicted, len(shares))
    return values, anchors


def gains_and_errors(values: FloatArray, reference: int, anchors: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean gain of each column over one of them, and its standard error."""
    gains = values - values[:, [reference]]
    return gains.mean(axis=0), standard_errors(gains, anchors)


def _choose(predicted: FloatArray, anchors: IndexArray) -> tuple[float, str]:
    """Return the shrinkage, and a sentence unless held-out answers show that what is learned helps."""
    n, n_anchors = len(CANDIDATES), len(np.unique(anchors))
    if n_anchors < FEWEST:
        early = f"Triplets of held-out items have {n_anchors} anchors, too few to tell whether learning helps"
        return CANDIDATES[0], f"{early}: shrinkage_ is {CANDIDATES[0]:g}"
    gains, errors = gains_and_errors(predicted[:, :n], 0, anchors)
    best = int((gains - BETTER * errors).argmax())
    gains, errors = gains_and_errors(predicted[:, :n], n - 1, anchors)
    if gains[best] > QUANTILE * errors[best]:
        return CANDIDATES[best], ""
    mixed, plain, whole = (float(predicted[:, at].mean()) for at in (best, n - 1, n))
    shown = f"Of triplets of held-out items, the plain metric predicts {plain:.1%} and the learned one {whole:.1%}"
    mixture = f"metric_ is a mixture of both (shrinkage_ {CANDIDATES[best]:g}), which predicts {mixed:.1%}"
    return CANDIDATES[best], f"{shown}; {mixture}"


def _scale(triplets: Triplets, learned: Metric, plain: Metric) -> float:
    sizes = [float(np.abs(metric.margins(triplets)).mean()) for metric in (learned, plain)]
    return sizes[0] / sizes[1] if all(sizes) else 1.0
