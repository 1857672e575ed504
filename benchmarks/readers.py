"""`learn_one` in one thread and `metric_` in another, both in tight loops: calls per second, alone and together.

python benchmarks/readers.py    # one and a half minutes
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
from sklearn.base import clone

import mahala

SECONDS = 3.0
LEARNERS = [
    mahala.PA(psd="end", record=False),
    mahala.LEGO(similar_target=1.0, dissimilar_target=3.0, record=False),
    mahala.OASIS(record=False),
]


def rates(*calls: Callable[[], object]) -> list[float]:
    """Return the calls per second of functions that run at the same time, each in a thread."""
    counts = [0] * len(calls)
    stop = threading.Event()

    def repeat(number: int) -> None:
        while not stop.is_set():
            calls[number]()
            counts[number] += 1

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    stop.set()
    for thread in threads:
        thread.join()
    return [count / SECONDS for count in counts]


def measure(learner: mahala.PA | mahala.LEGO | mahala.OASIS, d: int) -> list[float]:
    """Return the calls per second of a writer alone, of a reader alone, and of both together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, d)) / np.sqrt(d)

    def write() -> None:
        a, b, c = X[rng.integers(1000, size=3)]
        learner.learn_one(a, b, c if isinstance(learner, mahala.OASIS) else bool(rng.random() < 0.5))

    def read() -> object:
        learner._latest[0] = None  # as if a step had been taken
        return learner.metric_

    write()
    read()
    return [*rates(write), *rates(read), *rates(write, lambda: learner.metric_)]


if __name__ == "__main__":
    print("learner          d   writer alone   reader alone   together: writer   reader")
    for d in (100, 500):
        for learner in LEARNERS:
            figures = measure(clone(learner), d)
            writer, reader, writer_beside, reader_beside = figures
            name = type(learner).__name__
            print(f"{name:10s} {d:7d} {writer:14,.0f} {reader:14,.0f} {writer_beside:18,.0f} {reader_beside:8,.0f}")
