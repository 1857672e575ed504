"""Limit BLAS to one thread while small products are computed."""

from __future__ import annotations

import functools
import threading
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_depth = 0
_before: list[int] = []


@functools.cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


class one_blas_thread:
    """A context in which BLAS runs on one thread; contexts may be nested and may overlap between threads.

    The products of a stream are small: on a busy machine two threads wait for each other and take 70 times as long.
    """

    __slots__ = ()

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


def _set(counts: list[int]) -> None:
    for library, before, count in zip(_libraries(), _before, counts, strict=True):
        if before != 1:
            library.set_num_threads(count)
