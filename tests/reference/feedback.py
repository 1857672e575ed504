"""What QueryAdapter counts, remembers and fits, in plain NumPy: the oracle of its stream."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


def counts_of(impressions):
    """Return clicks and expected clicks by (query, item); an impression is (x, shown, reactions, id)."""
    clicks_at, shown_at, sums = np.zeros(50), np.zeros(50), {}
    for _, shown, reactions, key in impressions:
        clicks = np.maximum(reactions, 0.0) / (np.abs(reactions).max() or 1.0)
        missed = np.maximum(-reactions, 0.0) / (np.abs(reactions).max() or 1.0)
        mean = (clicks_at.sum() + 1.0) / (shown_at.sum() + 10.0)
        for rank, item in enumerate(shown):
            rate = (clicks_at[rank] + 5.0 * mean) / (shown_at[rank] + 5.0)
            entry = sums.setdefault((key, item.tobytes()), np.zeros(2))
            entry += clicks[rank], rate + missed[rank]
        clicks_at[: len(shown)] += clicks
        shown_at[: len(shown)] += 1.0
    return sums


def shares_of(sums):
    """Return the share of queries whose clicks depend on the items, and the probability for each query."""
    odds = {}
    for (key, _), (clicks, expected) in sums.items():
        ratio = expected + math.lgamma(clicks + 1.0) - (clicks + 1.0) * math.log(1.0 + expected)
        odds[key] = odds.get(key, 0.0) + ratio

    def chances(share):
        return {key: 1.0 / (1.0 + (1.0 - share) / share * math.exp(-min(ratio, 500.0))) for key, ratio in odds.items()}

    share = 0.8
    for _ in range(10):
        share = (80.0 + sum(chances(share).values())) / (100.0 + len(odds))
    return share, chances(share)


def bonuses_of(sums, scale):
    """Return what is added to the score of each item that was shown for a query."""
    chances = shares_of(sums)[1]
    return {
        (key, item): scale * chances[key] * min(max(math.log((1.0 + clicks) / (1.0 + expected)), -1.0), 2.0)
        for (key, item), (clicks, expected) in sums.items()
    }


def click_map(queries, items, clicks, expected, base, slope, penalty):
    """Return the D that makes clicks most likely: rows of queries and items, one of each for each count."""
    d = queries.shape[1]
    pairs = np.einsum("ni,nj->nij", queries, items).reshape(len(queries), d * d)

    def objective(change):
        ratio = base + slope * pairs @ change
        value = clicks @ np.logaddexp(0.0, -ratio) + expected @ np.logaddexp(0.0, ratio)
        slopes = (clicks + expected) * expit(ratio) - clicks
        return value + penalty / 2.0 * change @ change, slope * pairs.T @ slopes + penalty * change

    return minimize(objective, np.zeros(d * d), jac=True, method="BFGS", options={"gtol": 1e-7}).x.reshape(d, d)
