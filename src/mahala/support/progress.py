"""A line on the terminal while long work runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class _Bars:
    """Bars that are on the terminal, and those of streams by the object that feeds them."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.streams: dict[int, TaskID] = {}


_shown: ContextVar[_Bars | None] = ContextVar("_shown", default=None)


@contextmanager
def show_progress() -> Iterator[None]:
    """Draw a bar on stderr for every fit inside, of any learner: iterations and objective, or steps and mistakes.

    >>> import mahala
    >>> with mahala.show_progress():
    ...     pass  # learner.fit(X, y)
    """
    with _bars() as bars:
        token = _shown.set(bars)
        try:
            yield
        finally:
            _shown.reset(token)


@contextmanager
def progress_bar(name: str, total: int, shown: bool) -> Iterator[Callable[[int, float], None]]:
    """A function of (iterations done, objective) that draws them, where `shown` or inside `show_progress`."""
    bars = _shown.get()
    if bars is None and shown:
        with _bars() as own:
            yield _objective_bar(own, name, total)
    else:
        yield (lambda done, objective: None) if bars is None else _objective_bar(bars, name, total)


def tell_stream(stream: object, done: int, mistakes: int) -> None:
    """Inside `show_progress`, the bar of a stream: how many comparisons it has seen, and predicted wrongly."""
    bars = _shown.get()
    if bars is None:
        return
    task = bars.streams.get(id(stream))
    if task is None:
        task = bars.streams[id(stream)] = bars.progress.add_task(type(stream).__name__, total=None, text="")
    bars.progress.update(task, completed=done, text=f"{mistakes / max(done, 1):.2%} predicted wrongly")


@contextmanager
def _bars() -> Iterator[_Bars]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield _Bars(progress)


def _objective_bar(bars: _Bars, name: str, total: int) -> Callable[[int, float], None]:
    task = bars.progress.add_task(name, total=total, text="")
    return lambda done, objective: bars.progress.update(task, completed=done, text=f"objective {objective:.6g}")
