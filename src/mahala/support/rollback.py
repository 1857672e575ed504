"""Restore attributes if an operation fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def all_or_nothing(instance: object) -> Iterator[None]:
    """Restore the attributes of an object if the block raises an exception, KeyboardInterrupt included."""
    before = dict(vars(instance))
    try:
        yield
    except BaseException:
        vars(instance).clear()
        vars(instance).update(before)
        raise
