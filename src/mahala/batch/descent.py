"""Minimisation by L-BFGS that records every iteration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from mahala.batch.run import Model, Run
from mahala.support.arrays import RealArray

_LARGEST_TOL = 1e100  # SciPy divides it by the precision of float64
Objective = Callable[[RealArray], tuple[float, RealArray]]


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
