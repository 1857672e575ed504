"""Cost of single calls: `learn_one`, `predict_comparisons` of one, `distance` and `similarity` of two points.

    python benchmarks/small_calls.py            # about two minutes
    python benchmarks/small_calls.py --quick    # d = 16 only

Each `learn_one` is compared, within one run, with a step of the same learner inside a long stream (one compiled call
for thousands of steps): what is above that step is the cost of the call. The last row is river's passive-aggressive
classifier, which predicts and learns from one dictionary of features, where river is installed.
Times are CPU time on one BLAS thread, the best of several repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import cycle

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import mahala
from mahala import Pairs, Triplets

LEARNERS = [
    mahala.PA(record=False),
    mahala.PA(psd="end", record=False),
    mahala.POLA(record=False),
    mahala.LEGO(record=False, similar_target=1.0, dissimilar_target=3.0),
    mahala.online.RDML(record=False),
    mahala.OASIS(record=False),
    mahala.OGD(record=False),
    mahala.SORS(record=False),
    mahala.AdaSORS(record=False),
    mahala.AROMA(record=False),
]


def best(call: Callable[[], object], n: int, repeats: int = 5) -> float:
    """Return the microseconds of a call, in the best of several repeats of n calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(n):
            call()
        times.append((time.process_time() - start) / n)
    return 1e6 * min(times)


def rows(d: int, n: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of five overlapping classes, about 1 apart, and their classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = rng.normal(size=(5, d))[y] + 1.5 * rng.normal(size=(n, d))
    return X / np.sqrt(6.5 * d), y


def measure(learner, d: int) -> tuple[float, float, float]:
    """Return the microseconds of a step in a stream, of `learn_one` and of `predict_comparisons` of one."""
    X, y = rows(d)
    is_pair = isinstance(learner, mahala.PA | mahala.POLA | mahala.LEGO | mahala.online.RDML)
    kind = Pairs if is_pair else Triplets
    comparisons = kind.from_labels(X, y, 5120, random_state=0)
    n = 1024
    learner.partial_fit(comparisons[:-n])  # as many steps as are left to NumPy, and more
    step = best(lambda: learner.partial_fit(comparisons[-n:]), 1, 3) / n
    roles = ("left", "right") if is_pair else ("anchor", "positive", "negative")
    vectors = [X[getattr(comparisons, role)] for role in roles]
    arguments = cycle(zip(*vectors, *([comparisons.similar.tolist()] if is_pair else []), strict=True))
    one = best(lambda: learner.learn_one(*next(arguments)), 2000 if d < 100 else 500)
    single = np.stack([rows[0] for rows in vectors])[np.newaxis]
    learner.predict_comparisons(single)
    return step, one, best(lambda: learner.predict_comparisons(single), 500)


def river_row(d: int) -> float | None:
    try:
        from river.linear_model import PAClassifier
    except ImportError:
        return None
    X, y = rows(d)
    model = PAClassifier(C=0.1, mode=1)
    given = cycle([(dict(enumerate(x.tolist())), label == 0) for x, label in zip(X, y, strict=True)])

    def step() -> None:
        x, label = next(given)
        model.predict_one(x)
        model.learn_one(x, label)

    return best(step, 1000)


def two_points(d: int) -> tuple[float, float]:
    """Return the microseconds of `distance` and of `similarity` of two points."""
    (x, x2, *_), _ = rows(d)
    distance, similarity = mahala.MahalanobisMetric(np.eye(d) + 0.1), mahala.BilinearMetric(np.eye(d) + 0.1)
    return best(lambda: distance.distance(x, x2), 1000), best(lambda: similarity.similarity(x, x2), 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="d = 16 only")
    quick = parser.parse_args().quick
    console = Console()
    for d in (16,) if quick else (16, 384):
        table = Table("call", "step", "learn_one", "above the step", "predict one", title=f"µs at d = {d}")
        for learner in LEARNERS:
            step, one, predict = measure(clone(learner), d)
            name = type(learner).__name__ + (" psd='end'" if getattr(learner, "psd", "") == "end" else "")
            table.add_row(name, *(f"{x:.1f}" for x in (step, one, one - step, predict)))
        river = river_row(d)
        table.add_row("river's PAClassifier", "", "not installed" if river is None else f"{river:.1f}")
        for name, cost in zip(("distance", "similarity"), two_points(d), strict=True):
            table.add_row(f"{name} of two points", "", f"{cost:.1f}")
        console.print(table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
