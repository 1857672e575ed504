"""Target distances of similar and dissimilar pairs: given, or estimated from the pairs."""

from typing import Annotated, Literal

import numpy as np

from mahala.comparisons import Pairs
from mahala.support.arrays import FloatArray, row_blocks
from mahala.support.parameters import Where, is_number
from mahala.support.validation import LARGEST_VALUE

Target = float | Literal["auto"]

# Squared distances of the largest values that are learned from are of this size.
LARGEST_TARGET = LARGEST_VALUE**2
_WORDS = f"a positive number of at most {LARGEST_TARGET:g}"
_IS_TARGET = Where(lambda value: is_number(value) and 0.0 < value <= LARGEST_TARGET, _WORDS)
TargetParam = Literal["auto"] | Annotated[float, _IS_TARGET]

# The targets of "auto": these percentiles of the squared distances.
PERCENTILES = (5.0, 95.0)
# If the two are equal, or nearly so, the ratio of the targets.
RATIO = 3.0


def check_targets(low: Target, high: Target) -> None:
    """Raise a ValueError unless the target of similar pairs is below that of dissimilar ones, if both are given."""
    if not isinstance(low, str) and not isinstance(high, str) and not low < high:
        raise ValueError(f"similar_target must be below dissimilar_target, got {low!r} and {high!r}")


def targets_for(distances: FloatArray, similar_target: Target, dissimilar_target: Target) -> tuple[float, float]:
    """Return the targets; "auto" is estimated from the squared distances of the pairs."""
    low, high = (target if isinstance(target, str) else float(target) for target in (similar_target, dissimilar_target))
    distances = distances[distances > 0.0]
    guess = np.percentile(distances, PERCENTILES).tolist() if distances.size else [1.0, 1.0]
    if guess[1] - guess[0] <= 1e-9 * guess[1]:  # moved apart around their common value
        guess = [2.0 / (1.0 + RATIO) * guess[1], 2.0 * RATIO / (1.0 + RATIO) * guess[1]]
    if isinstance(low, str):
        low = guess[0] if isinstance(high, str) or guess[0] < high else high / RATIO
    if isinstance(high, str):
        high = guess[1] if guess[1] > low else RATIO * low
    return low, high


def squared_distances(pairs: Pairs) -> FloatArray:
    """Return the squared Euclidean distance of each pair, computed in blocks."""
    result = np.empty(len(pairs))
    for block in row_blocks(len(pairs), pairs.n_features):
        V = pairs[block].differences()
        result[block] = np.einsum("ij,ij->i", V, V)
    return result
