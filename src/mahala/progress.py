"""A line on the terminal while long work runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(name: str, total: int, shown: bool) -> Iterator[Callable[[int, float], None]]:
    """A function of (iterations done, objective) that draws them on stderr, or does nothing where not `shown`."""
    if not shown:
        yield lambda done, objective: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("objective {task.fields[objective]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=total, objective="-")
        yield lambda done, objective: progress.update(task, completed=done, objective=f"{objective:.6g}")
