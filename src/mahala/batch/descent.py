"""Minimisation by L-BFGS that records every iteration, and the linear map L at which it starts."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from mahala.batch.lda import class_directions
from mahala.batch.run import Model, Run, check_n_components
from mahala.batch.whitening import Coordinates, constant, divided_by_largest, major_features
from mahala.engine.moments import principal_directions
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray, IndexArray, RealArray, check_matrices

# Vectors of the size of its variables that L-BFGS keeps.
VECTORS = 25
_LARGEST_TOL = 1e100  # SciPy divides it by the precision of float64
Objective = Callable[[RealArray], tuple[float, RealArray]]
Bounds = list[tuple[float | None, None]]
Init = Literal["auto", "identity", "pca", "lda", "random"] | MahalanobisMetric


def descend(
    objective: Objective,
    start: RealArray,
    run: Run,
    *,
    to_model: Callable[[RealArray], Model | Callable[[], Model]] = lambda L: {"L": L},
    report: Callable[[float], float] = float,
    solved: Callable[[], bool] = lambda: False,
    most: int | None = None,
    bounds: Bounds | None = None,
) -> str:
    """Lower the objective until it has converged, in at most as many iterations as the run has left, or `most`.

    The stop reason is "converged" if an iteration gains less than `run.tol` relative to the objective, "precision" if
    rounding keeps any step from lowering it, and "solved" if `solved` says so. `report` converts the objective to the
    one that is recorded. These functions and `to_model` are called for the variables at which the objective was
    computed last. It gets its argument in the dtype and shape of `start`, whereas SciPy's vectors are of float64.
    `bounds` are those of each variable.
    """
    reason, seen = "", start
    unit = 0.0  # the first objective: SciPy measures gains relative to the objective or 1, whichever is larger

    def in_shape(vector: RealArray) -> RealArray:
        return vector.reshape(start.shape).astype(start.dtype)

    def value(vector: RealArray) -> tuple[float, RealArray]:
        nonlocal unit, seen
        seen = in_shape(vector)
        result, gradient = objective(seen)
        if run.first is None:
            run.first = to_model(seen)
        unit = unit or abs(float(result)) or 1.0
        return float(result) / unit, gradient.astype(np.float64).ravel() / unit

    def record(intermediate_result: OptimizeResult) -> None:
        nonlocal reason
        variables = in_shape(intermediate_result.x)
        if not np.array_equal(variables, seen):
            value(intermediate_result.x)
        stopped = run.step(report(unit * intermediate_result.fun), to_model(variables))
        reason = "solved" if solved() and not run.asked_to_stop else "callback" if stopped else ""
        if reason:
            raise StopIteration

    ftol, max_iter = min(float(run.tol), _LARGEST_TOL), run.max_iter - len(run.objectives)
    max_iter = max_iter if most is None else min(most, max_iter)
    options: Any = {"maxiter": max_iter, "maxfun": 10 * max_iter + 20, "ftol": ftol, "gtol": 0.0}
    first = start.astype(np.float64).ravel()
    result = minimize(value, first, jac=True, method="L-BFGS-B", bounds=bounds, callback=record, options=options)
    if not run.model:  # no step lowers the objective
        with suppress(StopIteration):
            record(result)
    return reason or {0: "converged", 1: "max_iter"}.get(int(result.status), "precision")


def first_components(
    init: Init, n_components: int | None, X: RealArray, codes: IndexArray | None, run: Run, unit: float = 1.0
) -> RealArray:
    """Return L with n_components rows, or as many as features if that is None, in the dtype of X.

    "identity" takes the first features, "pca" the directions of most variance, "lda" those that separate the classes,
    followed by those of "pca", and "random" normal numbers of variance 1/d. "auto" is "identity" if L is square, else
    "lda" if it finds enough directions, else "pca". A MahalanobisMetric gives its leading components. If there is a
    `warm` model, its L is returned. X was divided by `unit`, which the metric and the model were not learned in.
    """
    d = X.shape[1]
    m = d if n_components is None else int(n_components)
    check_n_components(m, d, "the number of features")
    check_matrices(VECTORS, m, d)
    if (warm := run.warm) is not None:
        if warm["L"].shape != (m, d):
            last = f"{len(warm['L'])}, as in the last fit"
            raise ValueError(f"n_components must be {last}, because warm_start=True, got {m}")
        return (unit * warm["L"]).astype(X.dtype)
    if isinstance(init, str) and init == "auto":
        init = "identity" if m == d else "lda" if codes is not None and m <= codes.max() else "pca"
    if isinstance(init, MahalanobisMetric):
        L = unit * init.in_features(d, "init").components[:m]
        # A row of zeros would never change, because the gradient of a row is a multiple of it.
        size = 1e-3 * np.sqrt(np.square(L).mean() if L.size else 1.0 / d)
        L = np.vstack([L, size * run.rng.normal(size=(m - len(L), d))])
    elif init == "identity":
        L = np.eye(m, d)
    elif init == "random":
        L = run.rng.normal(size=(m, d)) / np.sqrt(d)
    else:
        L = np.empty((0, d))
        if init == "lda" and codes is not None:
            with suppress(ValueError):  # no direction separates the classes
                L = _of_unit_length(class_directions(major_features(X), codes)[0][:m])
        if len(L) < m and not constant(X).all():
            axes = principal_directions(divided_by_largest(X)[0], min(m - len(L), *X.shape), seed=0)[0]
            L = np.vstack([L, _of_unit_length(axes)])
        if len(L) < m:  # fewer rows than directions
            L = np.vstack([L, run.rng.normal(size=(m - len(L), d)) / np.sqrt(d)])
    return np.ascontiguousarray(L, dtype=X.dtype)


def first_variables(
    coordinates: Coordinates, init: Init, n_components: int | None, codes: IndexArray | None, run: Run
) -> tuple[RealArray, bool]:
    """Return the first L' or a' of the coordinates, and whether its scale is that of a model rather than arbitrary.

    Constant features start, and therefore stay, at zero.
    """
    X, inverse = coordinates.X, coordinates.inverse
    warm = run.warm
    scaled = isinstance(init, MahalanobisMetric) or warm is not None
    if not coordinates.diagonal:
        L = first_components(init, n_components, X, codes, run)
        return (L @ inverse if scaled else L * inverse.any(axis=1)), scaled
    if warm is not None:
        return np.sqrt(warm["w"]).astype(X.dtype) * inverse, True
    if isinstance(init, MahalanobisMetric):
        weights = init.in_features(X.shape[1], "init").matrix.diagonal()
        return (np.maximum(weights, 0.0) ** 0.5).astype(X.dtype) * inverse, True
    first = run.rng.uniform(0.5, 1.5, size=X.shape[1]) if init == "random" else np.ones(X.shape[1])
    return (first * (inverse > 0.0)).astype(X.dtype), False


def _of_unit_length(L: RealArray) -> FloatArray:
    L = L.astype(np.float64)
    return np.asarray(L / np.linalg.norm(L, axis=1, keepdims=True))
