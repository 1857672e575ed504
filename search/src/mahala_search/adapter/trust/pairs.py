"""Pairs of results on a page of which one had a larger reaction, and how many of them scores have in order."""

import numpy as np

from mahala_search.arrays import FloatArray, PagePairs


def page_pairs(reactions: FloatArray) -> PagePairs:
    """Return the numbers of the better and the worse result of each pair on a page, and its weight from 0 to 1.

    >>> page_pairs(np.array([0.0, 2.0, 1.0]))
    (array([1, 1, 2]), array([0, 2, 0]), array([1. , 0.5, 0.5]))
    """
    shares = reactions / (np.abs(reactions).max() or 1.0)  # so that no difference overflows
    differences = shares[:, np.newaxis] - shares
    better, worse = np.nonzero(differences > 0.0)
    weights: FloatArray = differences[better, worse] / (differences.max() or 1.0)
    return better, worse, weights


def page_losses(scores: FloatArray, pairs: PagePairs) -> FloatArray:
    """Return for each column of scores the share of pairs in the wrong order; equal scores count half."""
    better, worse, weights = pairs
    ahead = scores[better] - scores[worse]
    return np.asarray(weights @ ((ahead < 0.0) + 0.5 * (ahead == 0.0)) / weights.sum())
