"""Passive-aggressive online distance metric learning (Pérez-Suay, Ferri, Arevalillo-Herráez, 2013): Tables 2-5.

The data and learners are those of `pa2013_protocol`; ITML has as many pairs, and its γ is chosen from 1e-4..1e4 by the
k-NN error on the training half. The error is that of the k in 1..25 with the lowest mean over the runs; all methods
have the same data. As the published Euclidean errors suggest, errors are averaged over classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mahala.batch.itml import ITML
from mahala.evaluation.knn import knn_error
from mahala.support.arrays import FloatArray, IndexArray
from papers.pa2013.figures import FIGURE3, FIGURE4, FIGURE5, draw_seconds
from papers.pa2013.protocol import DATASETS, SETTINGS, halves, tuned_pa
from papers.study import SECONDS, Folder, Numbers, Published, Quantity, Study, published_table, timed_fit

if TYPE_CHECKING:
    from papers.prose import Facts

METHODS = ("Euclidean", "ITML", *SETTINGS)
# As printed in the paper: error (best k), and seconds (standard deviation).
TABLE_2 = {
    "soyS": "0.158(1) 0.119(2) 0.133(14) 0.125(13) 0.136(12) 0.121(15) 0.125(9) 0.126(12)",
    "wine": "0.027(13) 0.033(3) 0.018(5) 0.017(6) 0.016(3) 0.017(9) 0.024(7) 0.019(3)",
    "glass": "0.510(1) 0.513(1) 0.523(1) 0.506(1) 0.518(1) 0.527(1) 0.507(1) 0.518(1)",
    "ecoli": "0.064(3) 0.077(5) 0.075(3) 0.075(17) 0.076(15) 0.075(7) 0.076(17) 0.070(9)",
    "malaysia": "0.301(1) 0.298(1) 0.281(1) 0.289(1) 0.281(1) 0.289(1) 0.327(1) 0.318(1)",
    "ionosphere": "0.153(2) 0.155(2) 0.129(2) 0.136(2) 0.14(2) 0.139(2) 0.143(2) 0.138(2)",
    "balance": "0.335(6) 0.263(3) 0.219(3) 0.219(2) 0.258(3) 0.234(2) 0.312(6) 0.258(6)",
    "breast": "0.033(3) 0.037(3) 0.025(9) 0.026(11) 0.027(17) 0.025(11) 0.028(9) 0.030(9)",
    "chromo": "0.467(1) 0.489(1) 0.470(1) 0.489(1) 0.467(1) 0.488(1) 0.476(1) 0.481(1)",
    "mor": "0.277(9) 0.273(12) 0.296(12) 0.299(10) 0.294(10) 0.297(8) 0.269(11) 0.279(10)",
    "spam": "0.115(1) 0.109(3) 0.118(5) 0.12(3) 0.119(5) 0.121(3) 0.12(3) 0.121(1)",
    "satellite": "0.119(3) 0.118(3) 0.137(4) 0.132(3) 0.132(3) 0.127(3) 0.132(3) 0.127(3)",
    "soyL": "0.136(1) 0.086(1) 0.107(1) 0.1(1) 0.099(1) 0.097(1) 0.098(1) 0.083(1)",
    "nist16": "0.057(1) 0.057(1) 0.057(1) 0.059(1) 0.057(1) 0.060(1) 0.066(1) 0.056(1)",
}
TABLE_3 = {
    "soyS": "10.56(12.08) 0.30(0.01) 0.30(0.04) 0.49(0.05) 0.11(0.02) 0.10(0.05) 0.11(0.04)",
    "wine": "0.72(1.17) 0.18(0.03) 0.15(0.04) 0.29(0.02) 0.10(0.00) 0.10(0.00) 0.10(0.00)",
    "glass": "0.53(1.28) 0.26(0.04) 0.25(0.04) 0.32(0.03) 0.08(0.06) 0.09(0.07) 0.11(0.08)",
    "ecoli": "0.85(1.08) 0.24(0.07) 0.28(0.08) 0.32(0.03) 0.05(0.01) 0.05(0.01) 0.06(0.01)",
    "malaysia": "4.02(0.12) 1.25(0.06) 1.24(0.06) 2.06(0.04) 1.15(0.10) 1.10(0.10) 1.09(0.22)",
    "ionosphere": "2.15(0.69) 0.80(0.06) 0.84(0.13) 1.37(0.11) 0.28(0.03) 0.29(0.04) 0.34(0.04)",
    "balance": "2.11(1.17) 0.46(0.02) 0.46(0.02) 0.58(0.01) 0.28(0.01) 0.28(0.01) 0.30(0.00)",
    "breast": "0.29(0.45) 0.57(0.12) 0.63(0.14) 0.83(0.12) 0.26(0.10) 0.27(0.12) 0.35(0.09)",
    "chromo": "6.39(0.30) 1.99(0.11) 1.96(0.09) 2.65(0.28) 1.71(0.07) 1.80(0.07) 1.86(0.15)",
    "mor": "4.08(2.30) 4.77(0.23) 4.72(0.24) 8.00(0.29) 3.76(0.19) 3.81(0.18) 4.23(0.14)",
    "spam": "0.73(0.57) 12.51(1.08) 12.68(1.31) 17.69(1.17) 0.54(0.07) 0.50(0.07) 0.60(0.01)",
    "satellite": "3.99(7.65) 39.86(2.40) 34.93(5.20) 99.60(0.42) 2.12(0.09) 2.07(0.05) 2.46(0.06)",
    "soyL": "26.93(0.97) 4.48(1.03) 4.55(1.01) 26.47(2.37) 0.86(0.12) 0.85(0.09) 1.07(0.04)",
    "nist16": "86.09(46.08) 480.23(17.15) 500.55(19.73) 2007.20(14.47) 10.13(1.02) 10.81(1.67) 34.06(1.09)",
}
TIMED = ("ITML", "PAI+", "PAII+", "PALS+", "PAI-", "PAII-", "PALS-")
GAMMAS = tuple(10.0**power for power in range(-4, 5))
KS = range(1, 26)


def _published(part: int) -> dict[str, dict[str, Published]]:
    """Return the errors of Table 2 in per cent (0), or its numbers of neighbours (1)."""
    factor = (100.0, 1.0)[part]
    return {
        dataset: {method: Published(round(factor * (cell[part] or 0.0), 1)) for method, cell in row.items()}
        for dataset, row in published_table(METHODS, **TABLE_2).items()
    }


def _tuned_itml(X: FloatArray, y: IndexArray, run: int) -> ITML:
    """Return ITML with the γ of the lowest k-NN error on the training half, after full fits."""
    errors = [knn_error(ITML(gamma=gamma, random_state=run).fit(X, y).metric_, X, y).best_error for gamma in GAMMAS]
    return ITML(gamma=GAMMAS[int(np.argmin(errors))], random_state=run)


def _measure(dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure the error for every k and the CPU seconds of the final fit, and return them with C or γ."""
    X, y, X_test, y_test = halves(dataset, run, folder)
    metric, numbers = None, {"seconds": 0.0}
    if method != "Euclidean":
        learner = _tuned_itml(X, y, run) if method == "ITML" else tuned_pa(method, X, y, run)
        metric, seconds = timed_fit(learner, X, y)
        numbers = {"seconds": seconds, "parameter": learner.gamma if isinstance(learner, ITML) else float(learner.C)}
    errors = knn_error(metric, X, y, X_test, y_test, n_neighbors=KS, average="class")
    return numbers | {f"error{k}": 100.0 * errors.at(k) for k in KS}


