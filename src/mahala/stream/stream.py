"""Stream: an online learner that reads lines, and resumes where it stopped."""

import math
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from mahala.comparisons import Pairs
from mahala.comparisons.json_lines import LineError, LineReader, MissingItems, PairReader, TripletReader
from mahala.online.lego import LEGO
from mahala.online.online_learner import OnlineLearner
from mahala.online.pair_learner import PairLearner
from mahala.online.rdml import RDML
from mahala.saved_estimator import SavedEstimator
from mahala.stream.checkpoint import open_checkpoint
from mahala.stream.input import LONGEST, LongLine, Position, Progress, skip_read
from mahala.support.arrays import RowsLike
from mahala.support.parameters import Count, NonNegative, ParameterError, check_value


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
    parameters: tuple[str, ...] = field(default=(), repr=False)
    """Parameters that `problem` names."""


class Stream:
    """Online learner that resumes where it stopped: its model file also stores the position in the input.

    Lines are processed one by one, so the model does not depend on when they arrive or where a run was interrupted.

    Parameters
    ----------
    path : str or path
        Model file, which holds the learner and the position in its input; written by `save`.
    learner : online learner or None, default=None
        Learner to start with if there is no model file. Otherwise it must equal the saved one, or be None.
    items : array, memory map or CSR matrix, default=None
        Rows to which points may refer by number. To later runs, give the same rows; more may be appended.
    n_features : int or None, default=None
        Number of features of a new model; required if points are given as {feature: value}.
    new_input : bool, default=False
        Learn from the first line of another input, instead of after the stored position.
    max_line : int, default=2**24
        Longer lines, in bytes, are malformed.
    every : int, default=10,000
        Number of lines after which a save is `due`.
    seconds : float, default=30.0
        Time after which a save is `due`.

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
        learner: SavedEstimator | None = None,
        *,
        items: "RowsLike | None" = None,
        n_features: int | None = None,
        new_input: bool = False,
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
        self.learner, self._saved, self._has_items = open_checkpoint(self.path, learner)
        self._has_items |= items is not None
        if not isinstance(self.learner, OnlineLearner):
            raise TypeError(
                f"{type(self.learner).__name__} does not learn from one comparison at a time; give an online learner, "
                "such as PA for pairs or OASIS for triplets"
            )
        self._saved_steps = self._n_steps()
        self._saved_line = 0  # line of the last save in this input
        self._saved_at = time.monotonic()
        self._progress = Progress()
        self._is_known = False  # whether the saved position is one in this input
        self.skipped = 0
        """Number of lines at the start of the input that had been learned from before."""
        reader: type[LineReader[Any]] = PairReader if isinstance(self.learner, PairLearner) else TripletReader
        self._reader = reader(
            self._widths() if hasattr(self.learner, "n_features_in_") else (n_features, n_features),
            names=list(getattr(self.learner, "feature_names_in_", ())),
            items=items,
        )

    def learn(self, lines: Iterable[bytes]) -> Iterator[Learned | Malformed]:
        """Learn from the new lines, and yield a result for each; blank lines are counted but yield nothing.

        The lines are those of a binary file, including newlines. Lines that were learned from before are skipped
        immediately; ValueError is raised if the input has other lines there. Results are computed on demand, and `save`
        may be called between any two of them. A malformed line counts as read once the next result is requested; a
        malformed last line without a newline does not count, because it may be incomplete. ValueError is raised if the
        first lines refer to items that are not given.
        """
        read = self._progress.position() if self._progress.lines else self._saved
        unread = iter(lines)
        # An input that is refused leaves the position in the last one.
        self._progress = skip_read(unread, Position() if self.new_input else read, self.path)
        self.skipped = self._saved_line = self._progress.lines
        self._is_known = self.skipped > 0
        return self._learn(unread)

    @property
    def due(self) -> bool:
        """Whether `every` lines or `seconds` have passed since the last save."""
        unsaved = self._progress.lines - self._saved_line
        return unsaved >= self.every or time.monotonic() - self._saved_at >= self.seconds

    def save(self) -> bool:
        """Write model and position together if anything changed; return whether the file was written.

        The position in a new input is saved once something was learned from it.
        """
        position, steps = self._progress.position(), self._n_steps()
        changed = steps > self._saved_steps or (self._is_known and position != self._saved)
        if changed:
            entry = asdict(position) | {"items": self._has_items}
            self.learner._write(self.path, {"stream": entry}, previous=True)
            self._saved, self._saved_steps, self._saved_line = position, steps, position.lines
            self._is_known = True
        self._saved_at = time.monotonic()
        return changed

    def _learn(self, lines: Iterator[bytes]) -> Iterator[Learned | Malformed]:
        # Until a line is learned without items, one that refers to them is taken for one of many.
        needs_items = self._n_steps() == 0 or self._has_items
        for line in lines:
            progress, has_end = self._progress, line.endswith(b"\n")
            if line.isspace():
                if has_end:
                    progress.add(line)
                continue
            try:
                length = line.length if isinstance(line, LongLine) else len(line) - has_end
                if length > self.max_line:
                    raise LineError(f"it has {length:,} bytes, but a line may have {self.max_line:,} at most")
                comparison, others = self._reader.read(line)
            except LineError as error:
                if isinstance(error, MissingItems) and needs_items:
                    raise ParameterError(f"line {progress.lines + 1}: {error}", *error.parameters) from None
                yield Malformed(progress.lines + 1, str(error), error.parameters)
                if has_end:
                    progress.add(line)
                continue
            right, result = self._step(comparison)
            self._reader.widths = self._widths()
            needs_items = False
            progress.add(line)
            yield Learned(progress.lines, right, {"line": progress.lines, **result, **others})

    def _step(self, comparison: Any) -> tuple[bool, dict[str, Any]]:
        """Learn from one comparison; return whether it had been predicted correctly, and what to print."""
        learner = self.learner
        learner.partial_fit(comparison)
        y, p, predicted = learner._last_step
        is_pair, right = isinstance(comparison, Pairs), predicted == y
        result: dict[str, Any] = {"similar": y == 1, "predicted": predicted == 1} if is_pair else {"right": right}
        # Threshold minus squared distance, or the difference of similarities, before a step with loss p.
        margin = 0.0 - y * p if isinstance(learner, RDML) else 0.0 + y * (getattr(learner, "margin_", 1.0) - p)
        if math.isfinite(margin) and not isinstance(learner, LEGO):  # whose loss has no sign
            result["margin"] = margin
        return right, result

    def _n_steps(self) -> int:
        return getattr(self.learner, "n_steps_", 0)

    def _widths(self) -> tuple[int, int]:
        n_features = self.learner.n_features_in_
        return n_features, getattr(self.learner, "n_item_features_", n_features)
