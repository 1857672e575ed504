"""Pairs of results on one page, of which people reacted more to one than to the other."""

from __future__ import annotations

from typing import Literal

import numpy as np

from mahala.support.arrays import FloatArray, IndexArray


def page_pairs(
    reactions: FloatArray, bias: Literal["skip-above"] | float | None
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Return the numbers of the better and the worse result of each pair, and its weight from 0 to 1.

    Parameters
    ----------
    reactions : a number per result, from the top of the page; larger ones are better
    bias : the correction for positions of :class:`mahala.QueryAdapter`
    """
    values = reactions / (np.abs(reactions).max() or 1.0)  # whose differences do not overflow
    gaps = values[:, np.newaxis] - values
    above = gaps > 0.0
    if bias == "skip-above":
        above = np.tril(above)
    better, worse = np.nonzero(above)
    weights = gaps[better, worse] / (values.max() - values.min() or 1.0)
    if bias is not None and not isinstance(bias, str):
        weights = weights * ((better + 1.0) / len(values)) ** float(bias)
    some = weights > 0.0
    return better[some], worse[some], weights[some]
