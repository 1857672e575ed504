"""Long streams at a small number of features: memory, speed and precision stay as they were; counters go beyond 2³¹."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import mahala
from contract.learners import ALL
from mahala.online.online_learner import OnlineLearner
from mahala.support.model_files import read_model, write_model
from mahala.testing import dense, draw

from .inputs import check_learned, content
from .runner import Failed

AMOUNT, SHORT = 100_000_000, 200  # steps of each learner
CPU_SECONDS = 6 * 3600.0
N_BLOCKS, D = 20, 3
MEMORY = 2**24
_STREAMS = [
    learner
    for learner in ALL
    if isinstance(learner, OnlineLearner)
    and getattr(learner, "storage", None) != "gram"
    and getattr(learner, "kernel", None) is None
]


def n_cases(amount: int) -> int:
    return len(_STREAMS) if amount > SHORT else 4


def prepare(amount: int) -> None:
    """Nothing is shared."""


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    y = np.arange(300) % 3
    X = rng.normal(size=(300, D)) + np.eye(3, D)[y]
    learner = clone(_STREAMS[7 * case % len(_STREAMS)]).set_params(record=False)  # the first few are of several kinds
    if isinstance(getattr(learner, "psd", None), int):
        learner.set_params(psd=300)  # each projection is a call from Python
    # As many comparisons as are held at a time; a block goes through them again and again.
    n = min(20_000, amount // N_BLOCKS)
    comparisons = draw(learner, X, y, n, random_state=case)
    passes = max(1, amount // N_BLOCKS // n)
    # The mean of models in single precision has to follow that in double precision; the last model need not, since a
    # step that is taken by the one and not by the other parts them. Means, too, differ as much as those of two streams
    # in double precision whose rows differ by the precision of float32.
    twins = []
    if getattr(learner, "dtype", "float64") == "float32" and learner.average:
        rounded = X * (1.0 + np.finfo(np.float32).eps * rng.uniform(-1.0, 1.0, X.shape))
        for rows in (X, rounded):
            twins.append((clone(learner).set_params(dtype="float64"), draw(learner, rows, y, n, random_state=case)))
    for one, given in [(learner, comparisons), *twins]:
        one.partial_fit(given)
    seconds, memory = [], []
    for _ in range(N_BLOCKS):
        started = time.process_time()
        for _ in range(passes):
            learner.partial_fit(comparisons)
        seconds.append(time.process_time() - started)
        memory.append(_resident())
        for twin, given in twins:
            for _ in range(passes):
                twin.partial_fit(given)
    name = repr(learner)
    n_steps = n * (1 + N_BLOCKS * passes)
    if learner.n_steps_ != n_steps:
        raise Failed(f"{name}: {learner.n_steps_} of {n_steps} steps were counted")
    if memory[-1] > memory[1] + MEMORY:
        raise Failed(f"{name}: memory grew by {(memory[-1] - memory[1]) / 2**20:.0f} MiB in {n_steps} steps")
    first, last = np.median(seconds[1 : N_BLOCKS // 2]), np.median(seconds[N_BLOCKS // 2 :])
    if last > 1.5 * first and last - first > 0.05:
        raise Failed(f"{name}: a block took {last:.3f} s, {first:.3f} s at first")
    check_learned(learner)
    if twins:
        got, want, other = (dense(one.metric_.matrix) for one in (learner, *(twin for twin, _ in twins)))
        off, apart = (np.abs(matrix - want).max() / np.abs(want).max() for matrix in (got, other))
        if off > max(1e-3, 2.0 * apart):
            raise Failed(f"{name}: off by {off:.2g} after {n_steps} steps, rows in float32 by {apart:.2g}")
    _check_restart(learner, comparisons)
    return n_steps


def _check_restart(learner: Any, comparisons: Any) -> None:
    """Go on from a file, and from one whose counters are just below 2³¹ and 2³²."""
    some = comparisons[:50]
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        path = Path(folder, "model")
        learner.save(path)
        loaded = mahala.load(path)
        for own in (learner, loaded):
            own.partial_fit(some)
        if content(learner) != content(loaded):
            raise Failed(f"{learner!r} goes on in another way from its file")
        header, arrays = read_model(path, "learner")
        for start in (2**31 - 20, 2**32 - 20):
            changed: dict[str, Any] = dict.fromkeys(("n_steps", "n_updates", "n_mistakes"), start)
            if getattr(learner, "covariance", None) == "full":  # its clock is the number of steps
                changed["model"] = header["model"] | {"clock": start}  # type: ignore[operator]
            write_model(path, "learner", arrays, header | changed)
            try:
                high = mahala.load(path)
            except mahala.ModelFileError as error:
                raise Failed(f"{learner!r}: counters of {start} cannot be read: {error}") from error
            high.partial_fit(some)
            check_learned(high)
            if high.n_steps_ != start + len(some):
                raise Failed(f"{learner!r}: {high.n_steps_} steps are counted, not {start + len(some)}")
            high.save(path)
            if content(mahala.load(path)) != content(high):
                raise Failed(f"{learner!r} with {high.n_steps_} steps is another one when it is loaded")
