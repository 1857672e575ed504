"""The record of what an online learner saw and did at each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.support.arrays import BoolArray, FloatArray, IntArray, SignArray
from mahala.support.model_files import ModelFileError, array_value

_RANKS = {"rank_steps": np.int64, "ranks": np.int64}
_COLUMNS = {"y": np.int8, "predicted": np.int8, "p": np.float64, "tau": np.float64}
_RECORD = np.dtype(list(_COLUMNS.items()))


@dataclass(frozen=True, eq=False)
class History:
    """What happened at each step: the label y, the label predicted before the update, the signed loss p and the step
    length τ, one entry per step.

    `rank_steps` and `ranks` hold the steps at which the effective dimension (the rank of M's positive part) was
    recorded, and its values.
    """

    y: SignArray
    predicted: SignArray
    p: FloatArray
    tau: FloatArray
    rank_steps: IntArray
    ranks: IntArray

    def __len__(self) -> int:
        return len(self.y)

    @property
    def moved(self) -> BoolArray:
        """Whether each step changed the model."""
        return np.not_equal(self.tau, 0.0)

    @property
    def loss(self) -> FloatArray:
        """The hinge loss [p]₊ suffered at each step."""
        return np.maximum(self.p, 0.0)

    @property
    def passive_share(self) -> float:
        """Share of steps that did not change the model."""
        return float(np.mean(~self.moved)) if len(self) else 0.0

    def error_curve(self) -> FloatArray:
        """Return the predictive 0-1 error up to and including each step."""
        return np.cumsum(self.predicted != self.y) / np.arange(1, len(self) + 1)

    def cumulated_loss(self, *, squared: bool = False) -> FloatArray:
        """Return the hinge loss, or its square, summed up to and including each step."""
        return np.cumsum(self.loss**2 if squared else self.loss)


class Recorder:
    """Collects a History; its memory doubles as it fills, so that a step costs O(1)."""

    def __init__(self) -> None:
        self._records = np.empty(64, dtype=_RECORD)
        self._n = 0
        self._ranks: list[tuple[int, int]] = []

    def add(self, y: SignArray, predicted: SignArray, p: FloatArray, tau: FloatArray) -> None:
        stop = self._n + len(y)
        if stop > len(self._records) or not self._records.flags.writeable:
            self._grow(stop)
        rows = self._records[self._n : stop]
        rows["y"], rows["predicted"], rows["p"], rows["tau"] = y, predicted, p, tau
        self._n = stop

    def add_one(self, y: int, predicted: int, p: float, tau: float) -> None:
        """Add one step, as `add` does at a greater cost."""
        if self._n == len(self._records) or not self._records.flags.writeable:
            self._grow(self._n + 1)
        self._records[self._n] = y, predicted, p, tau
        self._n += 1

    def _grow(self, least: int) -> None:
        grown = np.empty(max(least, 2 * len(self._records)), dtype=_RECORD)
        grown[: self._n] = self._records[: self._n]
        self._records = grown

    def add_rank(self, step: int, rank: int) -> None:
        self._ranks.append((step, rank))

    def history(self) -> History:
        columns = {name: self._records[name][: self._n].copy() for name in _COLUMNS}
        steps, ranks = np.array(self._ranks, dtype=np.int64).reshape(-1, 2).T
        for array in (*columns.values(), steps, ranks):
            array.flags.writeable = False
        return History(**columns, rank_steps=steps, ranks=ranks)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the record as arrays for a model file."""
        history = self.history()
        return {f"history.{name}": getattr(history, name) for name in (*_COLUMNS, *_RANKS)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Recorder:
        """Restore the record that `arrays` returned."""
        self = cls()
        read: dict[str, NDArray[Any]] = {}
        for group in (_COLUMNS, _RANKS):
            own = {name: array_value(arrays, f"history.{name}", dtype, (None,)) for name, dtype in group.items()}
            if len({len(column) for column in own.values()}) != 1:
                raise ModelFileError(f"the arrays of history {tuple(group)} should have the same length")
            read |= own
        self.add(**{name: read[name] for name in _COLUMNS})
        self._ranks = list(zip(read["rank_steps"].tolist(), read["ranks"].tolist(), strict=True))
        return self
