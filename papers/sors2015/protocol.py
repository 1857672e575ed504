"""The protocol of SORS (2015): data, splits, learners, and their parameters by cross-validation in the training part.

70 % of each class trains, 30 % tests; 100,000 triplets; each test row is a query for the other test rows. Rows are
scaled to unit length; the paper does not state its scaling. LEGO and RDML learn from as many pairs, half of them
similar, ITML from a tenth of that, LMNN from the labelled rows. AROMA has full covariances up to 1,000 features.

Every method has four settings to choose from, in every run: those with the highest MAP over two folds of the training
part, of at most 1,000 rows each, after a tenth of the comparisons. There, λ is ten times as large, so that ηλT, which
an entry of M loses at most, is that of the whole stream.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from mahala.batch.itml import ITML
from mahala.batch.lmnn import LMNN
from mahala.comparisons import Pairs, Triplets
from mahala.data.datasets import load
from mahala.evaluation.cross_validation.splits import parts_of
from mahala.evaluation.ranking import mean_average_precision
from mahala.online.aroma import AROMA
from mahala.online.lego import LEGO
from mahala.online.oasis import OASIS
from mahala.online.rdml import RDML
from mahala.online.sors import SORS, AdaSORS
from mahala.support.arrays import IndexArray
from papers.study import Folder

KINDS: dict[str, Any] = {
    "LMNN": LMNN, "ITML": partial(ITML, max_iter=50), "LEGO": LEGO, "RDML": RDML,
    "OASIS": OASIS, "AROMA": AROMA, "SORS": SORS, "AdaSORS": AdaSORS,
}  # fmt: skip
GRIDS: dict[str, dict[str, list[Any]]] = {
    "LMNN": {"max_iter": [3, 10, 30, 100]},
    "ITML": {"gamma": [0.01, 0.1, 1.0, 10.0]},
    "LEGO": {"eta": [0.02, 0.08, 0.32, 1.28]},
    "RDML": {"eta": [0.001, 0.01, 0.1, 1.0]},
    "OASIS": {"C": [0.01, 0.1, 1.0, 10.0]},
    "AROMA": {"r": [0.01, 0.1, 1.0, 10.0]},
    "SORS": {"eta": [0.1, 1.0], "lam": [1e-6, 1e-5]},
    "AdaSORS": {"eta": [0.1, 0.5], "lam": [1e-6, 1e-5]},
}
SIMILARITIES = ("OASIS", "AROMA", "SORS", "AdaSORS")
FOLDS = 2
SHARE = 10  # a fold is fitted to one in so many of the comparisons
MOST_HELD_OUT = 1_000
MOST_FULL_COVARIANCES = 1_000  # features
MOST_FLOAT64 = 1_000
MOST_DENSE = 10_000


def unit_rows(dataset: str, folder: Folder) -> tuple[sp.csr_array, IndexArray]:
    """Return rows of unit length and their classes; of rcv1_mc the first ten classes, as in the paper."""
    X, y, _ = load(dataset, folder)
    X = sp.csr_array(X.astype(np.float64))
    if dataset == "rcv1_mc":
        X, y = X[y < 10], y[y < 10]
    return normalize(X), y


def split(y: IndexArray, run: int) -> tuple[IndexArray, IndexArray]:
    """Return the row numbers of 70 % of each class, and of the rest."""
    rng = np.random.default_rng(run)
    parts = [
        np.array_split(own, [round(0.7 * len(own))])
        for own in (rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y))
    ]
    train, test = (np.concatenate(side) for side in zip(*parts, strict=True))
    return train, test


def learner_of(method: str, n_features: int, parameters: dict[str, Any], seed: int, in_parts: bool = False) -> Any:
    """Return a learner; one that gets its triplets in parts holds M as one would that knew all of them."""
    family, _, penalty = method.partition("-")
    own: dict[str, Any] = parameters | {"random_state": seed}
    if family not in ("LMNN", "ITML"):
        own["record"] = False
    if family in SIMILARITIES:
        own["shrinkage"] = 0  # as published; the default would mix in the inner product
    if penalty == "II":
        own["penalty"] = "offdiagonal"
    if family == "AROMA":
        own["covariance"] = "full" if n_features <= MOST_FULL_COVARIANCES else "diagonal"
    # OASIS may learn from all triplets through the rows' inner products, in float64.
    through_rows = family == "OASIS" and not in_parts and n_features <= MOST_DENSE
    if family in SIMILARITIES and n_features > MOST_FLOAT64 and not through_rows:
        own["dtype"] = "float32"
    if in_parts:
        own["storage"] = "dense" if n_features <= MOST_DENSE else "sparse"
    return KINDS[family](**own)


def comparisons(method: str, X: sp.csr_array, y: IndexArray, n: int, seed: int) -> tuple[Any, ...]:
    """Return what a learner is fitted to: triplets, pairs (half of them similar), or labelled rows for LMNN."""
    if method == "LMNN":
        return X.toarray(), y
    if method not in ("ITML", "LEGO", "RDML"):
        return (Triplets.from_labels(X, y, n, random_state=seed),)
    if method == "ITML":  # it visits every pair many times
        n //= 10
    sizes = np.unique(y, return_counts=True)[1]
    available = int(sum(size * (size - 1) for size in sizes))  # twice the similar pairs
    pairs = Pairs.from_labels(X, y, min(n, available), balance=0.5, random_state=seed)
    return (pairs[np.arange(n) % len(pairs)],)


def tune(method: str, X: sp.csr_array, y: IndexArray, n: int, seed: int, **fixed: float) -> dict[str, Any]:
    """Return the setting with the highest mean MAP over folds of the training rows; `fixed` parameters stay."""
    grid = {name: values for name, values in GRIDS[method.partition("-")[0]].items() if name not in fixed}
    settings = [dict(zip(grid, values, strict=True)) | fixed for values in product(*grid.values())]
    scores = np.zeros(len(settings))
    rng = np.random.default_rng(seed)
    for fit, held_out in parts_of(y, FOLDS, 1, seed):
        held_out = rng.permutation(held_out)[:MOST_HELD_OUT]
        given = comparisons(method, X[fit], y[fit], n // SHARE, seed)
        for number, setting in enumerate(settings):
            stronger = {"lam": SHARE * setting["lam"]} if "lam" in setting else {}
            metric = learner_of(method, X.shape[1], setting | stronger, seed).fit(*given).metric_
            scores[number] += mean_average_precision(metric, X[held_out], y[held_out])
    return settings[int(scores.argmax())]
