"""What the two ways to store a bilinear form M share: the rule of a step, the clock, late thresholds, their state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mahala.compiled.triplets import CSR as Rows
from mahala.compiled.triplets import LARGEST_CHANGE, StepRule, late, late_sum
from mahala.support.model_files import ModelFileError, finite_array, header_value, number_value

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Steps = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int8]]  # p, τ, predicted

_NONE: NDArray[np.float64] = np.empty(0)


class Rule(NamedTuple):
    """What a step does, for the whole family.

    The step length is τ = min(upper, l / (scale s + slack)), s = (xᵀΛx)(qᵀΓq); all else as the learners say.
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
    r: float = 0.0  # of the diagonal covariances Λ and Γ; 0 where there are none

    def step(self, dtype: DTypeLike) -> StepRule:
        """The rule of the step length. AdaGrad's steps are no longer than η: only its sums must fit into M's dtype."""
        largest = LARGEST_CHANGE
        if self.adaptive:
            largest = 1e30 if np.dtype(dtype) == np.float32 else np.inf
        return self.scale, self.slack, self.upper, largest

    @property
    def penalty(self) -> tuple[float, bool, float]:
        return self.theta, self.exempt_diagonal, self.delta

    @property
    def layout(self) -> tuple[int, bool, bool]:
        """The numbers kept of each entry: m, the step it was written, H, S."""
        return 1 + (self.late or self.average) + self.adaptive + self.average, self.adaptive, self.average


