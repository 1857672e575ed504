"""The same comparison on a machine under load: more threads and processes, and busy ones beside, change no verdict."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib.externals.loky import get_reusable_executor

import mahala
from mahala import GML, LDA, LMNN, NCA, RCA, AutoMetric
from mahala.compiled import threads
from mahala.evaluation.compare import compare

from .relations import draw_rows
from .runner import Failed
from .values import chance

AMOUNT, SHORT = 100, 1  # comparisons, each of them four times
CPU_SECONDS = 240.0
_PANEL: dict[str, Any] = {"LMNN": LMNN(max_iter=10), "NCA": NCA(2, max_iter=10), "GML": GML(max_iter=10)}
# Busy processes beside, and processes and threads of the comparison.
_WAYS = [(1, 1, 2), (2, 2, 1), (3, 2, 2)]
_QUICK: dict[str, Any] = {"LDA": LDA(shrinkage="auto"), "RCA": RCA()}


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Compile what the learners need."""
    X, y = draw_rows(np.random.default_rng(0))
    for learner in _PANEL.values() if amount > SHORT else ():
        learner.fit(X, y)


@contextmanager
def busy(n: int) -> Iterator[None]:
    """So many processes beside that do nothing but compute."""
    pids = []
    for _ in range(n):
        if (pid := os.fork()) == 0:
            signal.alarm(600)  # also if nobody ends it
            while True:
                sum(range(10_000))
        pids.append(pid)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _compared(X: np.ndarray, y: np.ndarray, n_jobs: int, n_threads: int, seed: int, **options: Any) -> tuple[Any, Any]:
    """What must be the same, and what may differ by rounding."""
    learners = _QUICK | {name: _PANEL[name] for name in list(_PANEL)[seed % 3 :][:1]}
    options |= {"folds": 3, "repeats": 2, "budget": None, "n_jobs": n_jobs, "random_state": seed}
    with mahala.config_context(n_threads=n_threads):
        board = compare(X, y, learners, **options)
    entries = [(entry.name, entry.scaling, entry.stopped, entry.errors.tolist()) for entry in board.entries]
    return (board.verdict, entries), np.zeros(1)


def _chosen(X: np.ndarray, y: np.ndarray, n_jobs: int, n_threads: int, seed: int) -> tuple[Any, np.ndarray]:
    panel = _QUICK | {"LMNN": _PANEL["LMNN"]}
    names = [f"mahala.evaluation.{name}.default_panel" for name in ("cross_validation.planning", "auto_metric")]
    panels = [patch(name, lambda *_, **__: panel) for name in names]
    with panels[0], panels[1], mahala.config_context(n_threads=n_threads):
        fitted = AutoMetric(budget=None, random_state=seed).fit(X, y)
    return (fitted.verdict_, fitted.chosen_), fitted.metric_.matrix


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    X, y = draw_rows(rng)
    of_auto = chance(rng, 0.3) and amount > SHORT
    act: Any = _chosen if of_auto else _compared if amount > SHORT else partial(_compared, baselines=False)
    number = int(rng.integers(99))
    with patch.object(threads, "DISPATCH", 1.0):  # threads for little work
        expected, matrix = act(X, y, 1, 1, number)
        for n_busy, n_jobs, n_threads in _WAYS[:1] if amount == SHORT else _WAYS:
            with busy(n_busy):
                found, other = act(X, y, n_jobs, n_threads, number)
            if found != expected or not np.allclose(other, matrix, rtol=0.0, atol=1e-9 * np.abs(matrix).max()):
                name = "AutoMetric" if of_auto else "compare"
                beside = f"{n_jobs} processes, {n_threads} threads, beside {n_busy} busy ones"
                raise Failed(f"{name} with {beside} gave something else")
    get_reusable_executor().shutdown(wait=True)
    return 2 if amount == SHORT else 1 + len(_WAYS)
