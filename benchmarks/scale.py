"""How far each batch learner goes on this machine: seconds and memory of a fit, for some sizes.

    python benchmarks/scale.py               # about seven minutes
    python benchmarks/scale.py --seconds 30  # waits longer for each fit

The sizes are many rows, many features, and sparse rows of very many features. Each fit has default parameters and runs
in a process of its own, which is ended after the given time. "refused" is a MemoryError that says what to do.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mahala.batch.batch_learner import BatchLearner
from mahala.saved_estimator import estimator_names, kind_named

SIZES = {
    "20,000 × 50": (20_000, 50, None),
    "500 × 2,000": (500, 2_000, None),
    "300 × 100,000 sparse": (300, 100_000, 1e-3),
}


def rows(n: int, d: int, density: float | None) -> tuple[Any, np.ndarray]:
    """Return rows of three classes that differ in the first features."""
    rng, y = np.random.default_rng(0), np.arange(n) % 3
    if density is not None:
        return sp.random_array((n, d), density=density, format="csr", rng=rng), y
    return rng.normal(size=(n, d)) + np.eye(3, d)[y], y


def fit(name: str, size: tuple[int, int, float | None], answer: Any) -> None:
    """Send what a fit took."""
    warnings.simplefilter("ignore")
    X, y = rows(*size)
    learner = kind_named(name)()
    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    start = time.perf_counter()
    try:
        learner.fit(X, y)
    except MemoryError:
        answer.send("refused")
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    answer.send(f"{time.perf_counter() - start:.1f} s, {peak:.1f} GiB")


def measured(name: str, size: tuple[int, int, float | None], seconds: float) -> str:
    """Return the seconds and the peak memory of a fit, or why there are none."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=fit, args=(name, size, theirs))
    process.start()
    theirs.close()
    try:
        return str(ours.recv()) if ours.poll(seconds) else f"> {seconds:g} s"
    except EOFError:
        return "failed"
    finally:
        process.kill()
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each fit")
    seconds = parser.parse_args().seconds
    print("| learner |", " | ".join(SIZES), "|")
    print("|---" * (len(SIZES) + 1) + "|")
    kinds = [kind for kind in map(kind_named, sorted(estimator_names())) if kind and issubclass(kind, BatchLearner)]
    for kind in kinds:
        cells = [measured(kind.__name__, size, seconds) for size in SIZES.values()]
        print(f"| {kind.__name__} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
