"""Functions that the streams over triplets share: sparse rows, the step rule, deferred soft thresholding."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.jit import EXACT, SKIPPED, helper, kernel, kernel_with
from mahala.support.arrays import FloatArray, IndexArray, IntArray, RealArray

CSR = tuple[IntArray, NDArray[np.int32], FloatArray]  # indptr, columns (ascending in each row), values
Numbers = tuple[IndexArray, IndexArray, IndexArray]  # of anchors, positives and negatives among the rows of a chunk
Layout = tuple[int, bool, bool]  # numbers per entry, whether H is one of them, whether S is
Penalty = tuple[float, bool, float]  # θ, whether the diagonal is exempt, δ (1 without AdaGrad)
StepRule = tuple[float, float, float, float, float]  # scale, slack, upper, the largest change of M in a step, margin

# The largest change of M (Frobenius norm) in one step. Beyond it the square of a loss could overflow, and M in float32.
LARGEST_CHANGE = 1e25
# The bits of a float64 that a float32 keeps.
KEPT = np.uint64(2**64 - 2**29)


@helper
def full_difference(items: CSR, positive: int, negative: int, q: FloatArray) -> None:
    """Write all entries of q = x⁺ - x⁻."""
    indptr, columns, values = items
    for j in range(len(q)):
        q[j] = 0.0
    for i in range(indptr[positive], indptr[positive + 1]):
        q[columns[i]] = values[i]
    for i in range(indptr[negative], indptr[negative + 1]):
        q[columns[i]] -= values[i]


@kernel
def difference(items: CSR, positive: int, negative: int, q_columns: IntArray, q_values: FloatArray) -> int:
    """Write the non-zero entries of q = x⁺ - x⁻ in the order of their columns; return their number."""
    indptr, columns, values = items
    i, i_stop = indptr[positive], indptr[positive + 1]
    j, j_stop = indptr[negative], indptr[negative + 1]
    n = 0
    while i < i_stop or j < j_stop:
        if j >= j_stop or (i < i_stop and columns[i] < columns[j]):
            column, value = columns[i], values[i]
            i += 1
        elif i >= i_stop or columns[j] < columns[i]:
            column, value = columns[j], -values[j]
            j += 1
        else:
            column, value = columns[i], values[i] - values[j]
            i += 1
            j += 1
        if value != 0.0:
            q_columns[n], q_values[n] = column, value
            n += 1
    return n


@kernel
def step_length(p: float, norm: float, rule: StepRule) -> float:
    """Return τ = min(upper, l / (scale · norm + slack)); 0 without loss or change, SKIPPED for too large a change."""
    scale, slack, upper, largest, _ = rule
    if not p > 0.0 or norm == 0.0:
        return 0.0
    tau = min(upper, p / (scale * norm + slack))
    return tau if tau * math.sqrt(norm) <= largest else SKIPPED


@kernel
def late(m: float, shrinkage: float) -> float:
    """Apply the soft thresholds that have accumulated since m was written."""
    # Without branches, which could not be predicted.
    return m - max(min(m, shrinkage), -shrinkage)


@kernel_with(EXACT)
def late_sum(m: float, steps: float, theta: float) -> float:
    """Return the sum of soft(m, k θ) over k = 1..steps."""
    if theta > 0.0:
        steps = min(steps, np.floor(abs(m) / theta))
    return float(steps * m - np.sign(m) * theta * steps * (steps + 1.0) / 2.0)


@kernel
def add_to_sum(S: RealArray, i: int, rest: RealArray, j: int, term: float) -> None:
    """Add a term to the sum S_i. In float32, where it would soon be too small to count, rest_j has what S_i lacks."""
    if S.itemsize == 8:
        S[i] += term
    else:
        total = np.float64(S[i]) + np.float64(rest[j]) + term
        S[i] = total
        rest[j] = total - np.float64(S[i])


@kernel
def rounding(now: int) -> np.uint64:
    """Return a random number below 2²⁹ that depends on the step `now` alone: the same steps give the same bits."""
    bits = np.uint64(now) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.uint64(bits >> np.uint64(35))


@helper
def put(numbers: RealArray, i: int, value: float, noise: np.uint64) -> None:
    """Write a sum of ever smaller terms. In float32 round it at random, on average to its value.

    The nearest number would lose every term below its precision, however many there are. A float64 has 29 bits more
    than a float32: `noise`, from `rounding`, is added to them before they are cut off.
    """
    if numbers.itemsize == 4:
        value = np.uint64((np.float64(value).view(np.uint64) + noise) & KEPT).view(np.float64)
    numbers[i] = value


@kernel
def shrink(
    columns: NDArray[Any], values: FloatArray, first: int, stop: int, variances: FloatArray, growth: float
) -> None:
    """Update diagonal covariances whose inverse has grown by growth · v∘v."""
    for i in range(first, stop):
        column = columns[i]
        variances[column] /= 1.0 + growth * values[i] * values[i] * variances[column]
