"""`mahala stream`: learn from lines of comparisons as they arrive."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from filelock import FileLock, Timeout

import mahala
from mahala.cli.group import BROKEN_PIPE, forget_output, with_options
from mahala.cli.parts.models import learner_named
from mahala.cli.parts.options import Settings
from mahala.cli.parts.output import STDOUT, say
from mahala.cli.parts.tables import open_input, read_items
from mahala.stream.input import LONGEST, read_lines
from mahala.support.files import named, remove_abandoned, replaceable

# Exit codes: too many malformed lines, and some malformed lines.
INVALID, MALFORMED = 2, 3


def stream(
    model: Annotated[Path, typer.Option(help="Model file to continue with, or to create.")],
    learner: Annotated[str | None, typer.Option(help="Online learner of a new model: PA, OASIS, ...")] = None,
    settings: Settings = None,
    source: Annotated[Path | None, typer.Option("--input", help="A file of lines, also .gz; default: stdin.")] = None,
    items: Annotated[Path | None, typer.Option(help="File of vectors, such as .npy, that points refer to.")] = None,
    features: Annotated[int | None, typer.Option(help="Number of features, if points are objects.", min=1)] = None,
    new_input: Annotated[bool, typer.Option("--new-input", help="Learn from the first line of another input.")] = False,
    max_line: Annotated[int, typer.Option(help="Longer lines, in bytes, are malformed.", min=1)] = LONGEST,
    checkpoint_every: Annotated[int, typer.Option(help="Maximum number of lines between checkpoints.", min=1)] = 10_000,
    checkpoint_seconds: Annotated[float, typer.Option(help="Maximum seconds between checkpoints.", min=0.0)] = 30.0,
    max_errors: Annotated[int | None, typer.Option(help="Malformed lines to tolerate.", min=0)] = None,
    seed: Annotated[int, typer.Option(help="The random_state of a new learner.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary on stderr as JSON.")] = False,
) -> None:
    """Learn from comparisons in JSON Lines, and print the prediction for each line before learning from it.

    A line is a pair, `{"x": [0.1, 2], "x2": [0, 1.5], "similar": true}`, or a triplet,
    `{"query": [1, 2], "positive": [1, 3], "negative": [5, 0]}`. A point is a list of numbers, an object `{"17": 0.5}`
    of its non-zero features, or (with --items) the number of a row. Other keys are copied to the output.

    The output is `{"line": 1, "similar": true, "predicted": false, "margin": -0.2}` for a pair and
    `{"line": 1, "right": true, "margin": 0.7}` for a triplet. The sign of the margin is the prediction: the margin is
    threshold minus squared distance (not available for LEGO), or the similarity of the positive minus that of the
    negative.

    The model file also stores the position in the input. If the same command is run again, it resumes where it stopped,
    even after kill -9, and ends with the same model; from a growing log it learns only the new lines. Lines after
    the last checkpoint are processed and printed again, so each line is printed at least once. An input whose lines up
    to the position are others than those that were read, such as an edited copy, is refused. Give --new-input to read
    another input from its first line, and omit it again to resume with that input. Rows may be appended to --items. The
    checkpoint before the last one is kept as NAME.previous.safetensors.

    Malformed lines are reported on stderr, counted and skipped. A malformed last line without a newline may be
    incomplete, so it is read again next time.

    Exit codes: 0 success, 2 invalid input or options, 3 some lines were malformed, 129, 130 or 143 stopped by SIGHUP,
    Ctrl-C or SIGTERM, after a checkpoint.

    Examples:

        mahala stream --model pairs.safetensors --learner PA --set C=0.1 --input pairs.jsonl > predicted.jsonl

        tail -n +1 -F clicks.jsonl | mahala stream --model clicks.safetensors --learner OASIS --items embeddings.npy
    """
    from mahala.stream.stream import Malformed, Stream

    if settings and learner is None:
        raise ValueError("--set sets parameters of a new learner: give --learner too, or neither")
    with _only_writer(model):
        beginner = None if learner is None else _beginner(learner, settings or [], seed)
        learning = Stream(
            model, beginner, items=None if items is None else read_items(items), n_features=features, max_line=max_line,
            new_input=new_input, every=checkpoint_every, seconds=checkpoint_seconds,
        )  # fmt: skip
        started = time.monotonic()
        learned = mistakes = malformed = code = 0
        with open_input(source) as file, _Input(file, learning) as lines:
            try:
                results = learning.learn(read_lines(lines, max(max_line, LONGEST)))
                if learning.skipped:
                    say(f"{model} has learned from the first {learning.skipped:,} lines; resuming after them", err=True)
                for result in results:
                    if isinstance(result, Malformed):
                        malformed += 1
                        report_malformed(result)
                        code = MALFORMED
                        if max_errors is not None and malformed > max_errors:
                            code = INVALID
                            break
                    else:
                        learned += 1
                        mistakes += not result.right
                        with named(STDOUT):
                            sys.stdout.write(json.dumps(result.record) + "\n")
                    if learning.due:
                        _checkpoint(learning)
            except _Stopped as stopped:
                code = 128 + stopped.args[0]
            except BrokenPipeError:
                code = BROKEN_PIPE
                forget_output()
            # After another error, also of printing, the last checkpoint stays: unprinted lines are processed again.
            _checkpoint(learning)
        _print_end(learning, learned, malformed, mistakes, time.monotonic() - started, as_json)
    if code == INVALID:
        raise ValueError(
            f"{malformed} malformed lines, but --max-errors is {max_errors}: stopped before the last of them; "
            "fix it and run the command again"
        )
    if code:
        raise typer.Exit(code)


@contextmanager
def _only_writer(model: Path) -> Iterator[None]:
    """Raise BlockingIOError if another process learns into a model; keep others out until the block ends.

    The system releases the lock when its process ends, however that happens. Its file, beside the model, stays.
    """
    target = replaceable(model)
    remove_abandoned(target)
    lock = FileLock(target.with_name(f".{target.name}.lock"), timeout=0, mode=0o666)
    try:
        lock.acquire()
    except Timeout:
        raise BlockingIOError(f"{model} is in use by another process, which learns into it") from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):  # of a network disk without locks
            folder = target.parent
            raise OSError(f"{model} cannot be written: no file can be made in {folder} ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()


def _checkpoint(learning: mahala.stream.Stream) -> None:
    """Save model and position, after everything learned so far has been printed."""
    _flush()
    learning.save()


def _flush() -> None:
    with named(STDOUT):
        sys.stdout.flush()


class _Stopped(Exception):
    """A signal, between two lines; its argument is the number of the signal."""


class _Input:
    """The input of read_lines, which flushes the output before it waits and saves checkpoints while it waits.

    Ctrl-C, SIGTERM and SIGHUP are deferred until the next block of lines is read; while it waits, they act at once.
    """

    def __init__(self, file: Any, learning: mahala.stream.Stream) -> None:
        self._file, self._learning = file, learning
        self._waiting = False
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Input:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)  # Windows has no SIGHUP
                # One that is ignored, as under nohup, stays so.
                if number is not None and (name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        self._number = number
        if self._waiting:
            raise _Stopped(number)

    def read1(self, size: int, /) -> bytes:
        _flush()
        if not self._interruptible(self._is_ready):
            self._learning.save()
        block: bytes = self._interruptible(lambda: self._file.read1(size))
        return block

    def _interruptible(self, wait: Callable[[], Any]) -> Any:
        """Return what a function returns; signals, also those that came before, raise an exception at once."""
        self._waiting = True
        try:
            if self._number is not None:
                raise _Stopped(self._number)
            return wait()
        finally:
            self._waiting = False

    def _is_ready(self) -> bool:
        """Return whether input arrives before the next checkpoint is due, or cannot be waited for."""
        try:
            return bool(select.select([self._file.fileno()], [], [], self._learning.seconds)[0])
        except (OSError, ValueError):  # not a file of the operating system, or one without select
            return True


def _beginner(name: str, settings: list[str], seed: int) -> Any:
    """Return a new learner, which keeps no history unless --set asks for it: it would grow with the stream."""
    learner = learner_named(name, settings, seed)
    if "record" in learner.get_params(deep=False) and not any(setting.startswith("record") for setting in settings):
        learner.set_params(record=False)
    return learner


def report_malformed(line: Any) -> None:
    """Print what is wrong with a line."""
    say(f"line {line.line}: {with_options(line.problem, line.parameters)}", err=True)


def _print_end(
    learning: mahala.stream.Stream, learned: int, malformed: int, mistakes: int, seconds: float, as_json: bool
) -> None:
    path, lines = learning.path, learned + malformed
    written = os.path.exists(path)
    if as_json:
        counts = {"lines": lines, "learned": learned, "malformed": malformed, "mistakes": mistakes}
        state = {"skipped": learning.skipped, "new_input": learning.new_input, "model": path if written else None}
        typer.echo(json.dumps(counts | {"seconds": round(seconds, 3)} | state), err=True)
        return
    share = f"; {mistakes / learned:.1%} predicted wrongly" if learned else ""
    where = f"the model is in {path}" if written else f"{path} was not written because nothing was learned"
    say(
        f"{lines:,} lines in {seconds:.1f} s ({lines / max(seconds, 1e-9):,.0f} per second): {learned:,} learned, "
        f"{malformed:,} malformed{share}; {where}",
        err=True,
    )
