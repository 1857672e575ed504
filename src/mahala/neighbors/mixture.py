"""The mixture of the experts, with weights that suit what was left out.

Probabilities are multiplied: the mixture is proportional to rows^a · line^b · trees^c. Numbers are averaged.
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from mahala.neighbors.line import softmax
from mahala.neighbors.maps import LEAST, Target
from mahala.support.arrays import FloatArray, RealArray

# The exponents are drawn to those without the last expert as if by so many rows.
PRIOR = 1.0


def mixed(predictions: Sequence[RealArray], weights: Sequence[float], target: Target) -> FloatArray:
    """Return the mixture of the predictions of some experts."""
    if not target.n_classes:
        return np.asarray(sum(weight * values for weight, values in zip(weights, predictions, strict=True)))
    return softmax(np.sum([w * _logs(values) for w, values in zip(weights, predictions, strict=True)], axis=0))


def best_weights(first: RealArray, second: RealArray, target: Target) -> tuple[float, float]:
    """Return the weights of two experts that are best for what each of them predicted for rows that it had not seen."""
    shares = target.weights / target.weights.sum(dtype=np.float64)
    if not target.n_classes:
        errors, step = target.y - first[:, 0], (second - first)[:, 0].astype(np.float64)
        length = float(shares @ np.square(step))
        share = float(np.clip(shares @ (errors * step) / length, 0.0, 1.0)) if length > 0.0 else 0.0
        return 1.0 - share, share
    logs = np.stack([_logs(first), _logs(second)])
    hits = np.arange(len(target.y)), target.y
    pull = PRIOR / len(target.y)

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        p = softmax(np.tensordot(weights, logs, axes=1))
        loss = -float(shares @ np.log(np.maximum(p[hits], 1e-300)))
        slopes = [float(shares @ ((p * each).sum(axis=1) - each[hits])) for each in logs]
        away = weights - (1.0, 0.0)
        return loss + pull / 2.0 * float(away @ away), np.array(slopes) + pull * away

    found = minimize(objective, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * 2)
    return float(found.x[0]), float(found.x[1])


def gain(before: RealArray, after: RealArray, target: Target) -> tuple[float, float]:
    """Return the mean fall of the loss from one prediction to another, and its standard error."""
    falls = target.losses(before) - target.losses(after)
    shares = target.weights / target.weights.sum(dtype=np.float64)
    mean = float(shares @ falls)
    return mean, float(np.sqrt(np.square(shares) @ np.square(falls - mean)))


def _logs(probabilities: RealArray) -> FloatArray:
    return np.log(np.maximum(probabilities.astype(np.float64), LEAST))
