"""Learning from a stream of lines, one JSON object a comparison, with a model file that knows how far it has read."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Protocol

from mahala.comparisons import Pairs, Triplets
from mahala.comparisons.json_lines import PAIR, TRIPLET, LineError, LineReader
from mahala.learner import load_learner
from mahala.online.lego import LEGO
from mahala.online.online_learner import OnlineLearner, OnlinePairLearner
from mahala.online.rdml import RDML
from mahala.support.model_files import ModelFileError, header_value, number_value, read_model, write_model
from mahala.support.validation import check_count, check_tolerance

# Lines by which an input is known again.
HEAD = 100
# Bytes read at a time: what stands in a pipe is taken at once, and a signal need not wait for long.
BLOCK = 2**16
# Parameters that do not tell one model from another.
_FREE = ("record", "random_state")


class Readable(Protocol):
    """A binary file: read1 gives what there is, at most so many bytes, and waits only where there is nothing."""

    def read1(self, size: int, /) -> bytes: ...


def read_lines(file: Readable) -> Iterator[bytes]:
    """The lines of a file with their newlines, each as soon as it is there.

    >>> import io
    >>> list(read_lines(io.BytesIO(b"1\\n\\r2")))
    [b'1\\n', b'\\r2']
    """
    parts: list[bytes] = []
    while block := _read_block(file):
        *whole, last = block.split(b"\n")
        for line in whole:
            yield b"".join([*parts, line, b"\n"])
            parts.clear()
        parts.append(last)
    if rest := b"".join(parts):
        yield rest


def _read_block(file: Readable) -> bytes:
    try:
        return file.read1(BLOCK)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"the input cannot be read on, as it is no whole gzip file: {error}") from error


@dataclass(frozen=True, slots=True)
class Learned:
    """A line that was learned from: whether it was predicted rightly before, and what there is to say of it."""

    line: int
    right: bool
    record: dict[str, object]


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that nothing could be learned from; the model is as it was."""

    line: int
    problem: str


@dataclass(frozen=True)
class Position:
    """How far an input has been read, and what it is known by.

    `digest` is one of all lines up to here; `head` has those of the lines up to each of the first hundred, so
    that another input is told by its first line that differs. `ended` says whether there were no more lines.
    """

    lines: int = 0
    digest: str = ""
    head: list[str] = field(default_factory=list)
    ended: bool = False

    @classmethod
    def of(cls, header: dict[str, Any]) -> Position:
        """What a model file says of itself."""
        head: list[str] = header_value(header, "head", list)
        self = cls(
            lines=int(number_value(header, "lines", least=0.0)),
            digest=header_value(header, "digest", str),
            head=head,
            ended=header_value(header, "ended", bool),
        )
        if len(head) != min(self.lines, HEAD):
            raise ModelFileError(f"header entry 'head' should have {min(self.lines, HEAD)} digests, found {len(head)}")
        return self


class _Progress:
    """A position that moves."""

    def __init__(self) -> None:
        self.lines = 0
        self.head: list[str] = []
        self.ended = False
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        # Without its end: the last line may get one later.
        self._digest.update(line.rstrip(b"\r\n") + b"\n")
        self.lines += 1
        if self.lines <= HEAD:
            self.head.append(self._digest.hexdigest())

    def position(self) -> Position:
        return Position(self.lines, self._digest.hexdigest(), list(self.head), self.ended)


