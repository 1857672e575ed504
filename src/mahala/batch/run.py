"""The iterations of one fit: the model after each of them, callbacks and the record of objectives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from mahala.compiled.threads import transposed_product
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray, RealArray
from mahala.support.limits import out_of_time
from mahala.support.parameters import Count, NonNegative, ReadableSignature

# What is learned: "L" with M = LᵀL, "M" itself or the weights "w" of a diagonal M; and what a warm start needs. If it
# is mixed with the identity, "weights" has the weights of both.
Model = dict[str, RealArray]


@dataclass(frozen=True, eq=False)
class Iteration:
    """The state of a fit after one iteration, which is the argument of a callback.

    Attributes
    ----------
    number : int
        Number of the iteration, from 1.
    objective : float
        Value of the objective after the iteration.
    metric : MahalanobisMetric
        The metric learned so far. It is computed on first access.
    """

    number: int
    objective: float
    model: Model

    @cached_property
    def metric(self) -> MahalanobisMetric:
        return MahalanobisMetric(matrix_of(self.model))


# A function that is called after each iteration of a fit and ends the fit by returning a true value.
Callback = Callable[[Iteration], object]


@dataclass(eq=False, repr=False, kw_only=True)
class IterationParams(ReadableSignature):
    """Parameters of the learners that iterate; each learner sets its own defaults of `max_iter` and `tol`."""

    max_iter: Count = 100
    tol: NonNegative = 1e-6
    warm_start: bool = False
    callback: Callback | None = None
    verbose: bool = False


@dataclass(eq=False)
class Run:
    """The iterations of one fit: their limits, the objective after each of them and the last model.

    `rng` draws what is random. `warm` is the model of an earlier fit from which this one starts, or None; `resumes`
    says whether the fit continues with more data.
    """

    callback: Callback | None = None
    show: Callable[[int, float], None] = lambda number, objective: None
    max_iter: int = 1
    tol: float = 0.0
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    warm: Model | None = None
    resumes: bool = False
    objectives: list[float] = field(default_factory=list)
    first: Model | Callable[[], Model] | None = None  # at the start of a descent; empty if that is learned, too
    asked_to_stop: bool = False
    _model: Model | Callable[[], Model] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """The last model; empty before the first iteration."""
        if not isinstance(self._model, dict):
            self._model = self._model()
        return self._model

    def step(self, objective: float, model: Model | Callable[[], Model]) -> bool:
        """Record an iteration and return whether the callback or a time limit asks to stop.

        The model must not be modified later. One that takes long to compute is given as a function that returns it.
        """
        self.objectives.append(float(objective))
        self._model = model
        number = len(self.objectives)
        self.show(number, float(objective))
        if self.callback is not None:
            self.asked_to_stop = bool(self.callback(Iteration(number, float(objective), self.model)))
        return self.asked_to_stop or out_of_time()

    def back_to(self, n: int, model: Model) -> None:
        """Forget all but the first n iterations, after which the model was `model`."""
        del self.objectives[n:]
        self._model = model if n else {}


def check_n_components(n_components: float | None, most: int, what: str) -> None:
    """Raise ValueError if there are to be more components than `most`, the number of `what`."""
    if n_components is not None and n_components > most:
        raise ValueError(f"n_components must be at most {most}, {what}, got {n_components}")


def in_precision(L: RealArray, dtype: DTypeLike) -> RealArray:
    """Return a map in the dtype of the rows, or unchanged if its numbers are too large for squares of float32."""
    return L.astype(dtype) if np.abs(L).max() < 1e18 else L


def matrix_of(model: Model) -> FloatArray:
    """Return M in float64."""
    if "weights" in model:
        learned, plain = model["weights"].tolist()
        M = matrix_of({key: value for key, value in model.items() if key != "weights"})
        return np.asarray(learned * M + plain * np.eye(len(M)))
    if "w" in model:
        return np.diag(model["w"].astype(np.float64))
    if "M" in model:
        return model["M"].astype(np.float64)
    L = model["L"].astype(np.float64)
    return np.asarray(transposed_product(L, L))
