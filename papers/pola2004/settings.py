"""Figure 3 of the POLA paper under other settings: is it an unlucky choice that POLA does not beat Euclidean distances?

Each setting changes one thing of the protocol of Figure 3, in which pixels go from 0 to 0.3 and POLA makes one pass
over 1,000 pairs. "Centred" rows are without their own mean: without that of all rows differences stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from mahala.data.datasets import data_folder
from mahala.evaluation.knn import knn_error
from mahala.online.pair_learner import PairLearner
from mahala.online.passive_aggressive import PA
from mahala.online.pola import POLA
from mahala.support.arrays import FloatArray
from papers.pola2004.digits import BRIGHTEST, N_PAIRS, PROBLEMS, K, Rows, problem_rows
from papers.study import Cell, Folder, Numbers, Study

Treatment = Literal["plain", "centred", "unit", "centred unit"]


@dataclass(frozen=True)
class Setting:
    """A learner, and what is done to rows before."""

    rows: Treatment = "plain"
    brightest: float = BRIGHTEST
    learner: Callable[..., PairLearner] = POLA
    n_pairs: int = N_PAIRS


_POLYNOMIAL = partial(POLA, kernel="poly", kernel_params={"degree": 2, "gamma": 1.0, "coef0": 1.0})
SETTINGS = {
    **{f"pixels from 0 to {top:g}": Setting(brightest=top) for top in (0.03, 0.1, 0.3, 1.0, 255.0)},
    "centred rows": Setting("centred"),
    "rows of length one": Setting("unit"),
    "centred rows of length one": Setting("centred unit"),
    "rows of length one under a polynomial kernel": Setting("unit", learner=_POLYNOMIAL),
    "PA-I with C = 0.001": Setting(learner=partial(PA, variant="I", C=0.001, n_steps=N_PAIRS)),
    "PA-LS with C = 1": Setting(learner=partial(PA, variant="LS", n_steps=N_PAIRS)),
    "3000 pairs": Setting(n_pairs=3_000),
    "10000 pairs": Setting(n_pairs=10_000),
}


def treated(X: FloatArray, treatment: Treatment) -> FloatArray:
    """Return rows without their own means, of length one, or both."""
    if "centred" in treatment:
        X = X - X.mean(axis=1, keepdims=True)
    result: FloatArray = X / np.linalg.norm(X, axis=1, keepdims=True) if "unit" in treatment else X
    return result


@lru_cache(maxsize=4)  # the cells of all settings come one after another
def _rows(problem: str, run: int, folder: Path | None, treatment: Treatment) -> tuple[Rows, Rows, float]:
    """Return training and test rows with their classes, and the error of their Euclidean distances."""
    (X, y), (X_test, y_test) = problem_rows(problem, run, folder)
    X, X_test = treated(X, treatment), treated(X_test, treatment)
    # Pixels that are zero in all training rows change no order of distances from a test row, and M is zero there.
    inked = X.any(axis=0)
    X, X_test = np.ascontiguousarray(X[:, inked]), np.ascontiguousarray(X_test[:, inked])
    return (X, y), (X_test, y_test), _error(None, (X, y), (X_test, y_test))


def _error(metric: object, train: Rows, test: Rows) -> float:
    found = knn_error(metric, *train, *test, n_neighbors=K).at(K)  # type: ignore[arg-type]
    return round(100.0 * found, 4)


def _measure(dataset: str, method: str, run: int, folder: Folder) -> Numbers:
    """Measure the errors of a setting, of Euclidean distances of its rows, and of those of the images as they are."""
    setting, place = SETTINGS[method], data_folder(folder)
    *_, plain = _rows(dataset, run, place, "plain")
    (X, y), (X_test, y_test), euclidean = _rows(dataset, run, place, setting.rows)
    unit = BRIGHTEST / setting.brightest
    metric = setting.learner(n_pairs=setting.n_pairs, random_state=run).fit(X / unit, y).metric_
    return {"error": _error(metric, (X / unit, y), (X_test / unit, y_test)), "euclidean": euclidean, "plain": plain}


class Won(NamedTuple):
    """On how many problems a setting has a lower error than Euclidean distances, and the mean errors."""

    problems: int
    same: int
    """Lower than Euclidean distances of the same rows,"""
    equal: int
    """equal,"""
    plain: int
    """and lower than those of the images as they are."""
    error: float
    euclidean: float


def wins_of(cells: Sequence[Cell]) -> dict[str, Won]:
    """Count the problems that each setting has won."""
    found = {}
    for setting in SETTINGS:
        own = [cell.numbers for cell in cells if cell.method == setting]
        if own:
            error, euclidean, plain = (np.array([n[name] for n in own]) for name in ("error", "euclidean", "plain"))
            same, equal, won_plain = (
                int(np.sum(own)) for own in (error < euclidean, error == euclidean, error < plain)
            )
            found[setting] = Won(len(error), same, equal, won_plain, float(error.mean()), float(euclidean.mean()))
    return found


def problems_won(cells: Sequence[Cell]) -> str:
    """Return a table of the settings: on how many problems they have the lower error, and the mean errors."""
    text = [
        "| setting | problems | better than Euclidean, same rows | equal | better than Euclidean, plain rows | "
        "mean error in % | Euclidean, same rows |",
        "|---|---|---|---|---|---|---|",
    ]
    for setting, (*counts, error, euclidean) in wins_of(cells).items():
        text.append(f"| {' | '.join([setting, *map(str, counts), f'{error:.2f}', f'{euclidean:.2f}'])} |")
    return "\n".join(text)


TABLE1 = Study(
    paper="pola2004",
    name="table1",
    title="POLA 2004, Figure 3 under other settings: problems won against Euclidean distances",
    quantities=(),
    datasets=PROBLEMS,
    methods=tuple(SETTINGS),
    runs=1,
    measure=_measure,
    axis="digits",
    summary=problems_won,
)
