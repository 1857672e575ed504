"""`mahala stream`: learn from lines of comparisons as they come, and never lose the place."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mahala.learner import Learner
    from mahala.stream import Stream

# Exit codes beside those that every command has.
TO_MEND, MALFORMED = 2, 3


def stream(
    model: Annotated[Path, typer.Option(help="The model file to go on with, or to begin.")],
    learner: Annotated[str | None, typer.Option(help="An online learner to begin with: PA, OASIS, ...")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, a parameter of the learner.")] = None,
    source: Annotated[
        Path | None, typer.Option("--input", help="A file of lines, perhaps .gz; stdin by default.")
    ] = None,
    items: Annotated[Path | None, typer.Option(help=".npy or .npz of rows that points name by number.")] = None,
    features: Annotated[int | None, typer.Option(help="Number of features, for objects as points.", min=1)] = None,
    new_input: Annotated[bool, typer.Option("--new-input", help="Learn from the first line in any case.")] = False,
    checkpoint_every: Annotated[int, typer.Option(help="Lines between two checkpoints, at most.", min=1)] = 10_000,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between two checkpoints.", min=0.0)] = 30.0,
    max_errors: Annotated[int | None, typer.Option(help="Malformed lines to put up with.", min=0)] = None,
    seed: Annotated[int, typer.Option(help="random_state of a new learner.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The summary on stderr as one JSON object.")] = False,
) -> None:
    """Learn from JSON Lines of comparisons; for each, print what was predicted before it was learned from.

    A line is a pair, `{"x": [0.1, 2], "x2": [0, 1.5], "similar": true}`, or a triplet,
    `{"query": [1, 2], "positive": [1, 3], "negative": [5, 0]}`. A point is a list of numbers, an object
    `{"17": 0.5}` of the features that are not zero, or (with --items) the number of a row. Other keys are passed
    through.

    Out comes `{"line": 1, "similar": true, "predicted": false, "margin": -0.2}` for a pair and
    `{"line": 1, "right": true, "margin": 0.7}` for a triplet. The margin is what the prediction goes by: threshold
    minus squared distance (LEGO gives none), or how much more similar the positive is.

    The model file also holds the place in the input. So the same command again goes on where it stopped, however that
    came about (kill -9 too), and ends with the same model; of a log that grows it learns what is new. Lines after the
    last checkpoint are learned from, and printed, again: each is printed at least once. When an input has been read to
    its end, another one is learned from its first line on; before that another one is refused, unless --new-input is
    given (once: to go on with it, leave it out).

    Malformed lines are named on stderr, counted and skipped. At the very end, one without a newline may still be being
    written: it is read again next time.

    Exit codes: 0 all learned, 2 something to mend, 3 some lines were malformed, 130 or 143 stopped by Ctrl-C or
    SIGTERM, with a checkpoint.

    Examples:

        mahala stream --model clicks.safetensors --learner PA --set C=0.1 --input clicks.jsonl > predicted.jsonl

        tail -n +1 -F clicks.jsonl | mahala stream --model clicks.safetensors --learner OASIS --items embeddings.npy
    """
    from mahala.stream import Malformed, Stream, read_lines

    if settings and learner is None:
        raise ValueError("--set is for a learner to begin with: give --learner too, or neither")
    own = Stream(
        model,
        None if learner is None else _beginner(learner, settings or [], seed),
        items=None if items is None else _read_items(items),
        n_features=features,
        new_input=new_input,
        every=checkpoint_every,
        seconds=checkpoint_seconds,
    )
    started = time.monotonic()
    learned = mistakes = malformed = code = 0
    with _open_input(source) as file, _Signals() as signals:
        try:
            results = own.learn(read_lines(_Input(file, own, signals)))
            _tell_start(own)
            for result in results:
                if isinstance(result, Malformed):
                    malformed += 1
                    typer.echo(f"line {result.line}: {result.problem}", err=True)
                    code = MALFORMED
                    if max_errors is not None and malformed > max_errors:
                        code = TO_MEND
                        break
                else:
                    learned += 1
                    mistakes += not result.right
                    sys.stdout.write(json.dumps(result.record) + "\n")
                if own.due:
                    _checkpoint(own)
        except _Stopped as stopped:
            code = 128 + stopped.number
        # After an error, of printing too, the last checkpoint stays: what was not printed is learned from again.
        _checkpoint(own)
    _tell_end(own, learned, malformed, mistakes, time.monotonic() - started, as_json)
    if code == TO_MEND:
        raise ValueError(
            f"{malformed} malformed lines, and --max-errors allows {max_errors}: stopped before the last of them; "
            "mend it, and give the input again"
        )
    if code:
        raise typer.Exit(code)


def _checkpoint(own: Stream) -> None:
    """Model and place, once all that was learned from before has been printed."""
    sys.stdout.flush()
    own.save()


class _Stopped(Exception):
    """Ctrl-C or SIGTERM, between two lines."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """Ctrl-C and SIGTERM take effect when the next block of lines is wanted, or at once while waiting for it."""

    def __init__(self) -> None:
        self.waiting = False
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        self._number = number
        if self.waiting:
            self.check()

    def check(self) -> None:
        if self._number is not None:
            raise _Stopped(self._number)


class _Input:
    """The input, as read_lines wants it; before it waits, all is printed, and while it waits checkpoints go on."""

    def __init__(self, file: Any, own: Stream, signals: _Signals) -> None:
        self._file = file
        self._own = own
        self._signals = signals

    def read1(self, size: int, /) -> bytes:
        sys.stdout.flush()
        if not self._is_ready(self._own.seconds):
            self._own.save()
        self._signals.waiting = True
        try:
            self._signals.check()
            block: bytes = self._file.read1(size)
            return block
        finally:
            self._signals.waiting = False

    def _is_ready(self, seconds: float) -> bool:
        """Whether input comes within this time; what cannot be asked is taken to be ready."""
        self._signals.waiting = True
        try:
            self._signals.check()
            return bool(select.select([self._file.fileno()], [], [], seconds)[0])
        except (OSError, ValueError):  # no file of the system's, or one that it cannot wait for
            return True
        finally:
            self._signals.waiting = False


def _beginner(name: str, settings: list[str], seed: int) -> Learner:
    """A new learner. Unless told otherwise it keeps no history, which would grow with the stream."""
    from mahala.cli.models import learner_named

    learner = learner_named(name, settings, seed)
    if "record" in learner.get_params(deep=False) and not any(given.startswith("record") for given in settings):
        learner.set_params(record=False)
    return learner


@contextmanager
def _open_input(path: Path | None) -> Iterator[Any]:
    if path is None:
        yield sys.stdin.buffer
    elif path.suffix == ".gz":
        import gzip

        with gzip.open(path, "rb") as file:
            yield file
    else:
        with open(path, "rb") as file:
            yield file


def _read_items(path: Path) -> Any:
    """Rows of a .npy file, which stays on the disk, or those of an .npz file."""
    import numpy as np

    from mahala.data.array_files import read_npz

    if path.suffix == ".npz":
        return read_npz(str(path))[0]
    if path.suffix != ".npy":
        raise ValueError(f"--items must be a .npy or .npz file, got {path}")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"--items {path} cannot be read: {error}") from error


def _tell_start(own: Stream) -> None:
    if own.began_anew:
        typer.echo(
            f"{own.path} has read another input to its end: this one is learned from its first line on", err=True
        )
    elif own.skipped:
        typer.echo(f"{own.path} has learned from the first {own.skipped:,} lines: going on after them", err=True)


def _tell_end(own: Stream, learned: int, malformed: int, mistakes: int, seconds: float, as_json: bool) -> None:
    lines = learned + malformed
    written = os.path.exists(own.path)
    if as_json:
        summary = {
            "lines": lines,
            "learned": learned,
            "malformed": malformed,
            "mistakes": mistakes,
            "skipped": own.skipped,
            "new_input": own.began_anew,
            "seconds": round(seconds, 3),
            "model": own.path if written else None,
        }
        typer.echo(json.dumps(summary), err=True)
        return
    share = f"; {mistakes / learned:.1%} predicted wrongly" if learned else ""
    where = f"the model is in {own.path}" if written else f"there is no {own.path} yet, as nothing was learned"
    typer.echo(
        f"{lines:,} lines in {seconds:.1f} s ({lines / max(seconds, 1e-9):,.0f} a second): {learned:,} learned, "
        f"{malformed:,} malformed{share}; {where}",
        err=True,
    )
