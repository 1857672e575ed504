"""LearningThread: learning in the background of a process that serves."""

from __future__ import annotations

import logging
import threading

from mahala.serve.store.checkpoints import Checkpoints
from mahala.serve.store.database import Unavailable
from mahala.serve.store.store import Store

log = logging.getLogger("mahala.serve")


class LearningThread:
    """Learns in all collections while this process has the lease, until it is closed."""

    def __init__(self, store: Store, checkpoints: Checkpoints) -> None:
        self._parts = store, checkpoints
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mahala-learning", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from mahala.serve.learning.learning import Learning  # here, because that takes longer than to start serving

        learning = Learning(*self._parts)
        while not self._stop.is_set():
            try:
                pause = learning.step()
            except Unavailable as error:
                log.warning("learning waits: %s", error)
                pause = 1.0
            except Exception:  # the service continues with what was learned so far
                log.exception("learning failed, and begins again at the last checkpoint")
                learning = Learning(*self._parts)
                pause = 1.0
            self._stop.wait(pause)

    def close(self) -> None:
        """Stop learning, and let another process begin."""
        self._stop.set()
        self._thread.join()
        try:
            self._parts[1].give_up_lease()
        except Unavailable:
            log.warning("the lease could not be given up; it expires by itself")
