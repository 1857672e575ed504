"""All learners of the library on the tables of the papers of 2009 and 2013, with one protocol: which one to take?

The 24 different tables of the two papers. Of larger ones 2,000 random rows are taken; 70 % of each class train,
the others test. Features are scaled to [0, 1] by the training rows; tables of more than 100 features are first reduced
to 60 principal components, which keep their proportions. Errors are those of 3-NN, by distance or by similarity.
Learners have their defaults, as a user gets them, and a fit stops after 5 CPU seconds with what it has.

Similarities are learned from rows that are centred by the training mean and have length one, as inner products of
others depend on lengths; "Cosine" is their identity. PCA keeps distances unless it whitens, and so it does here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.decomposition import PCA as Components

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.dmlmj import DMLMJ
from mahala.batch.gml import GML
from mahala.batch.gmml import GMML
from mahala.batch.itml import ITML
from mahala.batch.kissme import KISSME
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
from mahala.batch.xqda import XQDA
from mahala.data.datasets import data_folder, load
from mahala.engine.neighbors import one_hot
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
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.limits import time_limit
from papers.pa2013.protocol import DATASETS as TABLES_OF_2013
from papers.pa2013.protocol import SETTINGS
from papers.ranks import FriedmanResult, friedman_holm
from papers.results import summarise, wrapped
from papers.study import SECONDS, Cell, Folder, Numbers, Quantity, Study, load_kernels, timed_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from papers.prose import Facts

TABLES_OF_2009 = ("usps", "orl", "mnist", "coil20", "letter", "iris", "vehicle", "pima", "twinpeaks", "helix")
DATASETS = (*TABLES_OF_2013, *TABLES_OF_2009)  # wine, balance and breast are in both
SMALL = (
    "soyS", "wine", "glass", "ecoli", "malaysia", "ionosphere", "balance", "breast", "soyL", "orl", "iris", "vehicle",
    "pima",
)  # fmt: skip
NARROW = (
    "glass", "ecoli", "malaysia", "balance", "breast", "chromo", "mor", "iris", "pima", "twinpeaks", "helix",
)  # fmt: skip
GROUPS = {
    "up to 1,000 rows": SMALL,
    "more rows": tuple(table for table in DATASETS if table not in SMALL),
    "up to 10 features": NARROW,
    "more features": tuple(table for table in DATASETS if table not in NARROW),
}
REFERENCE = "Euclidean"
MOST_ROWS = 2_000
MOST_FEATURES = 100
N_COMPONENTS = 60
NEIGHBORS = 3
MOST_SECONDS = 5.0
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
UNSEEDED: dict[str, Callable[..., Learner]] = {
    "PSDBoost": PSDBoost, "RCA": RCA, "LDA": LDA, "MDM": MDM,
    "GMML": GMML, "DMLMJ": DMLMJ, "KISSME": KISSME, "XQDA": XQDA,
}  # fmt: skip
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
    votes = one_hot(y, int(y.max()) + 1)[most_similar].sum(axis=1)
    return float(np.mean(votes.argmax(axis=1) != y_test))


def _measure(dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    X, y, X_test, y_test = split(dataset, run, data_folder(folder))
    similar = method == "Cosine" or method in SIMILARITIES
    if similar:
        centre = X.mean(axis=0)
        X, X_test = _of_length_one(X - centre), _of_length_one(X_test - centre)
    learner = _learner(method, run)
    if learner is not None:
        load_kernels(learner, X, y)
    with time_limit(MOST_SECONDS, time.process_time) as limit:
        metric, seconds = timed_fit(learner, X, y)
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


ERROR = Quantity("error", "Error of 3-NN in per cent", form=".1f")


class Comparison(NamedTuple):
    """The tables on which all learners were measured, the learners' errors there, a row per table, and their ranks."""

    tables: list[str]
    errors: FloatArray
    ranks: FriedmanResult

    def mean_ranks(self, tables: Sequence[str]) -> FloatArray:
        """Return the mean rank of each learner on some of the tables."""
        chosen = np.isin(self.tables, tables)
        result: FloatArray = rankdata(self.errors[chosen], axis=1).mean(axis=0)
        return result


def compare(cells: Sequence[Cell]) -> Comparison:
    """Compare the learners over the tables."""
    means = {(line.dataset, line.method): line.mean for line in summarise(TABLE1, ERROR, cells)}
    methods = [method for method in METHODS if any(own == method for _, own in means)]
    tables = [table for table in DATASETS if all((table, method) in means for method in methods)]
    errors = np.array([[means[table, method] for method in methods] for table in tables])
    return Comparison(tables, errors, friedman_holm(errors, methods))


def _median_seconds(cells: Sequence[Cell], methods: Sequence[str]) -> FloatArray:
    return np.array([np.median([cell.numbers["seconds"] for cell in cells if cell.method == own]) for own in methods])


