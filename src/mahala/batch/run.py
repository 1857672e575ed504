"""One fit as it goes, iteration by iteration, and the model that it has reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.metric import MahalanobisMetric

Floats = NDArray[Any]  # of float32 or float64
# What is learned: "L" with M = LᵀL, "M" itself, or the weights "w" of a diagonal M; beside it what a warm start needs.
Model = dict[str, Floats]


@dataclass(frozen=True, eq=False)
class Iteration:
    """What a callback sees after an iteration: its number from 1 up, the objective reached, the metric so far."""

    number: int
    objective: float
    model: Model

    @cached_property
    def metric(self) -> MahalanobisMetric:
        return MahalanobisMetric(matrix_of(self.model))


Callback = Callable[[Iteration], object]


class Run:
    """One fit as it goes: what each iteration reached, and who wants to know."""

    def __init__(self, callback: Callback | None, show: Callable[[int, float], None]) -> None:
        self._callback = callback
        self._show = show
        self.objectives: list[float] = []
        self.model: Model | None = None

    def step(self, objective: float, model: Model) -> bool:
        """Note an iteration, whose arrays nobody writes to any more; true where the callback wants an end."""
        self.objectives.append(float(objective))
        self.model = model
        self._show(len(self.objectives), float(objective))
        return self._callback is not None and bool(
            self._callback(Iteration(len(self.objectives), float(objective), model))
        )

    def back_to(self, n: int, model: Model) -> None:
        """Forget all but the first n iterations, which had reached this model."""
        del self.objectives[n:]
        self.model = model if n else None


def matrix_of(model: Model) -> NDArray[np.float64]:
    """M in float64."""
    if "w" in model:
        return np.diag(model["w"].astype(np.float64))
    if "M" in model:
        return model["M"].astype(np.float64)
    L = model["L"].astype(np.float64)
    product: NDArray[np.float64] = L.T @ L
    return product
