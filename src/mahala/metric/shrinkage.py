"""Mix a learned matrix with the plain one, where triplets cannot determine what is learned."""

import warnings
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from mahala.comparisons import Triplets
from mahala.metric.base import Metric
from mahala.support.arrays import IndexArray
from mahala.support.parameters import Share

# The value of "auto" where triplets cannot determine M.
UNDETERMINED = 0.5
# Of the user's call of `fit`, for a warning.
STACK_LEVEL = 7

Shrinkage = Literal["auto"] | Share


class Weights(NamedTuple):
    """The weights of the learned and of the plain matrix in the metric."""

    learned: float = 1.0
    plain: float = 0.0


def mixing_weights(
    name: str, shrinkage: float | str, triplets: Triplets, learned: Callable[[], Metric], plain: Metric
) -> Weights:
    """Return the weights 1 - shrinkage of the learned and c · shrinkage of the plain matrix.

    c is the ratio of their mean absolute margins on the triplets, so that both count alike at a shrinkage of 1/2. With
    "auto", the shrinkage is 0 for triplets that determine M; else it is 1/2, and a warning says so.
    """
    if isinstance(shrinkage, str):
        items = item_numbers(triplets)
        shrinkage = 0.0 if is_determined(triplets, items) else UNDETERMINED
        if shrinkage:
            size = f"{len(triplets):,} triplets over {int(items.max()) + 1:,} items"
            warnings.warn(
                f"{name}: {size} cannot determine a {triplets.n_features} × {triplets.n_item_features} matrix. "
                f"metric_ is a mixture of the learned and the plain one; shrinkage=0 turns this off. "
                "mahala.compare(triplets) shows whether learning helps.",
                stacklevel=STACK_LEVEL,
            )
    if not shrinkage:
        return Weights()
    sizes = [float(np.abs(metric.margins(triplets)).mean()) for metric in (learned(), plain)]
    return Weights(1.0 - float(shrinkage), float(shrinkage) * (sizes[0] / sizes[1] if all(sizes) else 1.0))


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
