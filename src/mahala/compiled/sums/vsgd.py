"""Stochastic gradient descent on the cost of GML over random pairs, with automatic learning rates.

vSGD-fd (Schaul, LeCun, 2013): each variable θ has running means, over its own memory of τ steps, of its gradient g, of
g², of its curvature h by finite differences along ḡ, and of h²; its learning rate is the best one for a quadratic
function of that curvature with noise of that variance.
"""

import math

import numpy as np

from mahala.compiled.jit import kernel
from mahala.support.arrays import BoolArray, IndexArray, RealArray

# Rows of the memory: ḡ, mean of g², h̄, mean of h², and the length τ of the memory.
N_MEANS = 5


@kernel
def vsgd(
    X: RealArray,
    left: IndexArray,
    right: IndexArray,
    similar: BoolArray,
    alpha: float,
    batch: int,
    diagonal: bool,
    variables: RealArray,
    memory: RealArray,
) -> None:
    """Descend, with `batch` pairs per step; variables and memory (5 × the shape of variables) change in place.

    Variables are L (m × d), or with `diagonal` one row of its diagonal. A variable with τ = 0 starts a new memory.
    """
    m, d = variables.shape
    size = d if diagonal else m
    g_mean, g_square, h_mean, h_square, tau = memory[0], memory[1], memory[2], memory[3], memory[4]
    sums = np.empty((4, m, d))
    g, g2, h, h2 = sums[0], sums[1], sums[2], sums[3]
    v, z, shifted = np.empty(d), np.empty(size), np.empty(size)
    for first in range(0, len(left) - batch + 1, batch):
        sums[:] = 0.0
        for t in range(first, first + batch):
            x, y = X[left[t]], X[right[t]]
            for f in range(d):
                v[f] = x[f] - y[f]
            if diagonal:
                for f in range(d):
                    z[f] = variables[0, f] * v[f]
                    shifted[f] = (variables[0, f] + _step_of(g_mean[0, f])) * v[f]
            else:
                for k in range(m):
                    here, there = 0.0, 0.0
                    for f in range(d):
                        here += variables[k, f] * v[f]
                        there += _step_of(g_mean[k, f]) * v[f]
                    z[k], shifted[k] = here, here + there
            slope, shifted_slope = _slope(z, similar[t], alpha), _slope(shifted, similar[t], alpha)
            for k in range(size):
                z[k] *= slope
                shifted[k] = shifted_slope * shifted[k] - z[k]
            for k in range(m):
                for f in range(d):
                    place = f if diagonal else k
                    gradient, change = z[place] * v[f], abs(shifted[place] * v[f])
                    g[k, f] += gradient
                    g2[k, f] += gradient * gradient
                    h[k, f] += change
                    h2[k, f] += change * change
        for k in range(m):
            for f in range(d):
                step = abs(_step_of(g_mean[k, f]))
                gradient, square = g[k, f] / batch, g2[k, f] / batch
                curvature, curvature_square = h[k, f] / batch / step, h2[k, f] / batch / (step * step)
                if tau[k, f] == 0.0:
                    # The variance is overestimated at first, so that the first steps are small.
                    g_mean[k, f], g_square[k, f] = gradient, 10.0 * square
                    h_mean[k, f], h_square[k, f] = curvature, 10.0 * curvature_square
                    tau[k, f] = 10.0
                    continue
                noise = g_square[k, f] - g_mean[k, f] ** 2
                h_noise = h_square[k, f] - h_mean[k, f] ** 2
                if (gradient - g_mean[k, f]) ** 2 > 4.0 * noise / batch or (
                    curvature - h_mean[k, f]
                ) ** 2 > 4.0 * h_noise / batch:
                    tau[k, f] += 1.0  # gives an outlier less weight
                share = 1.0 / tau[k, f]
                g_mean[k, f] += share * (gradient - g_mean[k, f])
                g_square[k, f] += share * (square - g_square[k, f])
                h_mean[k, f] += share * (curvature - h_mean[k, f])
                h_square[k, f] += share * (curvature_square - h_square[k, f])
                signal = g_mean[k, f] ** 2
                if not (h_square[k, f] > 0.0 and g_square[k, f] > 0.0):
                    continue
                rate = h_mean[k, f] / h_square[k, f] * batch * signal / (g_square[k, f] + (batch - 1) * signal)
                tau[k, f] = 1.0 + (1.0 - min(signal / g_square[k, f], 1.0)) * tau[k, f]
                variables[k, f] -= rate * gradient


@kernel
def _step_of(mean: float) -> float:
    """The step of the finite difference: ḡ, but not so small that the difference is a rounding error."""
    if abs(mean) < 1e-5:
        return 1e-5 if mean >= 0.0 else -1e-5
    return mean


@kernel
def _slope(z: RealArray, similar: bool, alpha: float) -> float:
    """The factor of z vᵀ in the gradient of a pair's cost."""
    if similar:
        return 2.0 * (1.0 - alpha)
    q = 0.0
    for k in range(len(z)):
        q += z[k] * z[k]
    distance = math.sqrt(q)
    if distance >= 1.0 or distance == 0.0:
        return 0.0
    return -2.0 * alpha * (1.0 - distance) / distance
