"""One method at a time runs on an object, whatever interrupts it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from mahala.support.limits import one_blas_thread
from mahala.support.locking import one_at_a_time

SENDER = """
import os, random, signal, sys, time
for line in sys.stdin:
    time.sleep(random.uniform(0, 1e-3))
    os.kill(os.getppid(), signal.SIGINT)
"""


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


def test_threads_wait_for_each_other():
    class Counter:
        n = 0

        @one_at_a_time
        def count(self):
            before = self.n
            time.sleep(0.001)
            self.again(before)

        @one_at_a_time
        def again(self, before):  # by the thread that has the lock
            self.n = before + 1

    counter = Counter()
    threads = [threading.Thread(target=lambda: [counter.count() for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.n == 80


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
