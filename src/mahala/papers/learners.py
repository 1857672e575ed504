"""All learners of the library on the tables of the papers of 2009 and 2013, with one protocol: which one to take?

The 24 different tables of the two papers. Of larger ones 2,000 random rows are taken; 70 % of each class train,
the others test. Features are scaled to [0, 1] by the training rows; tables of more than 100 features are first reduced
to 60 principal components, which keep their proportions. Errors are those of 3-NN, by distance or by similarity.
Learners have their defaults, as a user gets them, and a fit stops after 20 seconds with what it has.

Similarities are learned from rows that are centred by the training mean and have length one, as inner products of
others depend on lengths; "Cosine" is their identity. PCA keeps distances unless it whitens, and so it does here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from sklearn.decomposition import PCA as Components

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.gml import GML
from mahala.batch.itml import ITML
from mahala.batch.lda import LDA
from mahala.batch.lmnn import LMNN
from mahala.batch.mdm import MDM
from mahala.batch.mmc import MMC
from mahala.batch.nca import NCA
from mahala.batch.pca import PCA
from mahala.batch.psd_boost import PSDBoost
from mahala.batch.rca import RCA
from mahala.batch.relief import Relief
from mahala.batch.simba import Simba
from mahala.compiled.neighbors import vote
from mahala.data.datasets import data_folder, load
from mahala.evaluation.knn import knn_error
from mahala.learner import Learner
from mahala.metric import BilinearMetric
from mahala.online.aroma import AROMA
from mahala.online.lego import LEGO
from mahala.online.oasis import OASIS
from mahala.online.ogd import OGD
from mahala.online.passive_aggressive import PA
from mahala.online.pola import POLA
from mahala.online.rdml import RDML
from mahala.online.sors import SORS, AdaSORS
from mahala.papers.pa2013_protocol import DATASETS as TABLES_OF_2013
from mahala.papers.pa2013_protocol import SETTINGS
from mahala.papers.study import SECONDS, Folder, Numbers, Quantity, Study, timed_fit
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.deadline import time_limit

if TYPE_CHECKING:
    pass

TABLES_OF_2009 = ("usps", "orl", "mnist", "coil20", "letter", "iris", "vehicle", "pima", "twinpeaks", "helix")
DATASETS = (*TABLES_OF_2013, *TABLES_OF_2009)  # wine, balance and breast are in both
MOST_ROWS = 2_000
MOST_FEATURES = 100
N_COMPONENTS = 60
NEIGHBORS = 3
MOST_SECONDS = 20.0
SIMILARITIES: dict[str, Callable[..., Learner]] = {
    "OASIS": OASIS, "OGD": OGD, "SORS": SORS, "AdaSORS": AdaSORS, "AROMA": AROMA,
}  # fmt: skip
SEEDED: dict[str, Callable[..., Learner]] = {
    **{name: partial(PA, **settings) for name, settings in SETTINGS.items()},
    "PAI+ auto": partial(PA, C="auto"),
    "POLA": POLA, "LEGO": LEGO, "RDML": RDML, **SIMILARITIES,
    "NCA": NCA, "LMNN": LMNN, "GML": GML, "GML weights": partial(GML, diagonal=True), "MMC": MMC, "ITML": ITML,
    "BoostMetric": BoostMetric, "PCA whitened": partial(PCA, whiten=True), "Relief": Relief, "Simba": Simba,
}  # fmt: skip
UNSEEDED: dict[str, Callable[..., Learner]] = {"PSDBoost": PSDBoost, "RCA": RCA, "LDA": LDA, "MDM": MDM}
METHODS = ("Euclidean", "Cosine", *SEEDED, *UNSEEDED)


def _learner(method: str, run: int) -> Learner | None:
    if method in SEEDED:
        return SEEDED[method](random_state=run)
    return UNSEEDED[method]() if method in UNSEEDED else None


@lru_cache(maxsize=1)  # the cells of all methods come one after another
def split(dataset: str, run: int, folder: Path | None) -> tuple[FloatArray, IndexArray, FloatArray, IndexArray]:
    """Return scaled training rows and their classes, then test rows and theirs."""
    X, y, _ = load(dataset, folder)
    order = np.random.default_rng(run).permutation(len(X))[:MOST_ROWS]
    classes = [order[y[order] == code] for code in np.unique(y[order])]
    parts = [np.split(rows, [round(0.7 * len(rows))]) for rows in classes]
    train, test = (np.concatenate(side) for side in zip(*parts, strict=True))
    X_train, X_test = X[train].astype(np.float64), X[test].astype(np.float64)
    if X.shape[1] > MOST_FEATURES:
        pca = Components(N_COMPONENTS, svd_solver="randomized", random_state=0).fit(X_train)
        X_train, X_test = pca.transform(X_train), pca.transform(X_test)
        low, width = X_train.min(axis=0), np.full(N_COMPONENTS, np.ptp(X_train, axis=0).max())
    else:
        low, width = X_train.min(axis=0), np.ptp(X_train, axis=0)
    width = np.where(width > 0.0, width, 1.0)
    return (X_train - low) / width, y[train], (X_test - low) / width, y[test]


def similarity_error(
    metric: BilinearMetric, X: FloatArray, y: IndexArray, X_test: FloatArray, y_test: IndexArray
) -> float:
    """Return the share of test rows whose class is not that of most of the `NEIGHBORS` most similar training rows."""
    most_similar = np.argsort(-metric.pairwise(X_test, X), axis=1, kind="stable")[:, :NEIGHBORS]
    found = vote(y[most_similar], int(max(y.max(), y_test.max())) + 1)[:, -1]
    return float(np.mean(found != y_test))


def _measure(dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    X, y, X_test, y_test = split(dataset, run, data_folder(folder))
    similar = method == "Cosine" or method in SIMILARITIES
    if similar:
        centre = X.mean(axis=0)
        X, X_test = _of_length_one(X - centre), _of_length_one(X_test - centre)
    with time_limit(MOST_SECONDS) as limit:
        metric, seconds = timed_fit(_learner(method, run), X, y)
    if similar:
        error = similarity_error(metric or BilinearMetric(np.eye(X.shape[1])), X, y, X_test, y_test)
    else:
        error = knn_error(metric, X, y, X_test, y_test, n_neighbors=NEIGHBORS).at(NEIGHBORS)
    numbers = {"error": round(100.0 * error, 2), "seconds": float(f"{seconds:.3g}")}
    return numbers | ({"stopped": 1.0} if limit.stopped else {})


def _of_length_one(X: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    result: FloatArray = X / np.where(lengths > 0.0, lengths, 1.0)
    return result


ERROR = Quantity("error", "Error of 3-NN in per cent", form=".1f", better="lower")
TABLE1 = Study(
    paper="learners",
    name="table1",
    title="All learners on the tables of 2009 and 2013",
    quantities=(ERROR, SECONDS),
    datasets=DATASETS,
    methods=METHODS,
    runs=3,
    measure=_measure,
)
STUDIES = (replace(TABLE1, quick=replace(TABLE1, datasets=("wine", "balance", "iris"), runs=1)),)
