"""Limits of fits: one thread of BLAS, an amount of time, the first Ctrl-C, work that is too little for a kernel."""

import functools
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from threadpoolctl import ThreadpoolController

from mahala.support.signals import uninterrupted

_LOG = logging.getLogger("mahala")
NOTICE = "compiling kernels, once per installation; `mahala warm-up` does it ahead"

# Up to so much work since a stream began, counted in multiplications, states take their steps in NumPy: it takes less
# time than to import Numba and to load or compile a kernel.
FEW_STEPS_WORK = 2**28
# Multiplications that take as long as the calls of a step.
CALLS_WORK = 2**16

_lock = threading.Lock()
# The outermost context of each thread in which BLAS has one thread, and the function that entered it.
_limited: dict[int, tuple["one_blas_thread", FrameType]] = {}
_before: list[int] = []  # the numbers of threads outside of them; empty outside


class one_blas_thread(ContextDecorator):
    """A context in which BLAS runs on one thread; contexts may be nested and may overlap between threads.

    The products of a stream are small: on a busy machine two threads wait for each other and take 70 times as long.
    Also the last bits of a factorisation depend on the number of threads. It is a decorator, too. Ctrl-C may come
    as `__exit__` begins: such a context ends with the next one of its thread that is not inside of another.
    """

    def _recreate_cm(self) -> "one_blas_thread":
        return one_blas_thread()  # each call of a decorated function is a context of its own

    def __enter__(self) -> None:
        thread, frame = threading.get_ident(), sys._getframe(1)
        held = _limited.get(thread)
        self._is_outermost = held is None or not _is_running(held[1], frame)
        if not self._is_outermost:  # as in most products of a fit, of which there are thousands
            return
        try:
            with uninterrupted(), _lock:
                _limited[thread] = self, frame
                if not _before:
                    _before.extend(library.get_num_threads() for library in _libraries())
                _set([1] * len(_before))
        except BaseException:  # Ctrl-C that waited
            self.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        if not self._is_outermost:
            return
        with uninterrupted(), _lock:
            if _limited.get(threading.get_ident(), (None,))[0] is self:
                del _limited[threading.get_ident()]
            if _before and not _limited and _set(_before):
                _before.clear()


def _is_running(wanted: FrameType, frame: FrameType | None) -> bool:
    """Return whether a frame is another one, or has called it."""
    while frame is not None and frame is not wanted:
        frame = frame.f_back
    return frame is wanted


@functools.cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set(counts: list[int]) -> bool:
    """Set the numbers of threads; return whether they are so: OpenBLAS ignores some calls from threads but the main."""
    rows = zip(_libraries(), counts, _before, strict=True)
    changes = [(library, count) for library, count, before in rows if before != 1]
    for library, count in changes:
        library.set_num_threads(count)
    return all(library.get_num_threads() == count for library, count in changes)


def _forget() -> None:
    """Begin anew in a forked process: its threads are gone, and their contexts will not end."""
    global _lock
    _lock = threading.Lock()
    _limited.clear()
    if _before:
        _set(_before)
    _before.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


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


class TimeLimit:
    """A point in time, and whether it has stopped anything."""

    def __init__(self, seconds: float, clock: Callable[[], float], outer: "TimeLimit | None" = None) -> None:
        self._clock = clock
        self._outer = outer
        self._end = clock() + seconds
        self.stopped = False

    def end(self) -> None:
        """Let the time be over now."""
        self._end = -math.inf

    def reached(self) -> bool:
        """Return whether the time is over; the caller must stop then."""
        self.stopped |= self._clock() >= self._end or (self._outer is not None and self._outer.reached())
        return self.stopped


_in_block: ContextVar[TimeLimit | None] = ContextVar("mahala_time_limit", default=None)


@contextmanager
def time_limit(seconds: float | None, clock: Callable[[], float] | None = None) -> Iterator[TimeLimit]:
    """Stop the fits in the block that are not finished after so many seconds, if any, with what they have learned.

    Batch learners stop after the iteration in which the time ends, online learners after a chunk of steps; learners in
    closed form are not stopped. The clock stands still while functions are compiled, unless another is given. Inside of
    another limit the first one counts, but None lifts it.

    >>> with time_limit(0.0) as limit:
    ...     out_of_time(), limit.stopped
    (True, True)
    """
    outer = None if seconds is None else _in_block.get()
    limit = TimeLimit(math.inf if seconds is None else seconds, clock or COMPILING.working_time, outer)
    token = _in_block.set(limit)
    try:
        yield limit
    finally:
        _in_block.reset(token)


@contextmanager
def stopped_by_ctrl_c(notify: Callable[[], object]) -> Iterator[TimeLimit]:
    """Stop the fits in the block after Ctrl-C, with what they have learned; a second Ctrl-C interrupts them at once.

    `notify` is called at the first one. In threads other than the main one, Ctrl-C does what it always does.
    """
    with time_limit(None) as limit:
        if threading.current_thread() is not threading.main_thread():
            yield limit
            return

        def handle(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, before)
            limit.end()
            notify()

        before = signal.signal(signal.SIGINT, handle)
        try:
            yield limit
        finally:
            signal.signal(signal.SIGINT, before)


def has_been_stopped() -> bool:
    """Whether a time limit has stopped something in this block."""
    limit = _in_block.get()
    return limit is not None and limit.stopped


def out_of_time() -> bool:
    """Whether a time limit asks the caller to stop."""
    limit = _in_block.get()
    return limit is not None and limit.reached()


def are_few(n_steps: int, work: float) -> bool:
    """Whether so many steps of so many multiplications are too few for a kernel."""
    return n_steps <= most_steps(work)


def most_steps(work: float) -> int:
    """Return how many steps of so many multiplications are too few for a kernel."""
    return int(FEW_STEPS_WORK / (CALLS_WORK + work))
