"""Defer Ctrl-C until the current step is recorded."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

_MAIN = threading.main_thread()
try:  # the function without its conversion to enumerations, which costs more than a step
    from _signal import signal as _set_handler  # type: ignore[import-not-found]
except ImportError:  # another interpreter
    _set_handler = signal.signal


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