class Stream:
    """A learner at `path` that goes on from the first line that it has not learned from yet.

    Parameters
    ----------
    path : the model file, which holds the learner and the position in its input; written by `save`
    learner : an online learner to begin with where there is no file; where there is one it must be the same
    items : rows that a point may name by number: an array, a memory map or CSR
    n_features : of the points, where the model is new; points that are given as {feature: value} need it
    new_input : learn from the first line, whatever the file says of its input
    every, seconds : a save is `due` after so many lines or so much time

    Lines are learned from one by one, so that the model does not depend on when they came or where a run was stopped.

    >>> import tempfile, mahala
    >>> path = tempfile.mkdtemp() + "/state.safetensors"
    >>> lines = [b'{"x": [0, 1], "x2": [0, 3], "similar": false, "id": "a"}\\n', b'{"x": [1]}\\n']
    >>> stream = Stream(path, mahala.PA("I", record=False, random_state=0))
    >>> for result in stream.learn(lines):
    ...     print(result)
    Learned(line=1, right=False, record={'line': 1, 'similar': False, 'predicted': True, 'margin': 0.0, 'id': 'a'})
    Malformed(line=2, problem='x2 is missing: a pair is {"x": ..., "x2": ..., "similar": ...}')
    >>> stream.save()
    True
    >>> stream = Stream(path)
    >>> [result.line for result in stream.learn([*lines, lines[0]])], stream.skipped
    ([3], 2)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        learner: Any = None,
        *,
        items: Any = None,
        n_features: int | None = None,
        new_input: bool = False,
        every: int = 10_000,
        seconds: float = 30.0,
    ) -> None:
        check_count(every, "every")
        check_tolerance(seconds, "seconds")
        if n_features is not None:
            check_count(n_features, "n_features")
        self.path = os.fspath(path)
        self.new_input = new_input
        self.every = every
        self.seconds = seconds
        self.skipped = 0  # lines at the beginning that had been learned from before
        self.began_anew = False  # whether the lines are others than those that the file had been read to the end of
        self._saved = Position()
        self._saved_line = 0  # in this input
        self._is_known = False  # whether that position is one in this input
        self._saved_at = time.monotonic()
        self._progress = _Progress()
        self.learner: Any = _check_online(self._open(learner))
        self._saved_steps = getattr(self.learner, "n_steps_", 0)
        is_pair = isinstance(self.learner, OnlinePairLearner)
        self._reader = LineReader(
            PAIR if is_pair else TRIPLET,
            self._widths() if hasattr(self.learner, "n_steps_") else (n_features, n_features),
            names=list(getattr(self.learner, "feature_names_in_", ())),
            items=items,
            taken=("line", "predicted" if is_pair else "right", "margin"),
        )

    def _open(self, learner: Any) -> Any:
        if not os.path.exists(self.path):
            if learner is None:
                raise FileNotFoundError(f"{self.path} is not there yet: name a learner to begin with")
            folder = os.path.dirname(self.path) or "."
            if not os.path.isdir(folder):
                raise FileNotFoundError(f"{self.path} cannot be written, as there is no folder {folder}")
            return learner
        known = load_learner(self.path)
        header, _ = read_model(self.path, "learner")
        if "stream" in header:
            try:
                self._saved = Position.of(header_value(header, "stream", dict))
            except ModelFileError as error:
                raise ModelFileError(f"{self.path} does not say how far it has read: {error}") from None
        if learner is not None:
            _check_same(self.path, known, learner)
        return known

    def learn(self, lines: Iterable[bytes]) -> Iterator[Learned | Malformed]:
        """What became of each line that is new; blank lines are passed over, but counted.

        The lines are those of a binary file, with the newlines at their ends. Those that were learned from before are
        read and skipped at once. A result is made when it is asked for, and `save` may be called between any two. A
        malformed line counts as read when the next result is asked for; one at the very end without a newline may
        still be being written, and does not count.
        """
        unread = self._unread(iter(lines))
        self._saved_line = self._progress.lines
        return self._learn(unread)

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return (
            self._progress.lines - self._saved_line >= self.every or time.monotonic() - self._saved_at >= self.seconds
        )

    def save(self) -> bool:
        """Write model and position in one step, unless nothing has changed; returns whether it was written.

        The position in another input is kept once something was learned from that.
        """
        position, steps = self._progress.position(), getattr(self.learner, "n_steps_", 0)
        changed = steps > self._saved_steps or (self._is_known and position != self._saved)
        if changed:
            header, arrays = self.learner.to_parts()
            write_model(self.path, "learner", arrays, header | {"stream": asdict(position)})
            self._saved, self._saved_steps, self._saved_line = position, steps, position.lines
            self._is_known = True
        self._saved_at = time.monotonic()
        return changed

    def _unread(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """The lines after those that the model has learned from, or all where they are another input's."""
        known = self._progress.position() if self._progress.lines else self._saved
        self._progress, progress = _Progress(), _Progress()
        self._is_known = False
        if known.lines == 0 or self.new_input:
            return lines
        refusal = f"or learn from it all the same, from its first line, as a new input (--new-input): {self.path}"
        first: list[bytes] = []
        for line in lines:
            progress.add(line)
            if progress.lines <= HEAD:
                first.append(line)
                if progress.head[-1] != known.head[progress.lines - 1]:
                    if not known.ended:
                        raise ValueError(
                            f"the input is another than the one that was read up to line {known.lines}, but not to its "
                            f"end: line {progress.lines} differs; go on with that one, {refusal}"
                        )
                    self.began_anew = True
                    return chain(first, lines)
            if progress.lines == known.lines:
                if progress.position().digest != known.digest:
                    raise ValueError(
                        f"the input was changed before line {known.lines}, up to which it has been learned from; give "
                        f"it as it was, {refusal}"
                    )
                self._progress, self.skipped, self._is_known = progress, known.lines, True
                return lines
        if progress.lines or not known.ended:
            raise ValueError(
                f"the input ends after {progress.lines} lines, but it had been learned from up to line {known.lines}; "
                f"give all of it, {refusal}"
            )
        return lines

    def _learn(self, lines: Iterator[bytes]) -> Iterator[Learned | Malformed]:
        for line in lines:
            progress, whole = self._progress, line.endswith(b"\n")
            if line.isspace():
                if whole:
                    progress.add(line)
                continue
            try:
                comparison, others = self._reader.read(line)
            except LineError as error:
                yield Malformed(progress.lines + 1, str(error))
                if whole:
                    progress.add(line)
                continue
            result = self._step(comparison)
            progress.add(line)
            right = result.pop("right") if isinstance(comparison, Pairs) else result["right"]
            yield Learned(progress.lines, right, {"line": progress.lines, **result, **others})
        self._progress.ended = True

    def _step(self, comparison: Pairs | Triplets) -> dict[str, Any]:
        """Learn from one comparison; what was predicted before, and whether that was right."""
        self.learner.partial_fit(comparison)
        self._reader.widths = self._widths()
        y, p, predicted = self.learner._last_step
        result: dict[str, Any] = {"right": predicted == y}
        if isinstance(comparison, Pairs):
            result = {"similar": y == 1, "predicted": predicted == 1, **result}
        margin = self._margin(p, y)
        return result | ({"margin": margin} if math.isfinite(margin) else {})

    def _margin(self, p: float, y: int) -> float:
        """Threshold minus squared distance, or the difference of similarities, before a step with the loss p."""
        if isinstance(self.learner, LEGO):
            return math.nan  # its loss is how far off the distance is, not to which side
        return 0.0 - y * p if isinstance(self.learner, RDML) else 0.0 + y * (1.0 - p)

    def _widths(self) -> tuple[int, int]:
        n_features = self.learner.n_features_in_
        return n_features, getattr(self.learner, "n_item_features_", n_features)


def _check_online(learner: Any) -> OnlineLearner:
    if not isinstance(learner, OnlineLearner):
        raise TypeError(
            f"{type(learner).__name__} does not learn from one comparison at a time; give an online learner, for "
            "instance PA for pairs or OASIS for triplets"
        )
    return learner


def _check_same(path: str, known: Any, learner: Any) -> None:
    """Refuses a learner to begin with that is another than the one that there is."""
    ours, theirs = type(known).__name__, type(learner).__name__
    advice = f"name another file, or no learner to go on with the {ours} as it is"
    if ours != theirs:
        raise ValueError(f"{path} holds a {ours}, not a {theirs}: {advice}")
    wanted = learner.get_params(deep=False)
    for name, value in known.get_params(deep=False).items():
        if name not in _FREE and value != wanted[name]:
            raise ValueError(f"{path} holds a {ours} with {name}={value!r}, not {wanted[name]!r}: {advice}")
