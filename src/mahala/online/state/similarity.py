"""What the storages of a bilinear form M share: the rule of a step, chunks of triplets, late thresholds, state."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from mahala.comparisons import Triplets
from mahala.compiled.jit import Steps
from mahala.compiled.triplets.rows import CSR, LARGEST_CHANGE, Numbers, StepRule
from mahala.metric import BilinearMetric
from mahala.support.arrays import (
    BLOCK_BYTES,
    Arrays,
    BoolArray,
    FloatArray,
    RealArray,
    Rows,
    SignArray,
    block_size,
    slices,
)
from mahala.support.model_files import ModelFileError
from mahala.support.parameters import Where, is_number
from mahala.support.signals import uninterrupted
from mahala.support.states import Array, Entry, Fields, Group, Integer, Number, Stateful
from mahala.support.validation import is_sparse

# Entries of M read or written between two looks for Ctrl-C: about a second.
CHUNK_TOUCHES = 2**25
# From this share of zeros on, a full M that is not small is given out as a sparse matrix, which takes less memory.
SPARSE_SHARE = 2 / 3
SMALL = 2**16

# Longer steps than this are mistakes, not steps.
LONGEST_STEP = 1e20
StepLength = Annotated[
    float,
    Where(lambda value: is_number(value) and 0.0 < value <= LONGEST_STEP, f"a positive number up to {LONGEST_STEP:g}"),
]

_NONE: FloatArray = np.empty(0)
_ONE = np.ones(1, dtype=np.int8)
_FIRST, _SECOND, _THIRD = np.arange(3, dtype=np.intp)[:, np.newaxis]


class SimilarityRule(NamedTuple):
    """What a step does, for the whole family.

    The step length is τ = min(upper, l / (scale s + slack)), s = (xᵀΛx)(qᵀΓq); the rest is described by the learners.
    """

    scale: float
    slack: float
    upper: float
    eta: float = 0.0
    theta: float = 0.0  # ηλ
    exempt_diagonal: bool = False
    delta: float = 1.0
    late: bool = False  # whether entries are thresholded in every step
    adaptive: bool = False
    average: bool = False
    r: float = 0.0  # of the diagonal covariances Λ and Γ; 0 without them
    max_memory: float | None = None  # bytes that the model may take
    margin: float = 1.0  # by which a positive should be more similar than a negative

    def step(self, dtype: DTypeLike) -> StepRule:
        """The rule of the step length. AdaGrad's steps are no longer than η: only its sums must fit into M's dtype."""
        largest = LARGEST_CHANGE
        if self.adaptive:
            largest = 1e30 if np.dtype(dtype) == np.float32 else np.inf
        return self.scale, self.slack, self.upper, largest, self.margin

    @property
    def penalty(self) -> tuple[float, bool, float]:
        return self.theta, self.exempt_diagonal, self.delta

    @property
    def plain(self) -> bool:
        """Whether a step changes M by a multiple of x qᵀ and nothing else."""
        return not (self.late or self.adaptive or self.r)

    def layout(self, dtype: DTypeLike) -> tuple[int, bool, bool]:
        """The numbers kept of each entry: m, the step it was written, H, what S lacks in float32, S."""
        n_sums = self.average * (2 if np.dtype(dtype) == np.float32 else 1)
        return 1 + (self.late or self.average) + self.adaptive + n_sums, self.adaptive, self.average


class TripletChunk(NamedTuple):
    """Rows and items in CSR form, and the numbers of each triplet among them; y is 1 for each."""

    rows: CSR
    items: CSR
    numbers: Numbers
    y: SignArray

    def part(self, rows: slice) -> Self:
        """The triplets of a slice."""
        anchor, positive, negative = (column[rows] for column in self.numbers)
        return self._replace(numbers=(anchor, positive, negative), y=self.y[rows])

    def in_full(self, size: int, shape: tuple[int, int]) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield slices of up to `size` triplets, with their x and q as dense rows, for an M of this shape."""
        X, Y = (
            sp.csr_matrix((values, columns, indptr), shape=(len(indptr) - 1, width))
            for (indptr, columns, values), width in zip((self.rows, self.items), shape, strict=True)
        )
        for part in slices(len(self.y), size):
            anchor, positive, negative = (column[part] for column in self.numbers)
            yield part, X[anchor].toarray(), Y[positive].toarray() - Y[negative].toarray()


