"""Time of a fit of each batch learner, as ratios within one run (machines are noisy; CPU time, one thread).

    python benchmarks/batch.py            # about a minute

A fit to 400 rows of 32 features is divided by a fixed piece of work with NumPy that is timed just before and after it.
"Recorded" is the ratio on a two-core virtual machine (Xeon). A learner that takes 1.5 times as long is marked: look for
what made it slower, or record the new ratio and say why.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import time
import warnings
from collections.abc import Callable
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mahala.batch.batch_learner import BatchLearner
from mahala.saved_estimator import estimator_names, kind_named

# Beside the defaults, what bounds a fit.
SETTINGS = {"BoostMetric": {"max_iter": 100}, "PSDBoost": {"max_iter": 5}, "SCML": {"max_iter": 100}}
RECORDED = {
    "ANMM": 0.77,
    "BoostMetric": 8.6,
    "Covariance": 0.24,
    "DMLMJ": 0.9,
    "GML": 4.7,
    "GMML": 0.41,
    "ITML": 1.7,
    "KISSME": 1.2,
    "LDA": 0.25,
    "LFDA": 0.56,
    "LMNN": 18,
    "LSML": 1.8,
    "LogisticMetric": 99,
    "MCML": 13.5,
    "MDM": 3.7,
    "MLKR": 29,
    "MMC": 2.9,
    "NCA": 6,
    "NCMML": 1.1,
    "PCA": 0.42,
    "PSDBoost": 19,
    "RCA": 0.5,
    "Relief": 0.58,
    "SCML": 61,
    "SDML": 0.72,
    "Simba": 13,
    "XQDA": 1.2,
}
SLOWER = 1.5
REPEATS = 5


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of this process: other work on the machine hardly counts."""
    start = time.process_time()
    work()
    return time.process_time() - start


def yardstick(X: np.ndarray) -> None:
    """Compute what most learners do: products, exponentials, and many small calls."""
    for _ in range(5):
        np.exp(-0.01 * np.abs(X @ X.T)).sum(axis=1)
        for row in X:
            np.square(row).sum()


def ratio(learner: BatchLearner, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the seconds of a fit, and their ratio to the piece of work, in the median of some repeats."""
    clone(learner).fit(X, y)  # which may compile
    times, ratios = [], []
    for _ in range(REPEATS):
        before, fit, after = (
            seconds(work) for work in (lambda: yardstick(X), lambda: clone(learner).fit(X, y), lambda: yardstick(X))
        )
        times.append(fit)
        ratios.append(fit / ((before + after) / 2.0))
    return min(times), median(ratios)


def main() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    X = 1.5 * rng.normal(size=(400, 32)) + rng.normal(size=(4, 32))[y]
    table = Table("learner", "ms", "ratio", "recorded", "", title="A fit to 400 × 32, in units of work with NumPy")
    kinds = [kind for kind in map(kind_named, sorted(estimator_names())) if kind and issubclass(kind, BatchLearner)]
    for kind in kinds:
        learner = kind(**SETTINGS.get(kind.__name__, {}))
        if "random_state" in learner.get_params():
            learner.set_params(random_state=0)
        best, found = ratio(learner, X, y)
        recorded = RECORDED.get(kind.__name__)
        note = "not recorded" if recorded is None else "slower" if found > SLOWER * recorded else ""
        table.add_row(kind.__name__, f"{1e3 * best:.1f}", f"{found:.3g}", f"{recorded or np.nan:.3g}", note)
    Console(width=100).print(table)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        main()
