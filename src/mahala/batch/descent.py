"""Descent by L-BFGS on an objective and its gradient, as a run that can be watched, stopped and interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from mahala.batch_learner import Floats, Model, Run

Objective = Callable[[Floats], tuple[float, Floats]]


def descend(
    objective: Objective,
    start: Floats,
    run: Run,
    *,
    max_iter: int,
    tol: float,
    to_model: Callable[[Floats], Model],
    bounds: Any = None,
) -> tuple[Model, str]:
    """The model of the lowest objective found, and why it is the last one.

    Converged is where an iteration gains less than `tol` relative to the objective. "precision" is where no step
    lowers the objective any more, as far as rounding lets tell. SciPy's vectors are of float64; the objective gets its
    argument in the dtype and shape of `start`.
    """
    stopped = False

    def value(vector: Floats) -> tuple[float, Floats]:
        result, gradient = objective(vector.reshape(start.shape).astype(start.dtype))
        return float(result), gradient.astype(np.float64).ravel()

    def after_iteration(intermediate_result: OptimizeResult) -> None:
        nonlocal stopped
        found = intermediate_result.x.reshape(start.shape).astype(start.dtype)
        if run.step(intermediate_result.fun, to_model(found)):
            stopped = True
            raise StopIteration

    result = minimize(
        value,
        start.astype(np.float64).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=after_iteration,
        options={"maxiter": max_iter, "maxfun": 10 * max_iter + 20, "ftol": tol, "gtol": 0.0},
    )
    if run.model is None:  # the start is as low as it gets
        run.step(result.fun, to_model(result.x.reshape(start.shape).astype(start.dtype)))
    assert run.model is not None
    reason = "callback" if stopped else {0: "converged", 1: "max_iter"}.get(int(result.status), "precision")
    return run.model, reason