class SimilarityModel(ABC):
    """M of shape (d, e), which begins as `start` times the identity."""

    def __init__(self, shape: tuple[int, int], start: float, rule: Rule, dtype: DTypeLike, max_memory: float | None):
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.max_memory = max_memory
        self.layout = rule.layout
        self.penalty = rule.penalty
        self.clock = 0  # steps since all entries were last settled
        self.n_steps = 0
        # m and S of a diagonal entry that no step has changed; S counts the first model.
        self.virgin = (float(start), float(start) if rule.average else 0.0)
        self.left = self.right = _NONE

    def feed(self, rows: Rows, items: Rows, triplets: tuple[Ints, Ints, Ints], rule: Rule, steps: Steps) -> None:
        """One step for each triplet. A MemoryError leaves the model as it is after `n_steps` steps."""
        if rule.penalty != self.penalty:
            self.settle()
            self.penalty = rule.penalty
        total = len(triplets[0])
        most = self._longest_clock()
        done = 0
        while done < total:
            if self.clock >= most:
                self.settle()
            part = slice(done, min(total, done + most - self.clock))
            taken, stuck = self._stream(
                rows,
                items,
                (triplets[0][part], triplets[1][part], triplets[2][part]),
                rule,
                (steps[0][part], steps[1][part], steps[2][part]),
            )
            self.clock += taken
            self.n_steps += taken
            done += taken
            if stuck:
                self._make_room(stuck)

    def _longest_clock(self) -> int:
        """The clock counts in the numbers that M is held in, which are exact up to here."""
        return int(2 ** (np.finfo(self.dtype).nmant + 1)) - 1

    def settle(self) -> None:
        """Bring all entries to the present, from where the clock starts anew."""
        if self.layout[0] > 1:
            self._settle()
            m, S = self.virgin
            theta = 0.0 if self.penalty[1] else self.penalty[0] / self.penalty[2]
            if self.layout[2]:
                S += late_sum(m, float(self.clock), theta)
            self.virgin = (late(m, self.clock * theta), S)
        self.clock = 0

    def _own(self, *names: str) -> None:
        """Copies of arrays that are read-only since the model was loaded as a memory map."""
        for name in names:
            if not getattr(self, name).flags.writeable:
                setattr(self, name, getattr(self, name).copy())

    def shrinkage(self, rule: Rule) -> tuple[float, float]:
        """How much AROMA's covariances shrink: each by the other side's dimension."""
        d, e = self.shape
        return (1.0 / (rule.r * e), 1.0 / (rule.r * d)) if rule.r else (0.0, 0.0)

    def cost(self, touched: float) -> float:
        """What a step costs, in entries read or written, where it is about so many."""
        return touched

    @property
    def n_averaged(self) -> int:
        """The number of models that the mean is taken of; 0 for the last model alone."""
        return self.n_steps if self.layout[2] else 0

    @abstractmethod
    def _stream(
        self, rows: Rows, items: Rows, triplets: tuple[Ints, Ints, Ints], rule: Rule, steps: Steps
    ) -> tuple[int, int]:
        """Steps until there is no more room: how many, and what is full."""

    @abstractmethod
    def _make_room(self, stuck: int) -> None: ...

    @abstractmethod
    def _settle(self) -> None: ...

    @abstractmethod
    def matrix(self) -> Any:
        """M as it is, or the mean of the models so far under `average`."""

    @abstractmethod
    def translate(self, X: Any) -> Rows:
        """Rows in the columns that the model works in, in order and without zeros."""

    @abstractmethod
    def add(self, change: Any, total: Any) -> None:
        """Add a matrix to an M that is as it began, and another one to S, if that is kept."""

    def get_state(self) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
        theta, exempt, delta = self.penalty
        header: dict[str, object] = {
            "clock": self.clock,
            "virgin": self.virgin[0],
            "virgin_sum": self.virgin[1],
            "theta": theta,
            "exempt_diagonal": exempt,
            "delta": delta,
        }
        return header, {"left": self.left, "right": self.right}

    def set_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], n_steps: int) -> None:
        """What `get_state` gave; nothing that compiled code could stumble over gets through."""
        self.n_steps = n_steps
        self.clock = int(number_value(header, "clock", least=0.0))
        if self.clock > min(n_steps, self._longest_clock()) or n_steps > np.iinfo(np.int64).max:
            raise ModelFileError(f"header entry 'clock' should not be beyond {n_steps} steps, found {self.clock}")
        self.virgin = (number_value(header, "virgin"), number_value(header, "virgin_sum"))
        if self.shape[0] != self.shape[1] and self.virgin != (0.0, 0.0):
            raise ModelFileError("header entries 'virgin' and 'virgin_sum' should be 0 where M is not square")
        theta, delta = number_value(header, "theta", least=0.0), number_value(header, "delta", least=0.0)
        if not (delta > 0.0 and np.isfinite(theta / delta)):
            raise ModelFileError("header entry 'delta' should be positive, and 'theta' in proportion")
        exempt = self.penalty[1]
        if header_value(header, "exempt_diagonal", bool) != exempt:
            raise ModelFileError(f"header entry 'exempt_diagonal' should be {exempt}, as the penalty says")
        self.penalty = theta, exempt, delta
        if len(self.left):
            self.left, self.right = (
                _shares(arrays, name, side.shape) for name, side in (("left", self.left), ("right", self.right))
            )

    def _check_entries(self, numbers: NDArray[Any]) -> None:
        """Refuses a file whose entries, a row of `numbers` for each kind of number, cannot have come about."""
        width, adaptive, _ = self.layout
        if width > 1 and (numbers[1].min(initial=0.0) < 0.0 or numbers[1].max(initial=0.0) > self.clock):
            raise ModelFileError(f"entries should have been written at steps from 0 to {self.clock}")
        if adaptive and numbers[2].min(initial=0.0) < 0.0:
            raise ModelFileError("AdaGrad's sums should not be negative")


def _shares(arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """What is left of variances that began as 1."""
    array = finite_array(arrays, name, shape).copy()
    if array.min() < 0.0 or array.max() > 1.0:
        raise ModelFileError(f"array {name!r} should hold numbers from 0 to 1")
    return array


def tidy(X: Any) -> Any:
    """A copy of rows, dense or sparse, as CSR in float64: columns in order, each at most once, none of them zero."""
    rows = sp.csr_matrix(X, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows
