"""Descent by L-BFGS on an objective and its gradient, as a run that can be watched, stopped and interrupted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from mahala.batch.run import Floats, Model, Run

Objective = Callable[[Floats], tuple[float, Floats]]


def descend(
    objective: Objective,
    start: Floats,
    run: Run,
    *,
    max_iter: int,
    tol: float,
    to_model: Callable[[Floats], Model],
    report: Callable[[float], float] = float,
) -> tuple[Model, str]:
    """The model of the lowest objective found, and why it is the last one.

    `report` turns the objective into the one to report. Converged is where an iteration gains less than `tol`
    relative to the objective. "precision" is where no step lowers the objective any more, as far as rounding lets
    tell. SciPy's vectors are of float64; the objective gets its argument in the dtype and shape of `start`.
    """
    stopped = False
    unit = 0.0  # SciPy takes gains relative to the objective or to 1, so it sees one that starts at 1

    def value(vector: Floats) -> tuple[float, Floats]:
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
        options={"maxiter": max_iter, "maxfun": 10 * max_iter + 20, "ftol": tol, "gtol": 0.0},
    )
    if run.model is None:  # the start is as low as it gets
        run.step(report(unit * result.fun), to_model(result.x.reshape(start.shape).astype(start.dtype)))
    assert run.model is not None, "there has been a step"
    reason = "callback" if stopped else {0: "converged", 1: "max_iter"}.get(int(result.status), "precision")
    return run.model, reason
