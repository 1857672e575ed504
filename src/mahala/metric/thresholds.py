"""The threshold on squared distances that is best for labelled pairs."""

from typing import Literal

import numpy as np

from mahala.support.arrays import BoolArray, FloatArray
from mahala.support.parameters import Positive, Share, check_value

Strategy = Literal["accuracy", "f_beta", "max_tpr", "max_tnr"]


def best_threshold(squared: FloatArray, similar: BoolArray, strategy: Strategy, beta: float, rate: float) -> float:
    """Return the threshold halfway between two neighbouring squared distances, the smallest one among the best.

    `squared` are the squared distances of pairs, `similar` says which of them are to be at most at the threshold;
    the other arguments are those of `MahalanobisMetric.calibrate_threshold`.
    """
    check_value(strategy, "strategy", Strategy)
    check_value(beta, "beta", Positive)
    check_value(rate, "min_rate", Share)
    if not similar.any() or similar.all():
        kind = "dissimilar" if similar.any() else "similar"
        raise ValueError(f"pairs must hold similar and dissimilar ones to find a threshold, but none is {kind}")
    order = np.argsort(squared, kind="stable")
    values, n_similar, n_dissimilar = squared[order], int(similar.sum()), int((~similar).sum())
    # After how many of the sorted pairs a threshold may come: before all of them, or where the next one is farther.
    cuts = np.concatenate([[0], np.flatnonzero(values[1:] > values[:-1]) + 1, [len(values)]])
    hits = np.concatenate([[0], np.cumsum(similar[order])])[cuts]
    tpr, tnr = hits / n_similar, 1.0 - (cuts - hits) / n_dissimilar
    if strategy == "accuracy":
        quality = hits + n_dissimilar - (cuts - hits)
    elif strategy == "f_beta":
        quality = (1.0 + beta**2) * hits / (beta**2 * n_similar + cuts)
    elif strategy == "max_tpr":
        quality = np.where(tnr >= rate, tpr, -1.0)
    else:
        quality = np.where(tpr >= rate, tnr, -1.0)
    cut = int(cuts[int(np.argmax(quality))])
    below = values[cut - 1] if cut else values[0] - 1.0
    above = values[cut] if cut < len(values) else values[-1] + 1.0
    return float(below + (above - below) / 2.0)
