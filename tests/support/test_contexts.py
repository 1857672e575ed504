"""Time limits stop fits with what they have learned."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import mahala
from mahala.support import contexts
from mahala.support.contexts import COMPILING, interrupts_kept, one_at_a_time, one_blas_thread, out_of_time, time_limit
from mahala.support.lazily import sklearn_checks

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


SENDER = """
import os, random, signal, sys, time
for line in sys.stdin:
    time.sleep(random.uniform(0, 1e-3))
    os.kill(os.getppid(), signal.SIGINT)
"""


def test_a_context_that_ends_in_another_thread_leaves_the_thread_count_to_the_next_one():
    """OpenBLAS 0.3.30 ignores the other thread's call."""
    contexts._libraries.cache_clear()  # other tests may have loaded one more
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


@pytest.mark.skipif(os.name != "posix", reason="needs signals between processes")
def test_interrupts_leave_no_lock_and_no_thread_count_behind():
    """At any moment, also while a context is entered or left."""

    class Counter:
        @one_at_a_time
        @one_blas_thread()
        def count(self):
            with one_blas_thread():
                return 1

    counter, held = Counter(), []

    def count_until_interrupted(sender):
        sender.stdin.write("\n")
        sender.stdin.flush()
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            counter.count()

    with threadpool_limits(2, user_api="blas"):
        before = [library.num_threads for library in ThreadpoolController().lib_controllers]
        with subprocess.Popen([sys.executable, "-c", SENDER], stdin=subprocess.PIPE, text=True) as sender:
            for _ in range(100):
                with pytest.raises(KeyboardInterrupt):
                    count_until_interrupted(sender)
                thread = threading.Thread(target=lambda: held.append(counter.count()), daemon=True)
                thread.start()
                thread.join(10.0)
                assert not thread.is_alive()
                counter.count()  # ends what Ctrl-C kept from ending
                assert [library.num_threads for library in ThreadpoolController().lib_controllers] == before
    assert len(held) == 100


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("learner", [mahala.AdaSORS(n_triplets=5), mahala.NCA(max_iter=1)], ids=repr)
def test_ctrl_c_in_a_finalizer_is_not_lost(learner, labelled, monkeypatch):
    """Python drops what a finalizer raises; one ran in the first fit of a process, within scikit-learn's check."""

    class Interrupting:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    check = sklearn_checks.validate_data
    monkeypatch.setattr(
        sklearn_checks, "validate_data", lambda *rows, **named: Interrupting() and check(*rows, **named)
    )
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(*labelled)
    assert not hasattr(learner, "metric_")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_does_not_raise_is_called_in_a_fit():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *given: calls.append(given))
    try:
        with interrupts_kept():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) == 2


def test_a_thread_in_a_tight_loop_does_not_overtake_one_that_waits():
    class Counter:
        n_writes = 0

        @one_at_a_time
        def write(self):
            self.n_writes += 1
            if self.n_writes == 1:
                reader.start()
                time.sleep(0.05)  # the reader waits by then

        @one_at_a_time
        def read(self):
            counts.append(self.n_writes)

    counts: list[int] = []
    counter = Counter()
    reader = threading.Thread(target=counter.read)
    for _ in range(1000):
        counter.write()
    reader.join()
    assert counts == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_an_object_in_use_by_another_thread_is_refused_after_a_fork():
    """The child has the object, maybe half changed, but not the thread that would release its lock."""

    class Counter:
        @one_at_a_time
        def wait(self, begun, end):
            begun.set()
            end.wait()

        @one_at_a_time
        def count(self):
            return 1

    busy, idle = Counter(), Counter()
    begun, end = threading.Event(), threading.Event()
    idle.count()
    thread = threading.Thread(target=busy.wait, args=(begun, end))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        code = 3
        with suppress(BaseException):
            try:
                busy.count()
            except RuntimeError as error:
                code = 0 if "another thread used this object" in str(error) and idle.count() == 1 else 4
        os._exit(code)
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert busy.count() == 1
