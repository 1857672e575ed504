"""Ctrl-C at a random moment of a fit of each learner, with and without other threads and forks, under faulthandler.

After it, the next fit must give what it gives without, also in another thread and in a forked process. One in two
hundred cases has a cold cache: Numba compiles while the interrupts come.
"""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from contract.learners import ALL

from .runner import Failed

AMOUNT, SHORT = 1_000, 4  # interrupts
CPU_SECONDS = 120.0
COLD_EVERY = 200  # cases
N_COLD = 4  # interrupts of one process with a cold cache
_Y = np.arange(40) % 3
_X = np.random.default_rng(0).normal(size=(40, 4)) + np.eye(3, 4)[_Y]


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Compile what the learners need, so that forked processes have it."""
    for learner in ALL[:amount]:
        clone(learner).fit(_X, _Y)


def _later(begin: threading.Event, delay: float) -> threading.Thread:
    """Send Ctrl-C to this process so many seconds after the event."""

    def send() -> None:
        begin.wait()
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def _in_fork(learner: Any, expected: np.ndarray) -> bool:
    """Return whether a forked process learns what it should."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = int(not np.array_equal(_fitted(learner), expected))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _fitted(learner: Any) -> np.ndarray:
    matrix = clone(learner).fit(_X, _Y).metric_.matrix
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def interrupt(learner: Any, rng: random.Random, longest: float) -> None:
    """Interrupt fits while another thread fits another copy; raise Failed unless later fits are right."""
    kept, interrupted = clone(learner), False
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(_fitted, learner) if rng.random() < 0.5 else None
        begin = threading.Event()
        thread, end = _later(begin, rng.uniform(0.0, longest)), time.monotonic() + 60.0
        try:
            begin.set()
            while time.monotonic() < end:
                kept.fit(_X, _Y)
        except KeyboardInterrupt:
            interrupted = True
        thread.join()
        if not interrupted:
            raise Failed(f"{learner!r}: Ctrl-C was lost")
        expected = _fitted(learner)
        others = [pool.submit(_fitted, learner).result(), *([beside.result()] if beside else [])]
    again = kept.fit(_X, _Y).metric_.matrix
    others.append(np.asarray(again.toarray() if hasattr(again, "toarray") else again))
    if not all(np.array_equal(other, expected) for other in others):
        raise Failed(f"{learner!r}: a fit after Ctrl-C learned something else")
    if rng.random() < 0.5 and not _in_fork(learner, expected):
        raise Failed(f"{learner!r}: a forked process learned something else after Ctrl-C")


def run(case: int, seed: int, amount: int) -> int:
    if case % COLD_EVERY == COLD_EVERY - 1:
        return _cold(case, seed)
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt(ALL[case % len(ALL)], random.Random(f"{seed} {case}"), 0.05)
    return 1


def _cold(case: int, seed: int) -> int:
    """Run interrupts in a new process with an empty cache."""
    folder = tempfile.mkdtemp()
    try:
        command = [sys.executable, "-X", "faulthandler", "-m", "campaign.interrupts", str(case), str(seed)]
        done = subprocess.run(
            command,
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode:
        raise Failed(f"a process with a cold cache ended with {done.returncode}: {done.stderr[-1500:]}")
    return N_COLD


if __name__ == "__main__":
    chooser = random.Random(" ".join(sys.argv[1:]))
    for _ in range(N_COLD):
        interrupt(chooser.choice(ALL), chooser, 3.0)
