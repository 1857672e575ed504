"""The protocol of the passive-aggressive paper (2013): its data, halves, learners and the choice of C.

A random half of the rows trains, the other tests. The learners cycle through r = 40 c (c-1) distinct pairs for
t = min(⌊n(n-2)/40⌋, 50 r) steps. C is chosen from 1e-4..1e2 by one pass and k-NN accuracy on the training half. As the
published Euclidean errors suggest, features are scaled to [0, 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mahala.data.datasets import load
from mahala.online.passive_aggressive import PA
from mahala.support.arrays import FloatArray, IndexArray
from papers.study import Folder

DATASETS = (
    "soyS", "wine", "glass", "ecoli", "malaysia", "ionosphere", "balance", "breast", "chromo", "mor", "spam",
    "satellite", "soyL", "nist16",
)  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    f"PA{variant}{sign}": {"variant": variant, "psd": psd}
    for variant in ("I", "II", "LS")
    for sign, psd in (("+", "every"), ("-", "end"))
}


def scaled(dataset: str, folder: Folder) -> tuple[FloatArray, IndexArray]:
    """Return the rows, with features in [0, 1], and their classes."""
    X, y, _ = load(dataset, folder)
    X = X.astype(np.float64)
    width = np.ptp(X, axis=0)
    return (X - X.min(axis=0)) / np.where(width > 0.0, width, 1.0), y


def halves(dataset: str, run: int, folder: Folder) -> tuple[FloatArray, IndexArray, FloatArray, IndexArray]:
    """Return the rows and classes of the half that trains, and those of the half that tests."""
    X, y = scaled(dataset, folder)
    order = np.random.default_rng(run).permutation(len(X))
    train, test = order[: len(X) // 2], order[len(X) // 2 :]
    return X[train], y[train], X[test], y[test]


def tuned_pa(method: str, X: FloatArray, y: IndexArray, run: int) -> PA:
    """Return a learner with the C that one pass chooses."""
    C = PA(**SETTINGS[method], C="auto", random_state=run).fit(X, y).C_
    return PA(**SETTINGS[method], C=C, record=True, random_state=run)
