"""Learning in the background: in a thread, or in a process of its own that takes no time from the one that serves."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable

from threadpoolctl import threadpool_limits

from mahala_search.serve.store.checkpoints import Checkpoints
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.database import Unavailable

log = logging.getLogger("mahala_search")

# By how much the process that serves comes first where there are fewer cores than threads.
_NICE = 3
# Seconds between two looks whether the process that learns still runs.
_POLL = 0.1
# Fewer than where it serves: SQLite's file is tidied up here, while no request waits.
_MOST_PAGES = 1000


class LearningThread:
    """Learns in all collections while this process has the lease, until it is closed.

    `problem` says why it cannot learn at the moment, and `on_change` is called with it when it changes.
    """

    def __init__(
        self, store: Store, checkpoints: Checkpoints, on_change: Callable[[str | None], None] = lambda problem: None
    ) -> None:
        self._store, self._checkpoints, self._on_change = store, checkpoints, on_change
        self.problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mahala-learning", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from mahala_search.serve.learning.learners import (
            Learning,  # here: to load it takes longer than to start serving
        )

        learning = Learning(self._store, self._checkpoints)
        while not self._stop.is_set():
            problem = None
            try:
                pause = learning.step()
            except Unavailable as error:
                problem, pause = f"learning waits: {error}", 1.0
            except Exception:  # the service continues with what was learned so far
                log.exception("learning failed, and begins again at the last checkpoint")
                learning = Learning(self._store, self._checkpoints)
                pause = 1.0
            if problem != self.problem:  # not again and again
                log.warning("%s", problem or "learning continues")
                self.problem = problem
                self._on_change(problem)
            self._stop.wait(pause)
        with contextlib.suppress(Unavailable):
            learning.close()

    def close(self) -> None:
        """Stop learning, and let another process begin."""
        self._stop.set()
        self._thread.join()
        try:
            self._checkpoints.give_up_lease()
        except Unavailable:
            log.warning("the lease could not be given up; it expires by itself")


class LearningProcess:
    """Learns in all collections while no other process does; it is started again if it ends by itself.

    It stops when it is closed, and also when the process that started it is killed: then its input ends. It takes the
    lease in the name of that process.
    """

    def __init__(self, address: str, checkpoints: Checkpoints) -> None:
        # Not as arguments, which everyone on the machine can read: an address may have a password.
        self._address = json.dumps([address, checkpoints.seconds, checkpoints.holder])
        self.problem: str | None = None
        self._stop = threading.Event()
        self._child: subprocess.Popen[str]
        self._thread = threading.Thread(target=self._run, name="mahala-learning", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        command = [sys.executable, "-m", "mahala_search.serve.learning.worker"]
        while not self._stop.is_set():
            # Its input is closed at the end of the block. One that has ended before it was read is started again.
            with (
                contextlib.suppress(BrokenPipeError),
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as self._child,
            ):
                assert self._child.stdin is not None
                listener = threading.Thread(target=self._listen, args=(self._child.stdout,), daemon=True)
                listener.start()
                try:
                    print(self._address, file=self._child.stdin, flush=True)
                    while self._child.poll() is None and not self._stop.wait(_POLL):
                        pass
                    self._child.stdin.close()
                finally:
                    listener.join()  # its file must not be closed while it reads
            if not self._stop.is_set():
                log.warning("the learning process ended with the code %d, and is started again", self._child.returncode)
            self._stop.wait(1.0)

    def _listen(self, lines: Iterable[str]) -> None:
        """Take in the problems that the process reports."""
        for line in lines:
            self.problem = json.loads(line)

    def close(self) -> None:
        """Stop learning, and let another process begin."""
        self._stop.set()
        self._thread.join()


def main() -> None:
    """Learn until the input ends; its first line names the database."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the serving process handles Ctrl-C
    if hasattr(os, "nice"):
        os.nice(_NICE)
    threadpool_limits(1, "blas")  # the matrices are small, and other cores have other work
    address, seconds, holder = json.loads(sys.stdin.readline())
    try:
        store = Store(address, most_pages=_MOST_PAGES, create=False)
    except Unavailable as error:
        sys.exit(str(error))
    checkpoints = Checkpoints(store.database, seconds, holder)
    learning = LearningThread(store, checkpoints, lambda problem: print(json.dumps(problem), flush=True))
    sys.stdin.read()
    learning.close()
    store.close()


if __name__ == "__main__":
    main()
