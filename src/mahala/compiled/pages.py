"""Pages of results: the pairs that reactions make, the losses of scores, and counts of clicks by item."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.jit import kernel
from mahala.support.arrays import FloatArray, IndexArray


@kernel
def page_pairs(values: FloatArray, skip_above: bool, eta: float) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Return the numbers of the better and the worse result of each pair, and its weight; see `feedback.trust`."""
    n = len(values)
    largest = lowest = highest = 0.0
    n_pairs = 0
    for i in range(n):
        largest = max(largest, abs(values[i]))
        for j in range(n):
            n_pairs += values[i] > values[j]
    better, worse, weights = np.empty(n_pairs, dtype=np.intp), np.empty(n_pairs, dtype=np.intp), np.empty(n_pairs)
    if n_pairs:
        lowest, highest = values.min() / largest, values.max() / largest  # whose difference does not overflow
    n_pairs = 0
    for i in range(n):
        for j in range(i if skip_above else n):
            if values[i] > values[j]:
                weight = (values[i] / largest - values[j] / largest) / (highest - lowest)
                weight *= ((i + 1.0) / n) ** eta
                if weight > 0.0:
                    better[n_pairs], worse[n_pairs], weights[n_pairs] = i, j, weight
                    n_pairs += 1
    return better[:n_pairs], worse[:n_pairs], weights[:n_pairs]


@kernel
def page_losses(scores: FloatArray, better: IndexArray, worse: IndexArray, weights: FloatArray) -> FloatArray:
    """Return the share of weighted pairs that each column of scores has in the wrong order; ties count half."""
    losses = np.zeros(scores.shape[1])
    for t in range(len(better)):
        for e in range(len(losses)):
            first, second = scores[better[t], e], scores[worse[t], e]
            losses[e] += weights[t] * (1.0 if first < second else 0.5 if first == second else 0.0)
    losses /= weights.sum()
    return losses


@kernel
def exponential_weights(logs: FloatArray, rate: float, losses: FloatArray) -> FloatArray:
    """Return weights in proportion to exp(log - rate · loss) whose sum is 1."""
    powers = logs - rate * losses
    weights: FloatArray = np.exp(powers - powers.max())
    weights /= weights.sum()
    return weights


@kernel
def rank_rates(clicks: FloatArray, shown: FloatArray, n: int, prior: float) -> FloatArray:
    """Return the share of clicks at each of n ranks, of which the last ones have that of the last rank counted.

    To each rank, `prior` results with the mean rate are added; that starts as 1 click on 10 results.
    """
    mean = (clicks.sum() + 1.0) / (shown.sum() + 10.0)
    rates = np.empty(n)
    for i in range(n):
        rank = min(i, len(clicks) - 1)
        rates[i] = (clicks[rank] + prior * mean) / (shown[rank] + prior)
    return rates


@kernel
def add_counts(
    keys: NDArray[np.uint64],
    counts: NDArray[np.float32],
    n: int,
    items: NDArray[np.uint64],
    clicks: FloatArray,
    expected: FloatArray,
    weight: float,
) -> int:
    """Add the two counts of items to those of the first n `keys`, which ascend; return how many there are then.

    If there is no room for all, those with the fewest clicks are left out, or then with the fewest that were expected.
    """
    all_keys, sums = np.empty(n + len(items), dtype=np.uint64), np.zeros((n + len(items), 2))
    for k in range(n):
        all_keys[k], sums[k, 0], sums[k, 1] = keys[k], counts[k, 0], counts[k, 1]
    for t in range(len(items)):
        at = 0
        while at < n and all_keys[at] < items[t]:
            at += 1
        if at == n or all_keys[at] != items[t]:
            for k in range(n, at, -1):
                all_keys[k], sums[k, 0], sums[k, 1] = all_keys[k - 1], sums[k - 1, 0], sums[k - 1, 1]
            all_keys[at], sums[at, 0], sums[at, 1] = items[t], 0.0, 0.0
            n += 1
        sums[at, 0] += weight * clicks[t]
        sums[at, 1] += weight * expected[t]
    while n > len(keys):
        worst = 0
        for k in range(1, n):
            fewer = sums[k, 0] < sums[worst, 0]
            if fewer or (sums[k, 0] == sums[worst, 0] and sums[k, 1] <= sums[worst, 1]):
                worst = k
        n -= 1
        for k in range(worst, n):
            all_keys[k], sums[k, 0], sums[k, 1] = all_keys[k + 1], sums[k + 1, 0], sums[k + 1, 1]
    for k in range(n):
        keys[k], counts[k, 0], counts[k, 1] = all_keys[k], sums[k, 0], sums[k, 1]
    return n
