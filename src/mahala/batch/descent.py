"""Minimisation by L-BFGS that records every iteration, and the linear map L at which it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.lda import LDA
from mahala.batch.pca import PCA
from mahala.batch.run import Model, Run
from mahala.batch.whitening import Coordinates
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray, IndexArray, RealArray

_LARGEST_TOL = 1e100  # SciPy divides it by the precision of float64
Objective = Callable[[RealArray], tuple[float, RealArray]]
Init = Literal["auto", "identity", "pca", "lda", "random"] | MahalanobisMetric


def descend(
    objective: Objective,
    start: RealArray,
    run: Run,
    *,
    max_iter: int,
    tol: float,
    to_model: Callable[[RealArray], Model],
    report: Callable[[float], float] = float,
) -> str:
    """Lower the objective until it has converged; return the stop reason.

    The reason is "converged" if an iteration gains less than `tol` relative to the objective, and "precision" if
    rounding keeps any step from lowering it. `report` converts the objective to the one that is recorded. The objective
    gets its argument in the dtype and shape of `start`, whereas SciPy's vectors are of float64.
    """
    stopped = False
    unit = 0.0  # the first objective: SciPy measures gains relative to the objective or 1, whichever is larger

    def value(vector: RealArray) -> tuple[float, RealArray]:
        nonlocal unit
        result, gradient = objective(vector.reshape(start.shape).astype(start.dtype))
        unit = unit or abs(float(result)) or 1.0
        return float(result) / unit, gradient.astype(np.float64).ravel() / unit

    def after_iteration(intermediate_result: OptimizeResult) -> None:
        nonlocal stopped
        found = intermediate_result.x.reshape(start.shape).astype(start.dtype)
        if run.step(report(unit * intermediate_result.fun), to_model(found)):
            stopped = True
            raise StopIteration

    result = minimize(
        value,
        start.astype(np.float64).ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=after_iteration,
        options={"maxiter": max_iter, "maxfun": 10 * max_iter + 20, "ftol": min(float(tol), _LARGEST_TOL), "gtol": 0.0},
    )
    if not run.model:  # no step lowers the objective
        run.step(report(unit * result.fun), to_model(result.x.reshape(start.shape).astype(start.dtype)))
    return "callback" if stopped else {0: "converged", 1: "max_iter"}.get(int(result.status), "precision")


def first_components(
    init: Init,
    n_components: int | None,
    X: RealArray,
    codes: IndexArray | None,
    rng: np.random.Generator,
    warm: Model | None = None,
) -> RealArray:
    """Return L with n_components rows, or as many as features if that is None, in the dtype of X.

    "identity" takes the first features, "pca" the directions of most variance, "lda" those that separate the classes,
    followed by those of "pca", and "random" normal numbers of variance 1/d. "auto" is "identity" if L is square, else
    "lda" if it finds enough directions, else "pca". A MahalanobisMetric gives its leading components. If there is a
    `warm` model, its L is returned.
    """
    d = X.shape[1]
    m = d if n_components is None else int(n_components)
    if m > d:
        raise ValueError(f"n_components must be at most {d}, the number of features, got {m}")
    if warm is not None:
        if warm["L"].shape != (m, d):
            raise ValueError(
                f"n_components must be {len(warm['L'])}, as in the last fit, because warm_start=True, got {m}"
            )
        return warm["L"].astype(X.dtype)
    n_separating = 0 if codes is None else int(codes.max())
    if isinstance(init, str) and init == "auto":
        init = "identity" if m == d else "lda" if m <= n_separating else "pca"
    if isinstance(init, MahalanobisMetric):
        if init.kernel_map is not None or init.matrix.shape != (d, d):
            raise ValueError(f"init must be a MahalanobisMetric of {d} features without a kernel, got {init!r}")
        L = init.components[:m]
        # A row of zeros would never change, because the gradient of a row is a multiple of it.
        missing = m - len(L)
        filler = rng.normal(size=(missing, d)) * 1e-3 * np.sqrt(np.square(L).mean() if L.size else 1.0 / d)
        L = np.vstack([L, filler])
    elif init == "identity":
        L = np.eye(m, d)
    elif init == "random":
        L = rng.normal(size=(m, d)) / np.sqrt(d)
    else:
        L = np.empty((0, d))
        if init == "lda" and codes is not None:
            L = _directions(LDA(), X, codes)[:m]
        if len(L) < m:
            L = np.vstack([L, _directions(PCA(min(m - len(L), *X.shape), random_state=0), X, codes)])
        if len(L) < m:  # fewer rows than directions
            L = np.vstack([L, rng.normal(size=(m - len(L), d)) / np.sqrt(d)])
    return np.ascontiguousarray(L, dtype=X.dtype)


def first_variables(
    coordinates: Coordinates,
    init: Init,
    n_components: int | None,
    codes: IndexArray | None,
    rng: np.random.Generator,
    warm: Model | None,
) -> tuple[RealArray, bool]:
    """Return the first L' or a' of the coordinates, and whether its scale is that of a model rather than arbitrary."""
    X, inverse = coordinates.X, coordinates.inverse
    if not coordinates.diagonal:
        L = first_components(init, n_components, X, codes, rng, warm)
        scaled = isinstance(init, MahalanobisMetric) or warm is not None
        return (L @ inverse if scaled else L), scaled
    if warm is not None:
        return np.sqrt(warm["w"]).astype(X.dtype) * inverse, True
    if isinstance(init, MahalanobisMetric):
        first_components(init, None, X, codes, rng)  # raises if the metric does not fit
        return (np.maximum(init.matrix.diagonal(), 0.0) ** 0.5).astype(X.dtype) * inverse, True
    if init == "random":
        return np.array(rng.uniform(0.5, 1.5, size=X.shape[1]), dtype=X.dtype), False
    return np.ones(X.shape[1], dtype=X.dtype), False


def _directions(learner: BatchLearner, X: RealArray, codes: IndexArray | None) -> FloatArray:
    """Return the learner's directions, scaled to unit length; none if it cannot learn from the rows."""
    try:
        L = learner.fit(X, codes).components_
    except ValueError:
        return np.empty((0, X.shape[1]))
    return np.asarray(L / np.linalg.norm(L, axis=1, keepdims=True))
