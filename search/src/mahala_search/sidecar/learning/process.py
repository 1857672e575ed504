"""The process that learns, asks resolvers for vectors, and takes no time from those that serve."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from mahala_search.sidecar.records import Unavailable
from mahala_search.sidecar.store.checkpoints import Checkpoints
from mahala_search.sidecar.store.store import Store

log = logging.getLogger("mahala_search")

# By how much the processes that serve come first where there are fewer cores than threads.
_NICE = 10
# Seconds between two looks whether there is something to learn, and between two looks for what is too old.
_POLL, _PRUNING = 0.5, 60.0
# The matrices are small, and other cores have other work. A limit that is set later misses libraries loaded after it.
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}


class LearnerProcess:
    """Learns in a process of its own, which is started once there is something to learn and no other host learns.

    It is started again if it ends by itself. It stops when it is closed, and also when the process that started it is
    killed: then its input ends. What is older than the retention of its space is deleted here as well.

    Parameters
    ----------
    address : of the database
    seconds : for which the right to learn holds, unless it is renewed
    """

    def __init__(self, address: str, seconds: float = 3.0) -> None:
        self._address, self._store = address, Store(address)
        self._checkpoints = Checkpoints(self._store.database, seconds)
        self.child: subprocess.Popen[str] | None = None
        self._stop = threading.Event()
        self._pruning = 0.0
        self._thread = threading.Thread(target=self._run, name="mahala-learning", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_POLL):
            with contextlib.suppress(Unavailable):  # the processes that serve say so
                self._prune()
                if self._has_work() and self._checkpoints.take_lease() is not None:
                    self._learn()

    def _prune(self) -> None:
        if time.monotonic() >= self._pruning and self._store.prune(time.time()) == 0:
            self._pruning = time.monotonic() + _PRUNING

    def _has_work(self) -> bool:
        """Return whether something is to be learned, resolved or copied."""
        for space in self._store.spaces().values():
            progress = self._store.progress(space.id)
            resolves = space.settings.resolver is not None and progress["missing"]
            if progress["learned"] < progress["logged"] or resolves or space.successor is not None:
                return True
        return False

    def _learn(self) -> None:
        """Run the process until it ends, or until this is closed."""
        command = [sys.executable, "-m", "mahala_search.sidecar.learning.process"]
        options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": os.environ | _ONE_THREAD}
        # Its input is closed at the end of the block. One that has ended before it was read is started again.
        with contextlib.suppress(BrokenPipeError), subprocess.Popen(command, text=True, **options) as child:
            self.child = child
            assert child.stdin is not None
            assert child.stdout is not None
            starting = threading.Thread(target=child.stdout.readline, daemon=True)
            starting.start()
            try:
                # Not as arguments, which everyone on the machine can read: an address may have a password.
                print(
                    json.dumps([self._address, self._checkpoints.seconds, self._checkpoints.holder]), file=child.stdin
                )
                child.stdin.flush()
                while child.poll() is None and not self._stop.wait(_POLL):
                    if starting.is_alive():  # then it renews the lease itself
                        self._checkpoints.take_lease()
                    self._prune()
            finally:
                with contextlib.suppress(BrokenPipeError):
                    child.stdin.close()
                starting.join()  # its file must not be closed while it reads
        if child.returncode != 0:
            log.warning("the learning process ended with the code %d, and is started again", child.returncode)

    def close(self) -> None:
        """Stop learning, and let another host begin."""
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(Unavailable):  # it expires by itself
            self._checkpoints.give_up_lease()
        self._store.close()


def main() -> None:
    """Learn until the input ends or another host has the lease; the first line of the input names the database."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the serving process handles Ctrl-C
    if hasattr(os, "nice"):
        os.nice(_NICE)
    address, seconds, holder = json.loads(sys.stdin.readline())
    try:
        store = Store(address, create=False)
    except Unavailable as error:
        sys.exit(str(error))
    stop = threading.Event()
    threading.Thread(target=_stop_at_end, args=(stop,), daemon=True).start()
    learn(store, Checkpoints(store.database, seconds, holder), stop)
    store.close()


def _stop_at_end(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def learn(store: Store, checkpoints: Checkpoints, stop: threading.Event) -> None:
    """Learn and resolve until `stop` is set or the lease is lost; print a line once it has begun, and log problems."""
    from mahala_search.sidecar.learning.learning import Learning
    from mahala_search.sidecar.learning.resolving import Resolving

    learning, said = Learning(store, checkpoints), {"": ""}  # what another process has written is looked at
    with contextlib.closing(Resolving(store)) as resolving:
        resolving.start()
        print("learning", flush=True)
        while not stop.is_set():
            problems = dict[str, str]()
            try:
                pause = learning.step()
            except Unavailable as error:
                problems, pause = {"the database": str(error)}, 1.0
            except Exception:  # serving continues with what was learned so far
                log.exception("learning failed, and begins again at the last checkpoint")
                learning, pause = Learning(store, checkpoints), 1.0
            else:
                if learning.fence is None:
                    return
            problems |= learning.problems | resolving.problems
            for name, problem in problems.items() - said.items():
                log.warning("learning waits for %s: %s", name, problem)
            with contextlib.suppress(Unavailable):
                if problems != said:
                    store.set_problems(problems)
                said = problems
            stop.wait(pause)
    with contextlib.suppress(Unavailable):
        learning.close()


if __name__ == "__main__":
    main()
