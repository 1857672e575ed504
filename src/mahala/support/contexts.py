"""Restore attributes on errors, defer Ctrl-C, let threads wait for each other, and limit BLAS to one thread."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from types import FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

_MAIN = threading.main_thread()
try:  # the function without its conversion to enumerations, which costs more than a step
    from _signal import signal as _set_handler  # type: ignore[import-not-found]
except ImportError:  # another interpreter
    _set_handler = signal.signal

_lock = threading.Lock()
_depth = 0
_before: list[int] = []


@contextmanager
def all_or_nothing(instance: object) -> Iterator[None]:
    """Restore the attributes of an object if the block raises an exception, KeyboardInterrupt included."""
    before = dict(vars(instance))
    try:
        yield
    except BaseException:
        values = vars(instance)
        values.update(before)  # first, so that the lock of the object is never missing
        for name in [name for name in values if name not in before]:
            del values[name]
        raise


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Lock:
    """A lock that its own thread may take again, and that is not copied or pickled with the object it guards."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[_Lock], tuple[()]]:
        return _Lock, ()


def one_at_a_time(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Decorate methods of which only one runs at a time on an object; other threads wait until it is done."""

    @functools.wraps(method)
    def locked(self: T, *args: P.args, **kwargs: P.kwargs) -> R:
        values: Any = vars(self)
        # setdefault is atomic: threads that come at the same time get the same lock.
        with values.get("_one_at_a_time") or values.setdefault("_one_at_a_time", _Lock()):
            return method(self, *args, **kwargs)

    return locked  # type: ignore[return-value]


class uninterrupted:
    """A context in which Ctrl-C waits for the end of the block, so that a model never disagrees with its counters.

    It is a class, not a generator: `learn_one` enters it for each comparison.
    """

    __slots__ = ("_before", "_waiting")

    def __enter__(self) -> None:
        self._waiting = False
        self._before: Any = None
        if threading.current_thread() is _MAIN:
            self._before = _set_handler(signal.SIGINT, self._defer) or signal.SIG_DFL

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            _set_handler(signal.SIGINT, self._before)
            if self._waiting:
                signal.raise_signal(signal.SIGINT)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        self._waiting = True


class one_blas_thread(ContextDecorator):
    """A context in which BLAS runs on one thread; contexts may be nested and may overlap between threads.

    The products of a stream are small: on a busy machine two threads wait for each other and take 70 times as long.
    Also the last bits of a factorisation depend on the number of threads. It is a decorator, too.
    """

    def __enter__(self) -> None:
        global _depth
        with _lock:
            _depth += 1
            if _depth == 1:
                _before[:] = [library.get_num_threads() for library in _libraries()]
                _set([1] * len(_before))

    def __exit__(self, *exception: object) -> None:
        global _depth
        with _lock:
            _depth -= 1
            if _depth == 0:
                _set(_before)


@functools.cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set(counts: list[int]) -> None:
    for library, before, count in zip(_libraries(), _before, counts, strict=True):
        if before != 1:
            library.set_num_threads(count)


def _forget() -> None:
    """Begin anew in a forked process: its threads are gone, and what they held will not be released."""
    global _lock, _depth
    _lock = threading.Lock()
    if _depth:
        _depth = 0
        _set(_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
