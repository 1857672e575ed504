"""The record of what an online learner saw and did at each step."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mahala.support.arrays import Arrays, BoolArray, FloatArray, IntArray, SignArray
from mahala.support.model_files import ModelFileError, array_value

_COLUMNS = {"y": np.int8, "predicted": np.int8, "p": np.float64, "tau": np.float64}
_RANKS = {"rank_steps": np.int64, "ranks": np.int64}
RECORD = np.dtype(list(_COLUMNS.items()))


@dataclass(frozen=True, eq=False)
class History:
    """What an online learner saw and did at each step.

    Attributes
    ----------
    y, predicted : arrays of +1 / -1, the label of each step and the label predicted before the update
    p : array of float, the signed loss of each step
    tau : array of float, the step length τ; 0 where the model did not change
    rank_steps, ranks : arrays of int, the steps at which the effective dimension (the rank of M's positive part) was
        recorded, and its values
    n_dropped : int, the number of steps that were not kept: the first ones, unless `record` was changed in between
    """

    y: SignArray
    predicted: SignArray
    p: FloatArray
    tau: FloatArray
    rank_steps: IntArray
    ranks: IntArray
    n_dropped: int = 0

    @classmethod
    def of(cls, records: NDArray[np.void], ranks: list[tuple[int, int]], n_steps: int) -> Self:
        """Build a history from an array of RECORD, from (step, rank) pairs and from the number of steps taken."""
        columns = {name: records[name].copy() for name in _COLUMNS}
        columns["rank_steps"], columns["ranks"] = np.array(ranks, dtype=np.int64).reshape(-1, 2).T
        for array in columns.values():
            array.flags.writeable = False
        return cls(**columns, n_dropped=n_steps - len(records))

    def to_arrays(self) -> Arrays:
        """Return the history as arrays for a model file."""
        return {f"history.{name}": getattr(self, name) for name in (*_COLUMNS, *_RANKS)}

    @staticmethod
    def read(arrays: Arrays) -> tuple[NDArray[np.void], list[tuple[int, int]]]:
        """Return the records and the (step, rank) pairs of what `to_arrays` returned."""
        columns: Arrays = {}
        for group in (_COLUMNS, _RANKS):
            part = {name: array_value(arrays, f"history.{name}", dtype, (None,)) for name, dtype in group.items()}
            if len({len(column) for column in part.values()}) != 1:
                raise ModelFileError(f"the arrays of history {tuple(group)} should have the same length")
            columns |= part
        records = np.empty(len(columns["y"]), dtype=RECORD)
        for name in _COLUMNS:
            records[name] = columns[name]
        return records, list(zip(columns["rank_steps"].tolist(), columns["ranks"].tolist(), strict=True))

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
