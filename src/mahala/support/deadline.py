"""A time limit for the fits in a block of code, or Ctrl-C, after which they stop with what they have."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from mahala.support.compiling import COMPILING


class TimeLimit:
    """A point in time, and whether it has stopped anything."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self.stopped = False

    def end(self) -> None:
        """Let the time be over now."""
        self._end = -math.inf

    def reached(self) -> bool:
        """Whether the time is over; whoever asks must stop then."""
        self.stopped |= self._clock() >= self._end
        return self.stopped


_in_block: ContextVar[TimeLimit | None] = ContextVar("mahala_time_limit", default=None)


@contextmanager
def time_limit(seconds: float | None, clock: Callable[[], float] | None = None) -> Iterator[TimeLimit]:
    """Stop the fits in the block that are not finished after so many seconds, if any, with what they have learned.

    Batch learners stop after the iteration in which the time ends, online learners after a chunk of steps; learners in
    closed form are not stopped. The clock stands still while functions are compiled, unless another is given.

    >>> with time_limit(0.0) as limit:
    ...     out_of_time(), limit.stopped
    (True, True)
    """
    limit = TimeLimit(math.inf if seconds is None else seconds, clock or COMPILING.working_time)
    token = _in_block.set(limit)
    try:
        yield limit
    finally:
        _in_block.reset(token)


@contextmanager
def stopped_by_ctrl_c(told: Callable[[], object]) -> Iterator[TimeLimit]:
    """Stop the fits in the block after Ctrl-C, with what they have learned; a second Ctrl-C interrupts them at once.

    `told` is called at the first one. In threads other than the main one, Ctrl-C does what it always does.
    """
    with time_limit(None) as limit:
        if threading.current_thread() is not threading.main_thread():
            yield limit
            return

        def handle(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, before)
            limit.end()
            told()

        before = signal.signal(signal.SIGINT, handle)
        try:
            yield limit
        finally:
            signal.signal(signal.SIGINT, before)


def out_of_time() -> bool:
    """Whether a time limit asks the caller to stop."""
    limit = _in_block.get()
    return limit is not None and limit.reached()
