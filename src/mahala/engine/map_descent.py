"""Steps of a linear map down the logistic loss of comparisons, a minibatch at a time, with the arrays of any engine."""

import math
from types import ModuleType
from typing import NamedTuple

import numpy as np

from mahala.compiled.threads import PER_NUMBER, in_rows, n_threads, product
from mahala.support.arrays import Arrays, DeviceArray, FloatArray, RealArray, StoredRows, memory_limit

# Shares of the old value in the running means of the gradient and of its squared norm.
MOMENTUM, MEMORY = 0.9, 0.99
# The length of a step is this share of the norm of the first map divided by the number of steps, but at most the
# second one. It rises during the first steps, which follow few gradients, and then falls to zero.
TRAVEL, LONGEST_STEP, RISE = 30.0, 0.1, 0.02
# How much of this machine's memory rows may take that are read from elsewhere.
SHARE_OF_MEMORY = 0.5
# exp of a larger number may overflow.
_LARGEST_EXPONENT = 80.0
_TINY = 1e-30


class DeviceArrays:
    """What a descent needs of an engine beside the operators and functions that NumPy and PyTorch share; NumPy's here.

    The factors of products, which other engines may round, are as precise as everything else: in float32.
    """

    xp: ModuleType = np  # or torch

    def place(self, X: RealArray) -> DeviceArray:
        """Return an array of NumPy as one of the engine."""
        return X

    def fetch(self, Z: DeviceArray) -> RealArray:
        """Return an array of the engine as NumPy's."""
        return np.asarray(Z)

    def place_rows(self, X: StoredRows) -> DeviceArray:
        """Return rows of NumPy or PyTorch as an array of the engine of the same type, not copied if possible."""
        return X

    def holds(self, X: StoredRows) -> bool:
        """Whether rows are in the memory of the engine."""
        return isinstance(X, np.ndarray) and (not isinstance(X, np.memmap) or X.nbytes < self.room())

    def room(self) -> float:
        """Return how many bytes of rows the memory of the engine has room for."""
        return SHARE_OF_MEMORY * memory_limit(None)

    def differences(self, rows: DeviceArray, left: DeviceArray, right: DeviceArray) -> DeviceArray:
        """Return rows[left] - rows[right] as factors of products."""
        result = np.empty((len(left), rows.shape[1]), dtype=np.float32)
        dtype = np.float64 if rows.dtype == np.float64 else np.float32

        def of_part(part: slice) -> None:
            minuend = rows[left[part]].astype(dtype, copy=False)
            np.subtract(minuend, rows[right[part]], out=result[part], casting="same_kind", dtype=dtype)

        in_rows(of_part, len(left), n_threads(PER_NUMBER * result.size))
        return result

    def factors(self, A: DeviceArray) -> DeviceArray:
        """Return an array in the precision of the factors of products."""
        return A

    def product(self, A: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Return A @ B in float32, or in the precision of its factors."""
        return product(A, B)

    def floats(self, A: DeviceArray) -> DeviceArray:
        """Return an array in float32."""
        return A


class MapProblem(NamedTuple):
    """Mean log(1 + exp(-margin / temperature)) + lam ‖A - start‖², to be minimised over the map A and the threshold.

    prior : the map of rows into the space in which A acts; None for the identity
    noise : the share of answers that are given at random
    """

    prior: RealArray | None
    start: RealArray
    threshold: float
    temperature: float
    lam: float
    noise: float
    n_steps: int


def first_state(start: RealArray, threshold: float) -> Arrays:
    """Return the state of a descent that begins at a map and at a threshold in temperatures."""
    scalars = np.array([threshold, 0.0, 0.0, 0.0], dtype=np.float32)
    A = start.astype(np.float32)
    return {"map": A, "momentum": np.zeros_like(A), "scalars": scalars, "step": np.zeros(1)}


class MapDescent:
    """Gradient steps with momentum, whose length is relative to the norms of the gradient and of the first map.

    So the steps depend neither on the scale of the rows nor on a rotation of their features. The map and its momentum
    are of float32; the factors of products may have fewer digits.
    """

    def __init__(self, arrays: DeviceArrays, problem: MapProblem, state: Arrays | None = None) -> None:
        self._arrays, self._problem = arrays, problem
        start = problem.start.astype(np.float32)
        self._start = arrays.place(start)
        self._size = float(np.linalg.norm(start))
        self._prior = None if problem.prior is None else arrays.factors(arrays.place(problem.prior.astype(np.float32)))
        state = state or first_state(start, problem.threshold / problem.temperature)
        self._map, self._momentum = (arrays.place(state[name].copy()) for name in ("map", "momentum"))
        # The threshold, its momentum, and the mean squares of its gradient and of the map's.
        self._scalars = [arrays.place(state["scalars"][i : i + 1].copy()) for i in range(4)]
        self.n_done = int(state["step"][0])
        self._losses: list[DeviceArray] = []

    def step(
        self,
        rows: DeviceArray,
        left: DeviceArray,
        right: DeviceArray,
        signs: DeviceArray | None,
        weights: DeviceArray | None,
    ) -> None:
        """Take a step for pairs of rows, with the sign -1 for dissimilar ones.

        Without signs, the distances of the first half of the pairs should be smaller than those of the second half.
        """
        arrays, problem, threshold = self._arrays, self._problem, self._scalars[0]
        V = arrays.differences(rows, left, right)
        if self._prior is not None:
            V = arrays.factors(arrays.product(V, self._prior.T))
        images = arrays.product(V, arrays.factors(self._map).T)
        Z = arrays.floats(images)
        squared = (Z * Z).sum(1) / problem.temperature
        half = len(left) // 2
        margins = squared[half:] - squared[:half] if signs is None else signs * (threshold - squared)
        losses, slopes = self._loss(margins)
        if weights is not None:
            losses, slopes = losses * weights, slopes * weights
        self._losses.append(losses.mean())
        slopes = slopes / len(margins)
        pulls = self._arrays.xp.concatenate([slopes, -slopes]) if signs is None else signs * slopes
        pull = arrays.factors(pulls[:, None] * Z * (2.0 / problem.temperature))
        gradient = arrays.floats(arrays.product(pull.T, V))
        gradient += 2.0 * problem.lam * (self._map - self._start)
        self._move(gradient, None if signs is None else -pulls.sum())

    def _loss(self, margins: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return the losses of margins, in units of the temperature, and minus their derivatives."""
        xp, noise = self._arrays.xp, self._problem.noise
        wrong = 1.0 / (1.0 + xp.exp(xp.clip(margins, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)))
        if not noise:
            return xp.logaddexp(xp.zeros_like(margins), -margins), wrong
        right = noise + (1.0 - 2.0 * noise) * (1.0 - wrong)
        return -xp.log(right), (1.0 - 2.0 * noise) * wrong * (1.0 - wrong) / right

    def _move(self, gradient: DeviceArray, by_threshold: DeviceArray | None) -> None:
        xp, flat = self._arrays.xp, gradient.reshape(-1)
        threshold, drift, drift_square, square = self._scalars
        self.n_done += 1
        n, left = self._problem.n_steps, 1.0 - (self.n_done - 1) / self._problem.n_steps
        rate = min(LONGEST_STEP, TRAVEL / n) * min(self.n_done / (RISE * n), left)
        # Running means that begin at zero are too small by this.
        rate *= math.sqrt(1.0 - MEMORY**self.n_done) / (1.0 - MOMENTUM**self.n_done)
        self._momentum *= MOMENTUM
        self._momentum += (1.0 - MOMENTUM) * gradient
        square *= MEMORY
        square += (1.0 - MEMORY) * xp.vdot(flat, flat)
        self._map -= (rate * self._size / (xp.sqrt(square) + _TINY)) * self._momentum
        if by_threshold is not None:
            drift *= MOMENTUM
            drift += (1.0 - MOMENTUM) * by_threshold
            drift_square *= MEMORY
            drift_square += (1.0 - MEMORY) * by_threshold * by_threshold
            threshold -= rate * drift / (xp.sqrt(drift_square) + _TINY)

    def objective(self) -> float:
        """Return the objective: the mean loss of the steps since the last call, and the penalty of the present map."""
        loss = float(sum(self._losses)) / len(self._losses)
        self._losses.clear()
        gap = (self._map - self._start).reshape(-1)
        return loss + self._problem.lam * float(self._arrays.xp.vdot(gap, gap))

    @property
    def threshold(self) -> float:
        """The threshold of squared distances."""
        return float(self._arrays.fetch(self._scalars[0])[0]) * self._problem.temperature

    def fetch_map(self) -> FloatArray:
        """Return A."""
        return np.array(self._arrays.fetch(self._map), dtype=np.float64)

    def state(self) -> Arrays:
        """Return what a descent that is resumed needs."""
        scalars = np.concatenate([self._arrays.fetch(scalar) for scalar in self._scalars])
        both = {"map": self._arrays.fetch(self._map).copy(), "momentum": self._arrays.fetch(self._momentum).copy()}
        return both | {"scalars": scalars, "step": np.array([float(self.n_done)])}
