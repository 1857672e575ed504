"""Methods of which one runs at a time on an object, and changes that are made whole or not at all."""

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


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


_locks: weakref.WeakSet["_Lock"] = weakref.WeakSet()


class _Lock:
    """A lock that is not copied or pickled with the object it guards.

    A thread that waits for `lock` holds `gate`. One that has released the lock needs the gate to take it again, and so
    cannot overtake, however tight its loop is.
    """

    __slots__ = ("__weakref__", "gate", "is_lost", "lock")

    def __init__(self) -> None:
        self.gate, self.lock = threading.Lock(), threading.RLock()
        self.is_lost = False  # whether a thread that this process does not have holds it
        _locks.add(self)

    def after_fork(self) -> None:
        """Notice in a forked process that a thread of the other process holds the lock, and will not release it."""
        self.gate = threading.Lock()  # who waited is not there, either
        if self.lock.acquire(blocking=False):
            self.lock.release()
        else:
            self.is_lost = True

    def __reduce__(self) -> tuple[type["_Lock"], tuple[()]]:
        return _Lock, ()


def one_at_a_time(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Decorate methods of which only one runs at a time on an object; other threads wait until it is done."""

    @functools.wraps(method)
    def locked(self: T, *args: P.args, **kwargs: P.kwargs) -> R:
        values: Any = vars(self)
        # setdefault is atomic: threads that come at the same time get the same lock.
        guard = values.get("_one_at_a_time") or values.setdefault("_one_at_a_time", _Lock())
        if guard.is_lost:
            problem = "another thread used this object when the process was forked, so it may be half changed"
            raise RuntimeError(f"{problem}: fork before that, or load it from a file")
        lock = guard.lock
        if lock._is_owned():  # by the method that calls this one
            return method(self, *args, **kwargs)
        # Ctrl-C may come after any call, but not between `finally` and `release`.
        try:
            with guard.gate:
                lock.acquire()
            return method(self, *args, **kwargs)
        finally:
            try:  # noqa: SIM105  (`suppress` is a call)
                lock.release()
            except RuntimeError:  # Ctrl-C came while it waited for the lock
                pass

    return locked  # type: ignore[return-value]


def _notice_fork() -> None:
    for lock in _locks:
        lock.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_notice_fork)
