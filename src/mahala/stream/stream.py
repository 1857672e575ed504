"""Stream: an online learner that reads lines, and resumes where it stopped."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mahala.comparisons import Impression, Pairs, Triplets
from mahala.comparisons.json_lines import IMPRESSION, PAIR, TRIPLET, LineError, LineReader, MissingItems
from mahala.feedback.query_adapter import QueryAdapter
from mahala.online.lego import LEGO
from mahala.online.online_mixin import OnlineMixin
from mahala.online.pair_learner import PairLearner
from mahala.online.rdml import RDML
from mahala.saved_estimator import load_learner
from mahala.stream.lines import LONGEST, LongLine
from mahala.stream.position import HEAD, Position, Progress, digest_of_rows, mark
from mahala.support.files import previous_of
from mahala.support.model_files import ModelFileError, count_value, header_value, is_model_file, read_model
from mahala.support.parameters import Count, NonNegative, check_value

# Lines of another input, after one that was read to its end, that are not saved before more are read.
UNSAVED = 8
# Parameters in which a learner may differ from the saved one.
_FREE = ("record", "random_state")


@dataclass(frozen=True, slots=True)
class Learned:
    """A line that was learned from: whether it had been predicted correctly, and the record to print."""

    line: int
    right: bool
    record: dict[str, object]


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that could not be used; the model is unchanged."""

    line: int
    problem: str


