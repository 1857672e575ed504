"""Results depend neither on the number of processes nor on that of threads, nor, without a budget, on time."""

from __future__ import annotations

import functools
import sys
import threading

import numpy as np
import pytest

import mahala
from mahala import GML, LDA, LMNN, NCA, AutoMetric, Teacher
from mahala.compiled import threads
from mahala.evaluation.compare import compare

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
X = RNG.normal(size=(90, 6)) + np.eye(3, 6)[Y]


@pytest.fixture(autouse=True)
def _threads_for_little_work(monkeypatch):
    monkeypatch.setattr(threads, "DISPATCH", 1.0)


LEARNERS = {"NCA": NCA(2, max_iter=5), "LMNN": LMNN(max_iter=5), "GML": GML(max_iter=5)}


@functools.cache
def compared(n_jobs=1, n_threads=1, names=tuple(LEARNERS)):
    learners = {name: LEARNERS[name] for name in names}
    options = {"folds": 2, "repeats": 1, "budget": None, "baselines": False, "random_state": 0}
    with mahala.config_context(n_threads=n_threads):
        return compare(X, Y, learners, **options, n_jobs=n_jobs)


def same(board, other):
    assert board.verdict == other.verdict
    for one, two in zip(board.entries, other.entries, strict=True):
        assert (one.name, one.scaling, one.stopped) == (two.name, two.scaling, two.stopped)
        np.testing.assert_array_equal(one.errors, two.errors)


@pytest.mark.parametrize(("n_jobs", "n_threads"), [(2, 1), (1, 2)])
def test_compare(n_jobs, n_threads):
    same(compared(n_jobs, n_threads), compared())


def test_compare_beside_a_busy_loop():
    expected, done = compared(names=("NCA",)), threading.Event()

    def loop():
        while not done.is_set():
            sum(range(1000))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # by default the loop has the lock for 5 ms whenever a kernel gives it back
    busy = threading.Thread(target=loop)
    busy.start()
    try:
        same(compared.__wrapped__(names=("NCA",)), expected)
    finally:
        done.set()
        busy.join()
        sys.setswitchinterval(before)


def test_auto_metric(monkeypatch):
    panel = {"LMNN": LMNN(max_iter=10), "LDA": LDA(shrinkage="auto")}
    for name in ("cross_validation.planning", "auto_metric"):
        monkeypatch.setattr(f"mahala.evaluation.{name}.default_panel", lambda *_, **__: panel)
    monkeypatch.setattr("mahala.evaluation.cross_validation.planning.auto_repeats", lambda *_: 1)
    fits = []
    for n_threads in (1, 2):
        with mahala.config_context(n_threads=n_threads):
            fitted = AutoMetric(budget=None, random_state=0).fit(X[:60], Y[:60])
            fits.append((fitted.chosen_, fitted.verdict_, fitted.metric_.matrix))
    assert fits[0][:2] == fits[1][:2]
    np.testing.assert_allclose(fits[0][2], fits[1][2], rtol=1e-9, atol=1e-12)  # BLAS may round in another way


def test_teacher():
    taught = []
    for n_threads in (1, 2):
        with mahala.config_context(n_threads=n_threads):
            teacher = Teacher(X, random_state=0)
            for _ in range(25):
                query, a, b = teacher.ask()
                teacher.answer(query, a, b, nearer=a if abs(X[a, 0] - X[query, 0]) < abs(X[b, 0] - X[query, 0]) else b)
            taught.append((teacher.answers_.anchor.tolist(), teacher.metric_.matrix.tolist(), teacher.verdict_))
    assert taught[0] == taught[1]
