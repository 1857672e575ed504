"""What an online learner saw and did, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Signs = NDArray[np.int8]

_RECORD = np.dtype([("y", np.int8), ("predicted", np.int8), ("p", np.float64), ("tau", np.float64)])


@dataclass(frozen=True, eq=False)
class History:
    """One entry a step: the label y, the label predicted before the update, the signed loss p, the step length τ.

    `rank_steps` and `ranks` hold the effective dimension (rank of M's positive part) where it was recorded.
    """

    y: Signs
    predicted: Signs
    p: Floats
    tau: Floats
    rank_steps: NDArray[np.int64]
    ranks: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Whether the step changed the model."""
        return np.not_equal(self.tau, 0.0)

    @property
    def loss(self) -> Floats:
        """The hinge loss [p]₊ suffered at each step."""
        return np.maximum(self.p, 0.0)

    @property
    def passive_share(self) -> float:
        """Share of steps that left the model as it was."""
        return float(np.mean(~self.moved)) if len(self) else 0.0

    def error_curve(self) -> Floats:
        """Predictive 0-1 error up to and including each step."""
        return np.cumsum(self.predicted != self.y) / np.arange(1, len(self) + 1)

    def cumulated_loss(self, *, squared: bool = False) -> Floats:
        """Hinge loss (or its square) summed up to and including each step."""
        return np.cumsum(self.loss**2 if squared else self.loss)


class Recorder:
    """Collects a History in memory that doubles as it fills, so that a step costs O(1)."""

    def __init__(self) -> None:
        self._records = np.empty(64, dtype=_RECORD)
        self._n = 0
        self._ranks: list[tuple[int, int]] = []

    def add(self, y: Signs, predicted: Signs, p: Floats, tau: Floats) -> None:
        stop = self._n + len(y)
        if stop > len(self._records) or not self._records.flags.writeable:
            grown = np.empty(max(stop, 2 * len(self._records)), dtype=_RECORD)
            grown[: self._n] = self._records[: self._n]
            self._records = grown
        rows = self._records[self._n : stop]
        rows["y"], rows["predicted"], rows["p"], rows["tau"] = y, predicted, p, tau
        self._n = stop

    def add_rank(self, step: int, rank: int) -> None:
        self._ranks.append((step, rank))

    def history(self) -> History:
        columns = {name: self._records[name][: self._n].copy() for name in ("y", "predicted", "p", "tau")}
        steps, ranks = np.array(self._ranks, dtype=np.int64).reshape(-1, 2).T
        for array in (*columns.values(), steps, ranks):
            array.flags.writeable = False
        return History(**columns, rank_steps=steps, ranks=ranks)

    @classmethod
    def of(cls, history: History) -> Recorder:
        self = cls()
        self.add(history.y, history.predicted, history.p, history.tau)
        self._ranks = list(zip(history.rank_steps.tolist(), history.ranks.tolist(), strict=True))
        return self
