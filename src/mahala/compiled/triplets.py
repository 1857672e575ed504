"""What the streams over triplets share: the difference of two sparse rows, the step rule, the late soft threshold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Rows = tuple[Ints, NDArray[np.int32], NDArray[np.float64]]  # CSR: where each row begins, columns in order, values
Layout = tuple[int, bool, bool]  # numbers an entry, whether H is one of them, whether S is
Penalty = tuple[float, bool, float]  # θ, whether the diagonal is exempt, δ (1 without AdaGrad)
StepRule = tuple[float, float, float, float]  # scale, slack, upper, the longest step as a change of M

# No step changes M by more (Frobenius norm): the square of a loss could overflow, and M itself in float32.
LARGEST_CHANGE = 1e25


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def difference(items: Rows, positive: int, negative: int, q_columns: Ints, q_values: NDArray[np.float64]) -> int:
    """The non-zero entries of q = x⁺ - x⁻ in the order of their columns; returns their number."""
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


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def step_length(p: float, norm: float, rule: StepRule) -> float:
    """τ = min(upper, l / (scale · norm + slack)); 0 where nothing is lost, nothing would change, or far too much."""
    scale, slack, upper, largest = rule
    if not p > 0.0 or norm == 0.0:
        return 0.0
    tau = min(upper, p / (scale * norm + slack))
    return tau if tau * math.sqrt(norm) <= largest else 0.0


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def late(m: float, shrinkage: float) -> float:
    """Soft thresholding by all that has come together since m was written."""
    # Without branches, which could not be predicted.
    return m - max(min(m, shrinkage), -shrinkage)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def late_sum(m: float, steps: float, theta: float) -> float:
    """The sum of soft(m, k θ) over k = 1..steps."""
    if theta > 0.0:
        steps = min(steps, np.floor(abs(m) / theta))
    return float(steps * m - np.sign(m) * theta * steps * (steps + 1.0) / 2.0)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def shrink(columns: Ints, values: Floats, first: int, stop: int, variances: Floats, growth: float) -> None:
    """Diagonal covariances after their inverse has grown by growth · v∘v."""
    for i in range(first, stop):
        own = columns[i]
        variances[own] /= 1.0 + growth * values[i] * values[i] * variances[own]
