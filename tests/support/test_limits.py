"""Limits stop fits with what they have learned, and leave the numbers of threads as they were."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import mahala
from mahala.support import limits
from mahala.support.limits import COMPILING, one_blas_thread, out_of_time, time_limit

ENDLESS = {
    "ITML": mahala.ITML(max_iter=10**6, tol=0.0, random_state=0),
    "NCA": mahala.NCA(max_iter=10**6, tol=0.0, random_state=0),
    "LMNN": mahala.LMNN(max_iter=10**6, tol=0.0),
    "GML": mahala.GML(max_iter=10**6, tol=0.0, random_state=0),
    "BoostMetric": mahala.BoostMetric(max_iter=10**6),
}


@pytest.fixture
def clock(monkeypatch):
    """A clock on which a second passes whenever it is read."""
    seconds = itertools.count()
    monkeypatch.setattr(COMPILING, "working_time", lambda: float(next(seconds)))


@pytest.mark.parametrize("name", list(ENDLESS))
def test_a_batch_learner_stops_after_the_iteration(name, labelled, clock):
    with time_limit(2.5) as limit:
        learner = ENDLESS[name].fit(*labelled)
    assert learner.stop_reason_ == "time"
    assert 2 <= learner.n_iter_ <= 3
    assert limit.stopped
    assert np.isfinite(learner.metric_.matrix).all()


def test_an_online_learner_stops_after_a_chunk(labelled, clock):
    with time_limit(0.5) as limit:
        learner = mahala.PA(n_steps=10**5, random_state=0).fit(*labelled)
    assert 0 < learner.n_steps_ < 10**5
    assert limit.stopped
    assert learner.metric_.is_psd


def test_another_clock():
    seconds = iter([0.0, 1.0, 3.0])
    with time_limit(2.0, lambda: next(seconds)):
        assert [out_of_time(), out_of_time()] == [False, True]


def test_a_callback_that_stops_is_no_time_limit(labelled):
    learner = mahala.NCA(callback=lambda iteration: True)
    with time_limit(1e9) as limit:
        learner.fit(*labelled)
    assert learner.stop_reason_ == "callback"
    assert not limit.stopped


def test_there_is_no_limit_outside_of_a_block():
    with time_limit(0.0):
        with time_limit(None):
            assert not out_of_time()
        assert out_of_time()
    assert not out_of_time()


def test_compiling_takes_no_time():
    with time_limit(0.05):
        COMPILING.start()
        time.sleep(0.1)
        assert not out_of_time()
        COMPILING.end()
        assert not out_of_time()
        time.sleep(0.1)
        assert out_of_time()


def test_a_context_that_ends_in_another_thread_leaves_the_thread_count_to_the_next_one():
    """OpenBLAS 0.3.30 ignores the other thread's call."""
    limits._libraries.cache_clear()  # other tests may have loaded one more
    entered, end = threading.Event(), threading.Event()

    def wait():
        with one_blas_thread():
            entered.set()
            end.wait()

    with threadpool_limits(2, user_api="blas"):
        before = [library.num_threads for library in ThreadpoolController().lib_controllers]
        thread = threading.Thread(target=wait)
        with one_blas_thread():
            thread.start()
            entered.wait()
        end.set()
        thread.join()
        with one_blas_thread():
            libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            assert {library.num_threads for library in libraries} <= {1}
        assert [library.num_threads for library in ThreadpoolController().lib_controllers] == before