def placings(cells: Sequence[Cell]) -> str:
    """Return a table of the learners, the best first: ranks, comparisons with Euclidean and with the best, seconds."""
    found = compare(cells)
    ranks, errors = found.ranks, found.errors
    groups = {name: own for name, own in GROUPS.items() if set(own) & set(found.tables)}
    order = np.argsort(ranks.ranks, kind="stable")
    baseline = errors[:, ranks.methods.index(REFERENCE)]
    columns = {
        "mean rank": [f"{rank:.1f}" for rank in ranks.ranks],
        **{name: [f"{rank:.1f}" for rank in found.mean_ranks(own)] for name, own in groups.items()},
        "mean error in %": [f"{error:.1f}" for error in errors.mean(axis=0)],
        "lower error, higher error than Euclidean": [
            f"{np.sum(own < baseline)}, {np.sum(own > baseline)}" for own in errors.T
        ],
        "p against Euclidean": [f"{p:.2g}" for p in ranks.against(REFERENCE)],
        "p against the best": [f"{p:.2g}" for p in ranks.against(ranks.methods[order[0]])],
        "median seconds of a fit": [f"{seconds:.2g}" for seconds in _median_seconds(cells, ranks.methods)],
    }
    return "\n".join(
        [
            wrapped(
                f"Friedman's test over {len(found.tables)} tables: p = {ranks.p_value:.2g}. Rank 1 has the lowest "
                "error; p-values are adjusted by Holm's method for all comparisons with the same learner."
            ),
            "",
            f"| learner | {' | '.join(columns)} |",
            "|---" * (1 + len(columns)) + "|",
            *(f"| {' | '.join([ranks.methods[i], *(column[i] for column in columns.values())])} |" for i in order),
        ]
    )


def _draw(cells: Sequence[Cell], folder: Folder) -> Figure:
    from papers.plots import ranks_and_seconds

    ranks = compare(cells).ranks
    return ranks_and_seconds(ranks, _median_seconds(cells, ranks.methods), REFERENCE)


TABLE1 = Study(
    paper="learners",
    name="table1",
    title="All learners on the tables of 2009 and 2013",
    quantities=(ERROR, SECONDS),
    datasets=DATASETS,
    methods=METHODS,
    runs=2,
    measure=_measure,
    draw=_draw,
    summary=placings,
)
STUDIES = (replace(TABLE1, quick=replace(TABLE1, datasets=("wine", "balance", "iris"), runs=1)),)


class Placings:
    """What the page says of the learners, for format strings."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.found, self.cells = compare(cells), cells
        ranks = self.found.ranks
        order = [ranks.methods[i] for i in np.argsort(ranks.ranks, kind="stable")]
        self.first, self.second = order[:2]
        self.n_methods, self.n_others = len(order), len(order) - 1
        self.n_tables, self.difference = len(self.found.tables), ranks.critical_difference
        p_values = dict(zip(ranks.methods, ranks.against(REFERENCE), strict=True))
        better = [method for method in order if self.rank[method] < self.rank[REFERENCE]]
        self.p_best = p_values[self.first]
        self.worse = [method for method in order if p_values[method] < ranks.alpha and method not in better]
        self.better = [method for method in better if p_values[method] < ranks.alpha]
        against_best = ranks.against(self.first)
        self.n_worse_than_best = int(np.sum(against_best < ranks.alpha))
        self.stopped = {
            method: sum("stopped" in cell.numbers for cell in cells if cell.method == method) for method in METHODS
        }

    @property
    def rank(self) -> dict[str, float]:
        """The mean rank of each learner."""
        return dict(zip(self.found.ranks.methods, self.found.ranks.ranks, strict=True))

    def of(self, group: str) -> dict[str, float]:
        """The mean rank of each learner on a group of tables."""
        return dict(zip(self.found.ranks.methods, self.found.mean_ranks(GROUPS[group]), strict=True))

    @property
    def seconds(self) -> dict[str, float]:
        """The median of the seconds of each learner."""
        methods = self.found.ranks.methods
        return dict(zip(methods, _median_seconds(self.cells, methods), strict=True))

    @property
    def lower(self) -> dict[str, int]:
        """The number of tables on which a learner has a lower error than Euclidean distances."""
        errors = dict(zip(self.found.ranks.methods, self.found.errors.T, strict=True))
        return {method: int(np.sum(own < errors[REFERENCE])) for method, own in errors.items()}


def facts(found: Mapping[str, Facts]) -> dict[str, object]:
    """Return what the page says of ranks, all together and by groups of tables."""
    placed = Placings(found["table1"].own_cells)
    names = {"small": "up to 1,000 rows", "large": "more rows", "narrow": "up to 10 features", "wide": "more features"}
    groups = {name: placed.of(group) for name, group in names.items()}
    similar = {
        f"{end}_{name}": pick(ranks[method] for method in SIMILARITIES)
        for name, ranks in groups.items()
        for end, pick in (("low", min), ("high", max))
    }
    errors = [found["table1"].mean[method] for method in SIMILARITIES]
    milliseconds = {method: 1000.0 * seconds for method, seconds in placed.seconds.items()}
    groups["milliseconds"] = milliseconds
    return {"placed": placed, "low_similar": min(errors), "high_similar": max(errors), **groups, **similar}
