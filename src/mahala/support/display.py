"""Progress bars on stderr, whose times do not count what Numba compiles, and HTML tables for notebooks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import TYPE_CHECKING

from mahala.support.limits import COMPILING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


# A line that is not drawn on a terminal follows the one before after so many seconds.
_SECONDS = 5.0
# Redraws a bar: the number done, a short text and the total.
Update = Callable[[int, str, int], None]
# The bars on the terminal, and those of online learners by the learner's id.
SHOWN: ContextVar[tuple[Progress, dict[int, TaskID]] | None] = ContextVar("SHOWN", default=None)


@contextmanager
def show_progress() -> Iterator[None]:
    """Show a progress bar on stderr for every fit in the block.

    Batch learners show iterations and the objective, online learners show steps and the share of wrong predictions.

    >>> import mahala
    >>> with mahala.show_progress():
    ...     pass  # learner.fit(X, y)
    """
    with _bars() as bars:
        token = SHOWN.set((bars, {}))
        try:
            yield
        finally:
            SHOWN.reset(token)


@contextmanager
def task_bar(name: str, shown: bool) -> Iterator[Update]:
    """Yield a function that draws a progress bar if `shown` or inside `show_progress`, and does nothing otherwise."""
    if outer := SHOWN.get():
        yield _update(outer[0], name)
    elif shown:
        with _bars() as bars:
            yield _update(bars, name)
    else:
        yield lambda done, text, total: None


@contextmanager
def task_progress(name: str, is_terminal: bool) -> Iterator[Update]:
    """Yield a function that draws a progress bar on a terminal; else a line on stderr tells every few seconds."""
    if is_terminal or SHOWN.get():
        with task_bar(name, is_terminal) as update:
            yield update
        return
    begin, state, finished = time.monotonic(), [(0, "", 0)], threading.Event()

    def tell() -> None:
        while not finished.wait(_SECONDS):
            done, text, total = state[0]
            passed = time.monotonic() - begin
            left = f", about {passed * (total - done) / done:.0f} s left" if done else ""
            number = f"{done} of {total} fits" if total else "preparing"
            print(f"{name}: {number}, {passed:.0f} s{left}{f' ({text})' * bool(text)}", file=sys.stderr, flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield lambda done, text, total: state.__setitem__(0, (done, text, total))
    finally:
        finished.set()
        thread.join()


@contextmanager
def progress_bar(name: str, total: int, shown: bool) -> Iterator[Callable[[int, float], None]]:
    """Yield a function of (iterations done, objective) that draws a bar if `shown` or inside `show_progress`."""
    with task_bar(name, shown) as update:
        yield lambda done, objective: update(done, f"objective {objective:.6g}", total)


def tell_stream(stream: object, done: int, mistakes: int) -> None:
    """Inside `show_progress`, update the bar of an online learner: comparisons seen and predicted wrongly."""
    outer = SHOWN.get()
    assert outer is not None, "there are no bars outside of show_progress"
    bars, tasks = outer
    if id(stream) not in tasks:
        tasks[id(stream)] = bars.add_task(type(stream).__name__, total=None, text="")
    bars.update(tasks[id(stream)], completed=done, text=f"{mistakes / max(done, 1):.2%} predicted wrongly")


def _bars() -> Progress:
    try:
        from rich import progress
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        raise ImportError("progress bars need Rich: pip install 'mahala[cli]'") from None

    class TimeLeft(progress.TimeRemainingColumn):
        max_refresh = 0.0  # the seconds go on while functions are compiled

        def render(self, task: progress.Task) -> Text:
            if not COMPILING.active:
                return super().render(task)
            return Text(f"compiling, {COMPILING.seconds:.0f} s", style="progress.remaining")

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[text]}"),
        progress.TimeElapsedColumn(),
        TimeLeft(compact=True),
    )
    return progress.Progress(*columns, console=Console(stderr=True), get_time=COMPILING.working_time)


def _update(bars: Progress, name: str) -> Update:
    task = bars.add_task(name, total=None, text="")
    return lambda done, text, total: bars.update(task, completed=done, text=text, total=total)


def as_table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table, with the first column to the left and the others to the right.

    >>> as_table(["name", "error"], [["<a>", "1 %"]]).count("&lt;a&gt;")
    1
    """
    body = "".join(_line("td", line) for line in lines)
    return f"<table><thead>{_line('th', heading)}</thead><tbody>{body}</tbody></table>"


def text_table(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table as text, with the first column to the left and the others to the right."""
    first, *widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *cells in lines:
        yield " ".join([name.ljust(first), *map(str.rjust, cells, widths)])


def paragraph(text: str, *, bold: bool = False) -> str:
    """Return a paragraph."""
    return f"<p><b>{escape(text)}</b></p>" if bold else f"<p>{escape(text)}</p>"


def _line(tag: str, texts: Sequence[str]) -> str:
    cells = ""
    for at, text in enumerate(texts):
        cells += f'<{tag} style="text-align:{"right" if at else "left"}">{escape(text)}</{tag}>'
    return f"<tr>{cells}</tr>"