def _by_k(runs: Sequence[Numbers]) -> FloatArray:
    return np.array([[numbers[f"error{k}"] for k in KS] for numbers in runs]).reshape(-1, len(KS))


def _at_best_k(runs: Sequence[Numbers]) -> FloatArray:
    errors = _by_k(runs)
    return errors[:, errors.mean(axis=0).argmin()] if len(errors) else np.empty(0)


def _best_k(runs: Sequence[Numbers]) -> FloatArray:
    errors = _by_k(runs)
    return np.array([KS[errors.mean(axis=0).argmin()]], dtype=np.float64) if len(errors) else np.empty(0)


TABLE2 = Study(
    paper="pa2013",
    name="table2",
    title="PA 2013, Table 2: passive-aggressive metrics",
    quantities=(
        Quantity(
            "error", "Error of k-NN in per cent, averaged over classes", _published(0), ".1f", "lower", _at_best_k
        ),
        Quantity("k", "Best k", _published(1), ".0f", values=_best_k),
    ),
    datasets=DATASETS,
    methods=METHODS,
    runs=10,
    measure=_measure,
)
TABLE3 = replace(
    TABLE2,
    name="table3",
    title="PA 2013, Tables 3, 4 and 5: CPU seconds, and their ranks",
    quantities=(replace(SECONDS, published=published_table(TIMED, **TABLE_3), better="lower"),),
    methods=TIMED,
    cells_of="table2",
)
FIGURE6 = replace(TABLE3, name="figure6", title="PA 2013, Figure 6: CPU seconds", quantities=(), draw=draw_seconds)
STUDIES = (
    *(
        replace(study, quick=replace(study, datasets=("soyS", "wine", "ecoli", "breast"), runs=2))
        for study in (TABLE2, TABLE3, FIGURE3, FIGURE6)
    ),
    *(replace(study, quick=replace(study, runs=2)) for study in (FIGURE4, FIGURE5)),
)


def facts(found: Mapping[str, Facts]) -> dict[str, object]:
    """Return what the page says of the best k on ecoli, of "+" and "-", and of times."""
    table, times, streams = found["table2"], found["table3"], found["figure3"]
    runs = [cell.numbers for cell in table.own_cells if cell[:2] == ("ecoli", "PALS+")]
    variants = ("I", "II", "LS")
    errors = {
        name: {sign: [streams[f"{name}, PA{variant}{sign}"] for variant in variants] for sign in "+-"}
        for name in DATASETS
    }
    faster = [f"PA-{variant}" for variant in variants if times.p[f"PA{variant}-, PA{variant}+"] < 0.05]
    return {
        "best_k_ecoli": float(_best_k(runs)[0]),
        "ecoli_17": float(np.mean([run["error17"] for run in runs])),
        "minus_better": sum(np.mean(own["-"]) < np.mean(own["+"]) for own in errors.values()),
        "minus_all": ", ".join(name for name, own in errors.items() if max(own["-"]) < min(own["+"])),
        "faster_minus": " and ".join(faster),
    }