class SimilarityState(Stateful, ABC):
    """M of shape (d, e), which starts as `start` times the identity."""

    FIELDS: ClassVar[Fields] = (
        Integer("clock"),
        Group("initial", Number("initial_entry"), Number("initial_sum")),
        Group("penalty", Number("theta", least=0.0), Entry("exempt_diagonal"), Number("delta", least=0.0)),
        # What is left of variances that began as 1.
        Array("left", least=0.0, most=1.0),
        Array("right", least=0.0, most=1.0),
    )
    storage: ClassVar[str]

    def __init__(self, shape: tuple[int, int], start: float, rule: SimilarityRule, dtype: DTypeLike) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.max_memory = rule.max_memory
        self.layout = rule.layout(dtype)
        self.penalty = rule.penalty
        self.clock = 0  # steps since all entries were last settled
        self.n_steps = 0
        # m and S of a diagonal entry that no step has changed; S counts the first model.
        self.initial = (float(start), float(start) if rule.average else 0.0)
        self.left = self.right = _NONE
        self._complete = False  # whether the triplets to come are all that there will be
        # The clock counts in the numbers that M is held in, which are exact up to here.
        self.longest_clock = int(2 ** (np.finfo(self.dtype).nmant + 1)) - 1
        self._rule: SimilarityRule | None = None

    def prepare(self, triplets: Triplets, n_steps: int, complete: bool) -> Triplets:
        self._complete = complete
        return triplets

    def chunks(
        self, triplets: Triplets, n_steps: int, rule: SimilarityRule, stop_every: int | None
    ) -> Iterator[TripletChunk]:
        self.max_memory = rule.max_memory
        for part in _parts(triplets):
            with uninterrupted():  # new features are numbered here
                chunk = self._translated(part)
            if self._complete and len(part) == len(triplets):
                self.reserve(chunk)
            size = max(1, int(CHUNK_TOUCHES / max(1.0, self.cost(touches(part)))))
            for start in range(0, len(part), size):
                yield chunk.part(slice(start, start + size))

    def _translated(self, triplets: Triplets) -> TripletChunk:
        """Return the rows that the triplets compare, as the model takes them, and the triplets in their numbers."""
        columns = triplets.anchor, triplets.positive, triplets.negative
        y = np.ones(len(triplets), dtype=np.int8)
        if triplets.items is None:
            used, numbers = np.unique(np.stack(columns), return_inverse=True)
            rows = self.translate(triplets.X[used])
            anchor, positive, negative = numbers.reshape(3, -1)
            return TripletChunk(rows, rows, (anchor, positive, negative), y)
        used, anchor = np.unique(columns[0], return_inverse=True)
        rows = self.translate(triplets.X[used])
        used, numbers = np.unique(np.stack(columns[1:]), return_inverse=True)
        positive, negative = numbers.reshape(2, -1)
        return TripletChunk(rows, self.translate(triplets.items[used]), (anchor, positive, negative), y)

    def finish(self) -> None:
        """Do nothing: the steps ran in the coordinates of the rows."""

    def reserve(self, chunk: TripletChunk) -> None:
        """Make room for all that the triplets can touch, in a model that is as it started."""

    def feed_one(self, rows: FloatArray, items: FloatArray | None, rule: SimilarityRule) -> tuple[float, float, int]:
        """Take a step for one triplet; return its p, τ and predicted label.

        The triplet is three dense rows, or one row and two items.
        """
        p, tau, predicted = steps = np.empty(1), np.empty(1), np.empty(1, dtype=np.int8)
        own = self.translate(rows)
        if items is None:
            chunk = TripletChunk(own, own, (_FIRST, _SECOND, _THIRD), _ONE)
        else:
            chunk = TripletChunk(own, self.translate(items), (_FIRST, _FIRST, _SECOND), _ONE)
        self.feed(chunk, rule, steps)
        return p.item(), tau.item(), predicted.item()

    def feed(self, chunk: TripletChunk, rule: SimilarityRule, steps: Steps) -> None:
        """Take a step for each triplet; a MemoryError leaves the model as it is after `n_steps` steps."""
        self.max_memory = rule.max_memory
        if rule is not self._rule and rule.penalty != self.penalty:
            self.settle()
            self.penalty = rule.penalty
        total = len(chunk.y)
        done = 0
        while done < total:
            if self.clock >= self.longest_clock:
                self.settle()
            stop = min(total, done + self.longest_clock - self.clock)
            if stop - done == total:
                taken, stuck = self._stream(chunk, rule, steps)
            else:
                part = slice(done, stop)
                taken, stuck = self._stream(chunk.part(part), rule, (steps[0][part], steps[1][part], steps[2][part]))
            self.clock += taken
            self.n_steps += taken
            done += taken
            if stuck:
                self._make_room(stuck)

    def metric(self, **about: Any) -> BilinearMetric:
        M = self.matrix()
        if M.size > SMALL and not is_sparse(M) and np.count_nonzero(M) <= (1.0 - SPARSE_SHARE) * M.size:
            M = sp.csr_array(M)
        return BilinearMetric(M, **about)

    def settle(self) -> None:
        """Bring all entries to the present, from where the clock starts anew."""
        if self.layout[0] > 1:
            self._settle()
            numbers = self.untouched()
            self.bring_to_present(numbers, True)
            self.initial = float(numbers[0]), float(numbers[-1]) if self.layout[2] else 0.0
        self.clock = 0

    def untouched(self) -> FloatArray:
        """Return the numbers of a diagonal entry that no step has changed, written at step 0."""
        numbers = np.zeros(self.layout[0])
        numbers[0] = self.initial[0]
        if self.layout[2]:
            numbers[-1] = self.initial[1]
        return numbers

    def present(self, numbers: RealArray, diagonal: bool | BoolArray, n_averaged: int) -> FloatArray:
        """Return entries as they are at the clock, or, with n_averaged > 0, their means over so many models.

        The rows of `numbers` are the kinds of numbers of the layout; `diagonal` says which entries are on M's diagonal.
        """
        m: FloatArray = numbers[0].astype(np.float64)
        if len(numbers) == 1:
            return m
        theta, steps = self._thresholds(numbers, diagonal), self.clock - numbers[1].astype(np.float64)
        if not n_averaged:
            return late(m, steps * theta)
        return (self._sums(numbers) + late_sum(m, steps - 1.0, theta)) / n_averaged

    def bring_to_present(self, numbers: RealArray, diagonal: bool | BoolArray) -> None:
        """Apply all deferred thresholds up to the clock, which becomes step 0, to entries as in `present`."""
        m, theta = numbers[0].astype(np.float64), self._thresholds(numbers, diagonal)
        steps = self.clock - numbers[1].astype(np.float64)
        if self.layout[2]:
            total = self._sums(numbers) + late_sum(m, steps, theta)
            numbers[-1] = total
            if numbers.dtype == np.float32:
                numbers[-2] = total - numbers[-1]
        numbers[0], numbers[1] = late(m, steps * theta), 0.0

    def _thresholds(self, numbers: RealArray, diagonal: bool | BoolArray) -> FloatArray:
        """Return the soft threshold of each entry in a step."""
        theta, exempt_diagonal, delta = self.penalty
        each = theta / (delta + numbers[2].astype(np.float64) if self.layout[1] else 1.0)
        return np.where(diagonal, 0.0, each) if exempt_diagonal else np.asarray(each)

    def _sums(self, numbers: RealArray) -> FloatArray:
        """Return S, of which float32 holds the rest in a number of its own."""
        S: FloatArray = numbers[-1].astype(np.float64)
        return np.asarray(S + numbers[-2]) if self.dtype == np.float32 else S

    def settings(self, rule: SimilarityRule) -> Any:
        """Return what compiled code takes of a rule; for the same rule at no cost."""
        if rule is not self._rule:
            d, e = self.shape
            # AROMA's covariances shrink, each by the dimension of the other side.
            shrinkage = (1.0 / (rule.r * e), 1.0 / (rule.r * d)) if rule.r else (0.0, 0.0)
            self._rule, self._settings = rule, (rule.step(self.dtype), rule.penalty, rule.eta, shrinkage)
        return self._settings

    def cost(self, touched: float) -> float:
        """What a step costs, in entries read or written, where it is about so many."""
        return touched

    @property
    def n_averaged(self) -> int:
        """The number of models that the mean is taken of; 0 for the last model alone."""
        return self.n_steps if self.layout[2] else 0

    @abstractmethod
    def _stream(self, chunk: TripletChunk, rule: SimilarityRule, steps: Steps) -> tuple[int, int]:
        """Take steps until there is no more room; return how many, and a code of what is full."""

    def _make_room(self, stuck: int) -> None:
        """Make room where `_stream` found none; a full matrix always has room."""

    def _settle(self) -> None:
        """Bring all entries to the present, in a model whose entries are brought there late."""

    @abstractmethod
    def matrix(self) -> Any:
        """M as it is, or the mean of the models so far under `average`."""

    @abstractmethod
    def translate(self, X: Rows) -> CSR:
        """Return rows in the columns that the model works in, in order and without zeros."""

    @abstractmethod
    def add(self, change: Rows, total: Rows) -> None:
        """Add a matrix to an M that is as it began, and another one to S, if that is kept."""

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super().get_state()
        return header | {"storage": self.storage, "n_item_features": self.shape[1]}, arrays

    def set_state(self, header: dict[str, object], arrays: Arrays) -> None:
        exempts = self.penalty[1]
        super().set_state(header, arrays)
        if self.penalty[1] != exempts:
            raise ModelFileError(f"header entry 'exempt_diagonal' should be {exempts}, as the penalty says")

    def _check(self) -> None:
        if self.clock > min(self.n_steps, self.longest_clock):
            raise ModelFileError(f"header entry 'clock' should not be beyond {self.n_steps} steps, found {self.clock}")
        if self.shape[0] != self.shape[1] and self.initial != (0.0, 0.0):
            raise ModelFileError("header entries 'initial_entry' and 'initial_sum' should be 0 where M is not square")
        theta, _, delta = self.penalty
        if not (delta > 0.0 and np.isfinite(theta / delta)):
            raise ModelFileError("header entry 'delta' should be positive, and 'theta' in proportion")

    def _check_entries(self, numbers: RealArray) -> None:
        """Refuses a file whose entries, a row of `numbers` for each kind of number, cannot have come about."""
        width, adaptive, _ = self.layout
        if width > 1 and (numbers[1].min(initial=0.0) < 0.0 or numbers[1].max(initial=0.0) > self.clock):
            raise ModelFileError(f"entries should have been written at steps from 0 to {self.clock}")
        if adaptive and numbers[2].min(initial=0.0) < 0.0:
            raise ModelFileError("AdaGrad's sums should not be negative")


