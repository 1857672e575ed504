"""The best fixed metric for a stream of comparisons, in hindsight: convex fits with a bound on what they miss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mahala.batch.descent import Bounds, Objective, descend
from mahala.batch.run import Run
from mahala.support.arrays import FloatArray

# The gap is that to the best of all metrics up to so many times as large as the one that was found.
LARGER = 10.0
# A loss below this share of that without a metric counts as zero.
SMALL = 1e-2
# Widths of the kink of the hinge that are tried one after another, as shares of the margin.
WIDTHS = tuple(10.0**-power for power in range(9))
# Iterations of L-BFGS, and those between two looks at the gap.
MOST_ITERATIONS, LOOK_EVERY = 5000, 10


class Best(NamedTuple):
    """The best metric, its loss in each step, and the most that its total is above the least one."""

    matrix: FloatArray
    threshold: float
    losses: FloatArray
    gap: float


class PairLosses(NamedTuple):
    """The losses of M and b on pairs with differences v: z² or [z]₊² with z = offset + slope vᵀMv - weight b."""

    V: FloatArray
    offset: FloatArray
    slope: FloatArray
    weight: FloatArray
    two_sided: bool

    def residuals(self, M: FloatArray, b: float) -> FloatArray:
        """Return z, or [z]₊, of each pair."""
        z = self.offset + self.slope * np.einsum("ti,ti->t", self.V @ M, self.V) - self.weight * b
        return np.asarray(z if self.two_sided else np.maximum(z, 0.0))

    def best(self, tol: float) -> Best:
        """Minimise the total over M ⪰ 0 and b ≥ 1, by L-BFGS over L and b with M = LᵀL, in white coordinates."""
        W = _whitening(self.V)
        white = self._replace(V=self.V @ W)
        d = W.shape[1]
        unit = SMALL * float(np.square(self.residuals(np.zeros((len(W), len(W))), 1.0)).sum())

        def parts(variables: FloatArray) -> tuple[FloatArray, float, float, FloatArray, float]:
            """L, b, the total, its gradient by M and its derivative by b."""
            L, b = variables[:-1].reshape(d, d), float(variables[-1])
            z = white.residuals(L.T @ L, b)
            G = 2.0 * (white.V.T * (self.slope * z)) @ white.V
            return L, b, float(z @ z), G, -2.0 * float(self.weight @ z)

        def objective(variables: FloatArray) -> tuple[float, FloatArray]:
            L, _, total, G, slope = parts(variables)
            return total, np.append(2.0 * L @ G, slope)

        def gap(variables: FloatArray) -> tuple[float, float]:
            """The most that the total can fall, as a convex function is above its tangents, and the total."""
            L, b, total, G, slope = parts(variables)
            largest = LARGER * max(float(np.square(L).sum()), 1.0)
            falls = float(np.sum(G * (L.T @ L))) - largest * min(0.0, float(np.linalg.eigvalsh(G)[0]))
            falls += max(slope * (b - 1.0), -slope * (LARGER - 1.0) * b)
            return min(total, falls), total

        def is_close(variables: FloatArray) -> bool:
            falls, total = gap(variables)
            return falls <= tol * max(total, unit)

        start = np.append(np.eye(d).ravel(), 1.0)
        variables = _descended(objective, start, [(None, None)] * (d * d) + [(1.0, None)], is_close)
        L, b, *_ = parts(variables)
        M = W @ L.T @ L @ W.T
        return Best(M, b, np.square(self.residuals(M, b)), gap(variables)[0])


class TripletLosses(NamedTuple):
    """The losses of M on triplets with queries x and differences q of items: [margin - xᵀMq]₊ + Σ penalties |M_ij|."""

    X: FloatArray
    Q: FloatArray
    margin: float
    penalties: FloatArray

    def hinges(self, M: FloatArray) -> FloatArray:
        """Return the losses without the penalty."""
        return np.asarray(np.maximum(0.0, self.margin - np.einsum("ti,ti->t", self.X @ M, self.Q)))

    def penalty(self, M: FloatArray) -> float:
        """Return the penalty of M in one step."""
        return float(np.sum(self.penalties * np.abs(M)))

    def best(self, tol: float) -> Best:
        """Minimise the total by L-BFGS, with hinges whose kinks are smoothed less and less."""
        total_penalties = len(self.X) * self.penalties
        split = bool(total_penalties.any())  # into entries above zero and below, whose penalty is linear
        # Without a penalty in white coordinates.
        left, right = (np.eye(rows.shape[1]) if split else _whitening(rows) for rows in (self.X, self.Q))
        white = self._replace(X=self.X @ left, Q=self.Q @ right)
        kappa = total_penalties if split else np.zeros((left.shape[1], right.shape[1]))
        unit = SMALL * len(self.X) * self.margin

        def matrix(variables: FloatArray) -> FloatArray:
            parts = variables.reshape(-1, *kappa.shape)
            return np.asarray(parts[0] - parts[1] if split else parts[0])

        def smoothed(M: FloatArray) -> tuple[float, FloatArray]:
            hinges = white.hinges(M)
            weights = np.minimum(hinges / width, 1.0)
            return float(weights @ (hinges - 0.5 * width * weights)), -(white.X.T * weights) @ white.Q

        def objective(variables: FloatArray) -> tuple[float, FloatArray]:
            value, G = smoothed(matrix(variables))
            if not split:
                return value, G.ravel()
            return value + float(np.tile(kappa.ravel(), 2) @ variables), np.stack([kappa + G, kappa - G]).ravel()

        def gap(M: FloatArray) -> tuple[float, float]:
            """The most that the total can fall, as tangents of the smoothed one are below it, and the total."""
            value, G = smoothed(M)
            penalty = float(np.sum(kappa * np.abs(M)))
            total = float(white.hinges(M).sum()) + penalty
            largest = LARGER * max(float(np.linalg.norm(M)), self.margin)
            steepest = float(np.linalg.norm(np.maximum(np.abs(G) - kappa, 0.0)))
            return min(total, total - value + float(np.sum(G * M)) + largest * steepest), total

        def is_close(variables: FloatArray) -> bool:
            falls, total = gap(matrix(variables))
            return falls <= tol * max(total, unit)

        variables, bounds = np.zeros((1 + split) * kappa.size), [(0.0 if split else None, None)] * (1 + split)
        best, least = np.zeros(kappa.shape), np.inf
        for share in WIDTHS:
            width = share * (self.margin or 1.0)
            variables = _descended(objective, variables, bounds * kappa.size, is_close)
            falls, _ = gap(matrix(variables))
            if falls < least:
                best, least = matrix(variables), falls
            if is_close(variables):
                break
        M = left @ best @ right.T
        return Best(M, 0.0, self.hinges(M) + self.penalty(M), least)


def _whitening(rows: FloatArray) -> FloatArray:
    """Return W such that rows W have scatter I, in the directions in which there are any."""
    values, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    used = values > values[-1] * len(values) * 1e-12
    return np.asarray(axes[:, used] / np.sqrt(values[used]))


def _descended(
    objective: Objective, start: FloatArray, bounds: Bounds, is_close: Callable[[FloatArray], bool]
) -> FloatArray:
    """Return variables of L-BFGS, after which the objective is close to its minimum or the steps are at an end."""
    run = Run(max_iter=MOST_ITERATIONS)

    def solved() -> bool:
        return len(run.objectives) % LOOK_EVERY == 0 and is_close(run.model["L"])

    descend(objective, start, run, solved=solved, bounds=bounds)
    return run.model["L"]