class Stream:
    """Online learner that resumes where it stopped: its model file also stores the position in the input.

    Lines are processed one by one, so the model does not depend on when they arrive or where a run was interrupted.

    Parameters
    ----------
    path : the model file, which holds the learner and the position in its input; written by `save`
    learner : an online learner to start with if there is no model file; otherwise it must equal the saved one, or
        be None
    items : rows to which points may refer by number: an array, a memory map or CSR
    n_features : number of features of a new model; required if points are given as {feature: value}
    new_input : learn from the first line, regardless of the stored position
    new_items : accept other items than those of the saved position; rows may be appended without it. Items are
        recognised by their dtype, width and up to 256 of their rows, because they may be too many to read
    max_line : longer lines, in bytes, are malformed
    every, seconds : a save is `due` after this many lines or this much time

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
        new_items: bool = False,
        max_line: int = LONGEST,
        every: int = 10_000,
        seconds: float = 30.0,
    ) -> None:
        check_value(every, "every", Count)
        check_value(max_line, "max_line", Count)
        check_value(seconds, "seconds", NonNegative)
        if n_features is not None:
            check_value(n_features, "n_features", Count)
        self.path = os.fspath(path)
        self.new_input = new_input
        self.max_line = max_line
        self.every = every
        self.seconds = seconds
        self.skipped = 0  # lines at the start of the input that had been learned from before
        self.began_anew = False  # whether this is a new input, after another one was read to its end
        self._saved = Position()
        self._items: dict[str, Any] | None = None  # the items of the saved position
        self._saved_line = 0  # line of the last save in this input
        self._is_known = False  # whether the saved position is one in this input
        self._saved_at = time.monotonic()
        self._watched = False  # whether the first lines of another input are being read
        self._progress = Progress()
        self.learner: Any = _check_online(self._open(learner))
        self._saved_steps = self._n_steps()
        is_pair = isinstance(self.learner, PairLearner)
        is_adapter = isinstance(self.learner, QueryAdapter)
        self._reader = LineReader(
            PAIR if is_pair else IMPRESSION if is_adapter else TRIPLET,
            self._widths() if hasattr(self.learner, "n_features_in_") else (n_features, n_features),
            names=list(getattr(self.learner, "feature_names_in_", ())),
            items=items,
            taken=("line", "predicted" if is_pair else "right", "trust" if is_adapter else "margin"),
        )

        if items is not None:
            self._check_items(new_items)

    def _check_items(self, new_items: bool) -> None:
        """Raise ValueError if the items are not those of the saved position, perhaps with more rows."""
        items, known = self._reader.items, self._items
        if known is not None and not new_items:
            n_rows = count_value(known, "rows")
            if n_rows > items.shape[0] or digest_of_rows(items, n_rows) != known.get("digest"):
                raise ValueError(
                    f"items are not those from which {self.path} has learned, to which rows may only be appended; give "
                    "these, or pass new_items=True if row numbers are to mean the rows of another file"
                )
        self._items = {"rows": items.shape[0], "digest": digest_of_rows(items, items.shape[0])}

    def _open(self, learner: Any) -> Any:
        if not os.path.exists(self.path):
            if learner is None:
                raise FileNotFoundError(f"there is no model file {self.path}: give a learner to start with")
            folder = os.path.dirname(self.path) or "."
            if not os.path.isdir(folder):
                raise FileNotFoundError(f"{self.path} cannot be written because there is no folder {folder}")
            self._check_previous()
            return learner
        previous = previous_of(self.path)
        self._check_previous()
        try:
            known = load_learner(self.path)
        except ModelFileError as error:
            if not previous.exists():
                raise
            raise ModelFileError(
                f"{error}; the checkpoint before it is {previous}: copy it to {self.path} to resume from there"
            ) from error
        header, _ = read_model(self.path, "learner")
        if "stream" in header:
            try:
                position = header_value(header, "stream", dict)
                self._saved = Position.of(position)
                self._items = header_value(position, "items", dict, type(None)) if "items" in position else None
            except ModelFileError as error:
                raise ModelFileError(f"{self.path} has a damaged position: {error}") from None
        if learner is not None:
            _check_same(self.path, known, learner)
        return known

    def _check_previous(self) -> None:
        """Raise FileExistsError if a file that is not of a stream has the name of the last checkpoint but one."""
        previous = previous_of(self.path)
        if not previous.exists():
            return
        try:
            ours = "stream" in read_model(previous, "learner")[0]
        except ModelFileError:
            ours = is_model_file(previous) and os.path.exists(self.path)  # one of ours that was damaged
        if not ours:
            raise FileExistsError(
                f"{previous} must be free for the last checkpoint but one, but it is not one: rename it"
            )

    def learn(self, lines: Iterable[bytes]) -> Iterator[Learned | Malformed]:
        """Learn from the new lines, and yield a result for each; blank lines are counted but yield nothing.

        The lines are those of a binary file, including newlines. Lines that were learned from before are skipped
        immediately. Results are computed on demand, and `save` may be called between any two of them. A malformed
        line counts as read once the next result is requested; a malformed last line without a newline does not
        count, because it may be incomplete. ValueError is raised if the first lines refer to items that are not given.
        """
        unread = self._unread(iter(lines))
        self._saved_line = self._progress.lines
        return self._learn(unread)

    @property
    def due(self) -> bool:
        """Whether `every` lines or `seconds` have passed since the last save."""
        return (
            self._progress.lines - self._saved_line >= self.every or time.monotonic() - self._saved_at >= self.seconds
        )

    def save(self) -> bool:
        """Write model and position together if anything changed; return whether the file was written.

        The position in a new input is saved once something was learned from it.
        """
        position, steps = self._progress.position(), self._n_steps()
        changed = steps > self._saved_steps or (self._is_known and position != self._saved)
        if self._watched:
            return False  # the next lines may show that this input is an edited one
        if changed:
            self.learner._write(self.path, {"stream": asdict(position) | {"items": self._items}}, previous=True)
            self._saved, self._saved_steps, self._saved_line = position, steps, position.lines
            self._is_known = True
        self._saved_at = time.monotonic()
        return changed

    def _unread(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Return the lines that the model has not learned from: the rest, or all if this is a new input."""
        known = self._progress.position() if self._progress.lines else self._saved
        self._progress, progress = Progress(), Progress()
        self._is_known = self._watched = False
        if known.lines == 0 or self.new_input:
            return lines
        refusal = f"or pass new_input=True to learn from its first line as a new input: {self.path}"
        first: list[bytes] = []
        for line in lines:
            progress.add(line)
            if progress.lines <= HEAD:
                first.append(line)
                if progress.head[-1] != known.head[progress.lines - 1]:
                    if not known.ended:
                        raise ValueError(
                            f"the input differs in line {progress.lines} from the one that was read up to line "
                            f"{known.lines}, but not to its end; continue with that one, {refusal}"
                        )
                    return self._other(first, lines, known.marks, refusal)
            if progress.lines == known.lines:
                if progress.position().digest != known.digest:
                    raise ValueError(
                        f"the input was changed before line {known.lines}, up to which it has been read; give the "
                        f"original, {refusal}"
                    )
                self._progress, self.skipped, self._is_known = progress, known.lines, True
                return lines
        if progress.lines or not known.ended:
            raise ValueError(
                f"the input ends after {progress.lines} lines, but it had been read up to line {known.lines}; "
                f"give all of it, {refusal}"
            )
        return lines

    def _other(self, first: list[bytes], lines: Iterator[bytes], marks: list[str], refusal: str) -> Iterator[bytes]:
        """Return the lines of another input; raise ValueError once most of them are known, so that it was edited.

        Nothing is saved before that has shown itself. A line that the known input has twice says nothing.
        """
        error = ValueError(
            f"most of the first lines of the input are those of the one that was read to its end, but not all: give "
            f"the original, {refusal}"
        )
        known = {mark for mark, count in Counter(marks).items() if count == 1}
        shared = known & {mark(line) for line in first}
        if len(shared) > 1 and 2 * len(shared) > len(first):
            raise error
        self.began_anew = True

        def watched() -> Iterator[bytes]:
            self._watched = True
            yield from first
            for number, line in enumerate(lines, start=len(first) + 1):
                if number <= HEAD:
                    shared.update(known & {mark(line)})
                    if len(shared) > 1 and 2 * len(shared) > number:
                        raise error
                self._watched = number <= UNSAVED
                yield line
            self._watched = False

        return watched()

    def _learn(self, lines: Iterator[bytes]) -> Iterator[Learned | Malformed]:
        # Until a line is learned without items, one that refers to them is taken for one of many.
        needs_items = self._n_steps() == 0 or self._items is not None
        for line in lines:
            progress, whole = self._progress, line.endswith(b"\n")
            if line.isspace():
                if whole:
                    progress.add(line)
                continue
            try:
                length = int(line.split()[0]) if isinstance(line, LongLine) else len(line) - whole
                if length > self.max_line:
                    raise LineError(f"it has {length:,} bytes, but a line may have {self.max_line:,} at most")
                comparison, others = self._reader.read(line)
            except LineError as error:
                if isinstance(error, MissingItems) and needs_items:
                    raise ValueError(f"line {progress.lines + 1}: {error}") from None
                yield Malformed(progress.lines + 1, str(error))
                if whole:
                    progress.add(line)
                continue
            result = self._step(comparison)
            needs_items = False
            progress.add(line)
            right = result.pop("right") if isinstance(comparison, Pairs) else result["right"]
            # Of an impression, the share of pairs in the right order; one without pairs has none wrong.
            right = right is None or right >= 0.5
            yield Learned(progress.lines, right, {"line": progress.lines, **result, **others})
        self._progress.ended = True

    def _step(self, comparison: Pairs | Triplets | Impression) -> dict[str, Any]:
        """Learn from one comparison; return what had been predicted, and whether that was right."""
        if isinstance(comparison, Impression):
            query, shown, clicked, query_id, user = comparison
            share = self.learner.learn_one(query, shown, clicked, query_id=query_id, user=user)
            self._reader.widths = self._widths()
            return {"right": share, "trust": self.learner.trust_}
        self.learner.partial_fit(comparison)
        self._reader.widths = self._widths()
        y, p, predicted = self.learner._last_step
        result: dict[str, Any] = {"right": predicted == y}
        if isinstance(comparison, Pairs):
            result = {"similar": y == 1, "predicted": predicted == 1, **result}
        margin = self._margin(p, y)
        return result | ({"margin": margin} if math.isfinite(margin) else {})

    def _margin(self, p: float, y: int) -> float:
        """Return threshold minus squared distance, or the difference of similarities, before a step with loss p."""
        if isinstance(self.learner, LEGO):
            return math.nan  # its loss has no sign
        return 0.0 - y * p if isinstance(self.learner, RDML) else 0.0 + y * (getattr(self.learner, "margin_", 1.0) - p)

    def _n_steps(self) -> int:
        return getattr(self.learner, "n_steps_", getattr(self.learner, "n_impressions_", 0))

    def _widths(self) -> tuple[int, int]:
        n_features = self.learner.n_features_in_
        return n_features, getattr(self.learner, "n_item_features_", n_features)


def _check_online(learner: Any) -> OnlineMixin | QueryAdapter:
    if not isinstance(learner, OnlineMixin | QueryAdapter):
        raise TypeError(
            f"{type(learner).__name__} does not learn from one comparison at a time; give an online learner, "
            "such as PA for pairs, OASIS for triplets or QueryAdapter for impressions"
        )
    return learner


def _check_same(path: str, known: Any, learner: Any) -> None:
    """Raise ValueError if the learner differs from the saved one."""
    ours, theirs = type(known).__name__, type(learner).__name__
    advice = f"use another file, or omit the learner to continue with the saved {ours}"
    if ours != theirs:
        raise ValueError(f"{path} holds a {ours}, not a {theirs}: {advice}")
    wanted = learner.get_params(deep=False)
    for name, value in known.get_params(deep=False).items():
        if name not in _FREE and value != wanted[name]:
            raise ValueError(f"{path} holds a {ours} with {name}={value!r}, not {wanted[name]!r}: {advice}")
