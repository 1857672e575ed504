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
from collections.abc import Iterable
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
        self.problem: str | None = None
        self.child: subprocess.Popen[str] | None = None
        self._stop = threading.Event()
        self._is_ready = False  # whether the process has begun to learn, and renews the lease itself
        self._pruning = 0.0
        self._thread = threading.Thread(target=self._run, name="mahala-learning", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_POLL):
            try:
                self._prune()
                if self._has_work() and self._checkpoints.take_lease() is not None:
                    self._learn()
            except Unavailable as error:
                self.problem = f"learning waits: {error}"

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
        self._is_ready = False
        options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": os.environ | _ONE_THREAD}
        # Its input is closed at the end of the block. One that has ended before it was read is started again.
        with contextlib.suppress(BrokenPipeError), subprocess.Popen(command, text=True, **options) as child:
            self.child = child
            assert child.stdin is not None
            assert child.stdout is not None
            listener = threading.Thread(target=self._listen, args=(child.stdout,), daemon=True)
            listener.start()
            try:
                # Not as arguments, which everyone on the machine can read: an address may have a password.
                print(
                    json.dumps([self._address, self._checkpoints.seconds, self._checkpoints.holder]), file=child.stdin
                )
                child.stdin.flush()
                while child.poll() is None and not self._stop.wait(_POLL):
                    if not self._is_ready:
                        self._checkpoints.take_lease()
                    self._prune()
            finally:
                with contextlib.suppress(BrokenPipeError):
                    child.stdin.close()
                listener.join()  # its file must not be closed while it reads
        if child.returncode != 0:
            log.warning("the learning process ended with the code %d, and is started again", child.returncode)

    def _listen(self, lines: Iterable[str]) -> None:
        """Take in the problems that the process reports."""
        for line in lines:
            self._is_ready, self.problem = True, json.loads(line)

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
    """Learn and resolve until `stop` is set or the lease is lost; print problems as JSON when they change."""
    from mahala_search.sidecar.learning.learning import Learning
    from mahala_search.sidecar.learning.resolving import Resolving

    learning, said = Learning(store, checkpoints), object()
    with contextlib.closing(Resolving(store)) as resolving:
        resolving.start()
        while not stop.is_set():
            problem = None
            try:
                pause = learning.step()
            except Unavailable as error:
                problem, pause = f"learning waits: {error}", 1.0
            except Exception as error:  # serving continues with what was learned so far
                log.exception("learning failed, and begins again at the last checkpoint")
                problem, pause = f"learning failed: {error!r}", 1.0
                learning = Learning(store, checkpoints)
            else:
                if learning.fence is None:
                    return
            problems = [f"space {name}: {text}" for name, text in (learning.problems | resolving.problems).items()]
            problem = problem or "; ".join(problems) or None
            if problem != said:
                print(json.dumps(problem), flush=True)
                said = problem
            stop.wait(pause)
    with contextlib.suppress(Unavailable):
        learning.close()


if __name__ == "__main__":
    main()
