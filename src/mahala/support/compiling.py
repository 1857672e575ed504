"""What Numba compiles, told to those who show progress, and the time that it takes. Numba itself is not imported."""

from __future__ import annotations

import logging
import threading
import time

_LOG = logging.getLogger("mahala")
NOTICE = "compiling kernels, once per installation; `mahala warm-up` does it ahead"


class Compiling:
    """Counts the functions that are compiled, and the seconds during which any thread compiles.

    A function and those that it calls count as one. The first one of a process is logged as information by the logger
    "mahala".
    """

    def __init__(self) -> None:
        self.n_compiled = 0
        self._lock = threading.Lock()
        self._depth = 0  # a function compiles those that it calls
        self._begin = 0.0
        self._seconds = 0.0

    def start(self) -> None:
        """A compilation begins."""
        with self._lock:
            first = self.n_compiled == self._depth == 0
            if self._depth == 0:
                self._begin = time.monotonic()
            self._depth += 1
        if first:
            _LOG.info(NOTICE)

    def end(self) -> None:
        """A compilation has ended."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self.n_compiled += 1
                self._seconds += time.monotonic() - self._begin

    @property
    def active(self) -> bool:
        """Whether a function is being compiled."""
        return self._depth > 0

    @property
    def seconds(self) -> float:
        """The seconds spent so far, those of what is being compiled included."""
        with self._lock:
            return self._seconds + (time.monotonic() - self._begin if self._depth else 0.0)

    def working_time(self) -> float:
        """Return a clock in seconds that stands still while functions are compiled."""
        return time.monotonic() - self.seconds


# Of this process; `compiled/jit.py` keeps it.
COMPILING = Compiling()
