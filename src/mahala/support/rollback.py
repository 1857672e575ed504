"""What fails halfway leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Rollback:
    """An object whose attributes can be put back to what they were."""

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """What fails, or is interrupted, leaves the object as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
