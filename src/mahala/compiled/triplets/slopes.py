"""Coordinate ascent for a logistic loss of triplets near the identity: one slope of the loss after the other.

The loss Σ log(1 + exp(-mᵢ / t)) + c ‖L - I‖² of the margins mᵢ = ‖L f‖² - ‖L g‖², where f is the difference to the
farther row and g that to the nearer one, has its minimum at L = (I - Σ pᵢ Kᵢ / (c t))⁻¹ with Kᵢ = f fᵀ - g gᵀ and the
slopes pᵢ = σ(-mᵢ / t). A step solves this equation for one slope while the others stay. That is exact coordinate ascent
on the dual function, which is concave, and L changes by a matrix of rank two.
"""

import math

import numpy as np

from mahala.compiled.jit import helper, kernel
from mahala.compiled.pairs.steps import dot
from mahala.support.arrays import FloatArray, IndexArray

# Halvings of the interval in which a slope is, which is then known to 1e-12.
HALVINGS = 40


@helper
def solved_slope(
    before: float, unit: float, temperature: float, gram: tuple[float, float, float], square: tuple[float, float, float]
) -> float:
    """Return the slope p for which p = σ(-m / t), where L follows p; `gram` is of L and `square` of L² for f and g."""
    ff, fg, gg = gram
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        slope = 0.5 * (low + high)
        x = (slope - before) * unit
        u, v, w = 1.0 + x * gg, x * fg, 1.0 - x * ff
        determinant = w * u + v * v
        if determinant <= 0.0:  # L would not be positive: the root is between here and `before`
            too_high = x > 0.0
        else:
            # L f and L g become (u L f - v L g) / determinant and (v L f + w L g) / determinant.
            margin = (u * u - v * v) * square[0] - 2.0 * v * (u + w) * square[1] + (v * v - w * w) * square[2]
            too_high = margin / (determinant * determinant * temperature) > math.log((1.0 - slope) / slope)
        if too_high:
            high = slope
        else:
            low = slope
    return 0.5 * (low + high)


@kernel
def ascend(
    rows: FloatArray,
    answers: IndexArray,
    slopes: FloatArray,
    L: FloatArray,
    temperature: float,
    penalty: float,
    first: int,
    n_steps: int,
) -> None:
    """Take steps for answers (query, nearer, farther) from number `first` on, in turn; change the slopes and L."""
    n, d = len(answers), rows.shape[1]
    f, g, Lf, Lg = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for step in range(n_steps):
        number = (first + step) % n
        query, nearer, farther = rows[answers[number, 0]], rows[answers[number, 1]], rows[answers[number, 2]]
        for i in range(d):
            f[i], g[i] = query[i] - farther[i], query[i] - nearer[i]
        for i in range(d):
            Lf[i], Lg[i] = dot(L[i], f), dot(L[i], g)
        gram, square = (dot(f, Lf), dot(f, Lg), dot(g, Lg)), (dot(Lf, Lf), dot(Lf, Lg), dot(Lg, Lg))
        unit = 1.0 / (temperature * penalty)
        slope = solved_slope(slopes[number], unit, temperature, gram, square)
        x = (slope - slopes[number]) * unit
        u, v, w = 1.0 + x * gram[2], x * gram[1], 1.0 - x * gram[0]
        factor = x / (w * u + v * v)
        for i in range(d):
            by_f, by_g = factor * (u * Lf[i] - v * Lg[i]), factor * (v * Lf[i] + w * Lg[i])
            for j in range(d):
                L[i, j] += by_f * Lf[j] - by_g * Lg[j]
        slopes[number] = slope
