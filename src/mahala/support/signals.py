"""Contexts in which Ctrl-C waits for the end of a step, none is lost, or SIGTERM does the same."""

import signal
import threading
from _signal import signal as _set_handler  # type: ignore[import-not-found]  # without the cost of enumerations
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_MAIN = threading.main_thread().ident
# What the KeyboardInterrupt says that SIGTERM has raised.
SIGTERM = "SIGTERM"


class uninterrupted:
    """A context in which Ctrl-C waits for the end of the block, so that a model never disagrees with its counters.

    It is a class, not a generator: `learn_one` enters it for each comparison.
    """

    __slots__ = ("_before", "_waiting")

    def __enter__(self) -> None:
        self._waiting = False
        self._before: Any = None
        if threading.get_ident() == _MAIN:
            self._before = _set_handler(signal.SIGINT, self._defer) or signal.SIG_DFL

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            _set_handler(signal.SIGINT, self._before)
            if self._waiting:
                signal.raise_signal(signal.SIGINT)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        self._waiting = True


class no_interrupt_lost:
    """A context that raises at its end what Ctrl-C raised inside of it, if that was lost there.

    Python drops exceptions that are raised in a finalizer or in the callback of a weak reference, and Ctrl-C may come
    there: scikit-learn's first check of rows looks for plugins in ZIP files, whose class has a finalizer.
    """

    __slots__ = ("_before", "_raised")

    def __enter__(self) -> None:
        self._raised: BaseException | None = None
        self._before: Any = signal.getsignal(signal.SIGINT) if threading.get_ident() == _MAIN else None
        if callable(self._before):
            _set_handler(signal.SIGINT, self._handle)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if callable(self._before) and signal.getsignal(signal.SIGINT) == self._handle:
            _set_handler(signal.SIGINT, self._before)
        raised, self._raised = self._raised, None
        if kind is None and raised is not None:
            raise raised

    def _handle(self, number: int, frame: FrameType | None) -> None:
        _set_handler(signal.SIGINT, self._before)
        try:
            self._before(number, frame)
        except BaseException as error:
            self._raised = error
            raise


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Raise KeyboardInterrupt("SIGTERM") in the block at SIGTERM, in the main thread."""
    if threading.get_ident() != _MAIN:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(SIGTERM)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
