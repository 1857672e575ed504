"""Methods of which one runs at a time on an object, and changes that are made whole or not at all."""

import functools
import os
import threading
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


# Seconds after which a thread that waits looks whether the lock was lost in a fork.
_PATIENCE = 1.0


class _Lock:
    """A lock that is not copied or pickled with the object it guards, and the process that took it last."""

    __slots__ = ("lock", "process")

    def __init__(self) -> None:
        self.lock, self.process = threading.RLock(), os.getpid()

    def __reduce__(self) -> tuple[type["_Lock"], tuple[()]]:
        return _Lock, ()


def one_at_a_time(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Decorate methods of which only one runs at a time on an object; other threads wait until it is done."""

    @functools.wraps(method)
    def locked(self: T, *args: P.args, **kwargs: P.kwargs) -> R:
        values: Any = vars(self)
        # setdefault is atomic: threads that come at the same time get the same lock.
        guard = values.get("_one_at_a_time") or values.setdefault("_one_at_a_time", _Lock())
        lock = guard.lock
        if lock._is_owned():  # by the method that calls this one
            return method(self, *args, **kwargs)
        # Ctrl-C may come after any call, but not between `finally` and `release`.
        try:
            while not lock.acquire(True, _PATIENCE):
                if guard.process != os.getpid():  # a thread of the other process holds it, and will not release it
                    problem = "another thread used this object when the process was forked, so it may be half changed"
                    raise RuntimeError(f"{problem}: fork before that, or load it from a file")
            guard.process = os.getpid()
            return method(self, *args, **kwargs)
        finally:
            try:  # noqa: SIM105  (`suppress` is a call)
                lock.release()
            except RuntimeError:  # it was not taken
                pass

    return locked  # type: ignore[return-value]