def late(m: FloatArray, shrinkage: FloatArray) -> FloatArray:
    """Apply the soft thresholds that have accumulated since entries were written."""
    return m - np.clip(m, -shrinkage, shrinkage)


def late_sum(m: FloatArray, steps: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the sums of soft(m, k θ) over k = 1..steps."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.fmin(steps, np.floor(np.abs(m) / theta))  # with θ = 0 that is infinite, or not a number
    return steps * m - np.sign(m) * theta * steps * (steps + 1.0) / 2.0


def tidy(X: Any) -> Any:
    """Return a copy of rows as CSR in float64, with sorted columns, each at most once, and without stored zeros."""
    rows = sp.csr_matrix(X, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def items_of(triplets: Triplets) -> Rows:
    """Return the rows that anchors are compared with."""
    items: Rows = triplets.X if triplets.items is None else triplets.items
    return items


def touches(triplets: Triplets) -> float:
    """Return how many entries of M a triplet reads on average: nnz(x) · nnz(q)."""
    items = items_of(triplets)
    sides = triplets.X, items
    x, q = (side.nnz / side.shape[0] if is_sparse(side) else float(side.shape[1]) for side in sides)
    return x * min(2.0 * q, float(items.shape[1]))


def _parts(triplets: Triplets) -> Iterator[Triplets]:
    """Yield as many triplets of dense rows at a time as a sparse copy of them fits into bounded memory."""
    sides = [triplets.X] if triplets.items is None else [triplets.X, triplets.items]
    width = max(0 if hasattr(side, "indptr") else side.shape[1] for side in sides)
    size = len(triplets)
    if width and sum(side.shape[0] for side in sides) * width > BLOCK_BYTES // 8:
        size = max(64, block_size(width) // 3)
    return (triplets[start : start + size] for start in range(0, len(triplets), size))
