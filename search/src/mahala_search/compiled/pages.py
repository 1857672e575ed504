"""Pages of results: the pairs that reactions make, the losses of scores, and counts of clicks by item."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mahala.extend import kernel
from mahala_search.arrays import FloatArray, IndexArray

Keys = NDArray[np.uint64]  # of items
Counts = NDArray[np.float32]  # clicks and expected clicks


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
def mix_scores(columns: FloatArray, experts: FloatArray, trust: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scores of experts that are mixtures of columns of scores, and their weighted mean."""
    scores, served = np.empty((len(columns), len(experts))), np.zeros(len(columns))
    for i in range(len(columns)):
        for e in range(len(experts)):
            score = 0.0
            for k in range(columns.shape[1]):
                score += columns[i, k] * experts[e, k]
            scores[i, e] = score
            served[i] += score * trust[e]
    return scores, served


@kernel
def add_losses(sums: FloatArray, losses: FloatArray, penalty: float, discount: float, weight: float) -> None:
    """Add the losses of experts to discounted sums; all but the first lose `penalty` more, and 1 at most."""
    for e in range(len(sums)):
        loss = min(losses[e] + penalty, 1.0) if e else losses[e]
        sums[e] = discount * sums[e] + weight * loss


@kernel
def judge_page(
    scores: FloatArray,
    remembered: FloatArray,
    better: IndexArray,
    worse: IndexArray,
    weights: FloatArray,
    corrected: FloatArray,
    experts: FloatArray,
    logs: FloatArray,
    rate: float,
    losses: FloatArray,
    penalty: float,
    click_weight: float,
    tried_weight: float,
    discount: float,
    weight: float,
) -> tuple[float, float, float, float]:
    """Add the losses of experts on a page to their sums; return those of the raw scores, the mean model and the served.

    `corrected` are the weights of pairs by which experts are judged. What is served adds `click_weight` times what is
    `remembered`, if anything is. The last number returned is how much less is lost with `tried_weight` times it than
    without it, by the corrected weights.
    """
    mixtures, served = mix_scores(scores, experts, exponential_weights(logs, rate, losses))
    add_losses(losses, page_losses(mixtures, better, worse, corrected), penalty, discount, weight)
    ranked, gain = np.empty((len(scores), 3)), 0.0
    for i in range(len(scores)):
        ranked[i, 0], ranked[i, 1], ranked[i, 2] = scores[i, 0], scores[i, 1], served[i]
    if len(remembered):
        tried = np.empty((len(scores), 2))
        for i in range(len(scores)):
            tried[i, 0], tried[i, 1] = served[i], served[i] + tried_weight * remembered[i]
            ranked[i, 2] += click_weight * remembered[i]
        lost = page_losses(tried, better, worse, corrected)
        gain = lost[0] - lost[1]
    lost = page_losses(ranked, better, worse, weights)
    return lost[0], lost[1], lost[2], gain


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
def corrected_weights(
    rank_clicks: FloatArray, rank_shown: FloatArray, n: int, prior: float, better: IndexArray, weights: FloatArray
) -> tuple[FloatArray, float]:
    """Return weights of pairs on a page of n results, corrected for the rank of the better one, and their mean change.

    A click counts in inverse proportion to the rate of its rank, and those below the median rate count 1.
    """
    rates, low, high = rank_rates(rank_clicks, rank_shown, n, prior), 0.0, 0.0
    for i in range(n):
        n_below = 0
        for j in range(n):
            n_below += rates[j] < rates[i] or (rates[j] == rates[i] and j < i)
        low = rates[i] if n_below == (n - 1) // 2 else low
        high = rates[i] if n_below == n // 2 else high
    median = 0.5 * (low + high)
    corrected, before, after = np.empty(len(weights)), 0.0, 0.0
    for t in range(len(weights)):
        corrected[t] = weights[t] * min(1.0, median / rates[better[t]])
        before += weights[t]
        after += corrected[t]
    return corrected, after / before


@kernel
def count_clicks(
    values: FloatArray, ranked: bool, weight: float, rank_clicks: FloatArray, rank_shown: FloatArray, prior: float
) -> tuple[FloatArray, FloatArray]:
    """Return the clicks on a page, numbers from 0 to 1, and those expected at its ranks; count clicks by rank.

    Where results were not ranked, all have the mean of the clicks, and nothing is counted.
    """
    largest = 0.0
    for i in range(len(values)):
        largest = max(largest, abs(values[i]))
    clicks, total = np.zeros(len(values)), 0.0
    for i in range(len(values)):
        if values[i] > 0.0:
            clicks[i] = values[i] / largest
            total += clicks[i]
    rates = rank_rates(rank_clicks, rank_shown, len(values), prior)
    if not ranked:
        for i in range(len(values)):
            rates[i] = total / len(values)
        return clicks, rates
    for i in range(min(len(values), len(rank_clicks))):
        rank_clicks[i] += weight * clicks[i]
        rank_shown[i] += weight
    return clicks, rates


@kernel
def net_clicks(keys: Keys, counts: Counts, n: int, items: Keys, scale: float, part: float, lowest: float) -> FloatArray:
    """Return, times a scale, the clicks on items minus a part of those expected; 0 for those not among n keys."""
    result = np.zeros(len(items))
    for i in range(len(items)):
        for k in range(n):
            if keys[k] == items[i]:
                result[i] = scale * max(counts[k, 0] - part * counts[k, 1], lowest)
    return result


@kernel
def add_counts(
    keys: Keys, counts: Counts, n: int, items: Keys, clicks: FloatArray, expected: FloatArray, weight: float
) -> tuple[int, float]:
    """Add the two counts of items to those of the first n `keys`, which ascend.

    If there is no room for all, those with the fewest clicks are left out, or then with the fewest that were expected.
    Return how many there are then; and the sum over the items of the clicks beyond those expected, times the same
    difference in the counts before.
    """
    agreement = 0.0
    most, size = len(keys), n + len(items)
    all_keys, clicked, expectation = np.empty(size, dtype=np.uint64), np.empty(size), np.empty(size)
    for k in range(n):
        all_keys[k], clicked[k], expectation[k] = keys[k], counts[k, 0], counts[k, 1]
    for t in range(len(items)):
        at = 0
        while at < n and all_keys[at] < items[t]:
            at += 1
        if at == n or all_keys[at] != items[t]:
            for k in range(n, at, -1):
                all_keys[k], clicked[k], expectation[k] = all_keys[k - 1], clicked[k - 1], expectation[k - 1]
            all_keys[at], clicked[at], expectation[at] = items[t], 0.0, 0.0
            n += 1
        agreement += (clicked[at] - expectation[at]) * (clicks[t] - expected[t])
        clicked[at] += weight * clicks[t]
        expectation[at] += weight * expected[t]
    while n > most:
        worst = 0
        for k in range(1, n):
            fewer = clicked[k] < clicked[worst]
            if fewer or (clicked[k] == clicked[worst] and expectation[k] <= expectation[worst]):
                worst = k
        n -= 1
        for k in range(worst, n):
            all_keys[k], clicked[k], expectation[k] = all_keys[k + 1], clicked[k + 1], expectation[k + 1]
    for k in range(n):
        keys[k], counts[k, 0], counts[k, 1] = all_keys[k], clicked[k], expectation[k]
    return n, agreement
