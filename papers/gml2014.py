"""Global metric learning by gradient descent (Hocke, Martinetz, 2014): Tables 2, 3 and 4.

A random half of the rows trains, the other tests, in ten runs; errors are those of 3-NN. Table 2 uses raw features,
Tables 3 and 4 features scaled to variance one (over all rows). The tenth feature of "Breast Cancer" is the number of
the sample: the Euclidean errors of the paper can be reproduced only with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.gml import GML
from mahala.batch.lmnn import LMNN
from mahala.batch.mdm import MDM
from mahala.batch.mmc import MMC
from mahala.batch.nca import NCA
from mahala.batch.relief import Relief
from mahala.batch.simba import Simba
from mahala.data.datasets import load
from mahala.evaluation.knn import knn_error
from papers.study import SECONDS, Folder, Numbers, Quantity, Study, published_table, timed_fit

if TYPE_CHECKING:
    from papers.prose import Facts

DATASETS = ("iris", "wine", "breast10", "pima", "balance", "parkinsons", "seeds")
NEIGHBORS = 3


def _learner(method: str, run: int) -> BatchLearner | None:
    makers: dict[str, Callable[[], BatchLearner | None]] = {
        "LMNN": lambda: LMNN(n_neighbors=3, mu=0.5, random_state=run),
        "NCA": lambda: NCA(random_state=run),
        "PGDM": lambda: MMC(random_state=run),
        "GML": lambda: GML(alpha=0.9, random_state=run),
        "GML vSGD": lambda: GML(alpha=0.9, solver="vsgd", random_state=run),
        "GML weights": lambda: GML(alpha=0.9, diagonal=True, random_state=run),
        "MDM": MDM,
        "Relief": Relief,
        "Simba": lambda: Simba(random_state=run),
        "Euclidean": lambda: None,
    }
    return makers[method]()


def _measure(scaled: bool, dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    X, y, _ = load(dataset, folder)
    X = X.astype(np.float64)
    if scaled:
        deviations = X.std(axis=0)
        X = X / np.where(deviations > 0.0, deviations, 1.0)
    order = np.random.default_rng(run).permutation(len(X))
    train, test = order[: len(X) // 2], order[len(X) // 2 :]
    metric, seconds = timed_fit(_learner(method, run), X[train], y[train])
    errors = knn_error(metric, X[train], y[train], X[test], y[test], n_neighbors=NEIGHBORS)
    return {"error": 100.0 * errors.at(NEIGHBORS), "seconds": seconds}


def _quantities(methods: Sequence[str], **rows: str) -> tuple[Quantity, ...]:
    published = published_table(methods, **rows)
    return Quantity("error", "Error of 3-NN in per cent", published, better="lower"), SECONDS


TABLE2 = Study(
    paper="gml2014",
    name="table2",
    title="GML 2014, Table 2: metrics on raw features",
    datasets=DATASETS,
    methods=("LMNN", "NCA", "PGDM", "GML", "GML vSGD", "Euclidean"),
    runs=10,
    measure=partial(_measure, False),
    quantities=_quantities(
        ("LMNN", "NCA", "PGDM", "GML", "Euclidean"),
        iris="3.07(1.89) 4.13(1.93) 2.27(1.99) 2.53(1.72) 3.33(1.81)",
        wine="5.22(2.03) 29.78(5.87) 5.89(3.67) 2.89(1.75) 31.00(4.52)",
        breast10="3.80(0.57) 39.71(2.24) 3.60(0.44) 3.68(0.68) 39.68(2.21)",
        pima="29.14(2.33) 31.12(1.94) 27.19(1.34) 27.89(1.74) 30.78(1.99)",
        balance="15.50(1.95) 7.60(2.87) 10.00(1.14) 9.33(1.31) 21.73(1.36)",
        parkinsons="14.18(2.90) 17.24(2.47) 16.63(3.57) 10.10(4.04) 16.73(2.46)",
        seeds="6.95(2.88) 7.71(1.76) 6.86(2.14) 4.10(1.19) 11.33(2.64)",
    ),
)
TABLE3 = replace(
    TABLE2,
    name="table3",
    title="GML 2014, Table 3: metrics on features of variance one",
    measure=partial(_measure, True),
    quantities=_quantities(
        ("LMNN", "NCA", "PGDM", "GML", "Euclidean"),
        iris="2.80(1.93) 3.20(2.10) 2.27(1.99) 2.27(1.89) 3.60(1.55)",
        wine="3.00(2.10) 5.67(1.85) 5.89(3.67) 2.67(1.67) 5.67(1.52)",
        breast10="3.65(0.57) 4.71(0.71) 3.60(0.44) 3.83(0.76) 3.74(0.76)",
        pima="27.97(1.33) 29.69(1.77) 27.19(1.34) 27.92(1.76) 27.84(1.93)",
        balance="14.41(1.90) 6.71(1.72) 10.03(1.25) 9.74(1.08) 18.95(0.85)",
        parkinsons="9.49(2.26) 10.71(2.86) 15.10(3.36) 10.71(3.13) 10.00(3.22)",
        seeds="6.67(2.06) 7.43(1.33) 6.86(2.14) 4.29(1.63) 8.29(2.50)",
    ),
)
TABLE4 = replace(
    TABLE3,
    name="table4",
    title="GML 2014, Table 4: weights of features, which have variance one",
    methods=("MDM", "Relief", "Simba", "GML weights", "Euclidean"),
    quantities=_quantities(
        ("MDM", "Relief", "Simba", "GML weights", "Euclidean"),
        iris="2.93(1.97) 3.20(2.10) 2.93(1.51) 3.33(2.01) 3.60(1.55)",
        wine="4.00(2.23) 4.22(2.39) 4.00(2.11) 2.67(2.11) 5.67(1.52)",
        breast10="3.54(0.67) 4.06(1.02) 4.12(0.71) 4.06(0.79) 3.74(0.76)",
        pima="28.49(1.87) 27.16(1.43) 27.86(2.04) 28.26(1.64) 27.84(1.93)",
        balance="18.95(0.85) 19.17(1.31) 19.23(1.24) 21.31(2.00) 19.23(0.95)",
        parkinsons="10.00(4.13) 9.18(2.50) 10.82(3.73) 8.78(3.01) 10.00(3.22)",
        seeds="8.29(3.56) 9.62(3.06) 10.19(3.39) 7.33(2.50) 8.29(2.50)",
    ),
)
STUDIES = tuple(
    replace(study, quick=replace(study, datasets=("iris", "wine", "balance", "seeds"), runs=3))
    for study in (TABLE2, TABLE3, TABLE4)
)


def facts(found: Mapping[str, Facts]) -> dict[str, object]:
    """Return the largest difference of an error between the two optimisers of GML."""
    tables = [found["table2"], found["table3"]]
    gaps = [abs(table[f"{name}, GML vSGD"] - table[f"{name}, GML"]) for table in tables for name in DATASETS]
    return {"vsgd": max(gaps)}
