"""Objectives against SciPy: what a learner reached is not above what a minimiser of SciPy reaches from the same start.

Learners that descend are asked for the function that they minimise, whose gradient is compared with finite differences
at random places. Those with an objective of their own way (SDML, BoostMetric, PSDBoost) are compared with the objective
of `tests/reference`, written in plain NumPy.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

import mahala
from mahala import Pairs, Quadruplets, Triplets
from mahala.batch import LSML, MLKR, SCML, SDML, BoostMetric, PSDBoost, descent
from mahala.batch.psd_boost import mean_of_worst
from mahala.batch.triplets import label_triplets
from reference import boosting, sdml

from .relations import draw_rows
from .runner import Failed
from .values import Rng, chance, pick

AMOUNT, SHORT = 2_400, 6  # fits
CPU_SECONDS = 60.0
# How much of what SciPy gains a learner may miss: with one minimum, by steps of first order, with several minima (the
# two may find different ones), and on plateaus, as of NCA with few rows. BoostMetric never lowers a weight.
ONE, FIRST_ORDER, SEVERAL, PLATEAUS, BOOSTED = 1e-3, 5e-3, 0.5, 0.75, 0.5
# The step of finite differences, as a share of the variables, and how near a slope must be.
_STEP, _NEAR = 1e-5, 1e-4
_MODULES = ("nca", "mlkr", "gml", "mmc", "lmnn", "scml", "logdet", "logistic.answers")


class Descent:
    """What a learner asked to be minimised: a function with its gradient, the start, the bounds and the end."""

    def __init__(self, objective: Callable[[Any], tuple[float, Any]], start: Any, bounds: Any) -> None:
        self.objective, self.start, self.bounds = objective, start.astype(np.float64), bounds
        self.end = self.start

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.objective(vector.reshape(self.start.shape))
        return float(value), np.array(gradient, dtype=np.float64).ravel()


@contextmanager
def recorded(descents: list[Descent]) -> Iterator[None]:
    """Keep what learners descend on."""

    def descend(objective: Any, start: Any, run: Any, **options: Any) -> str:
        descents.append(Descent(objective, start, options.get("bounds")))
        to_model = options.pop("to_model", lambda L: {"L": L})

        def ended(variables: Any) -> Any:
            descents[-1].end = variables.astype(np.float64)
            return to_model(variables)

        return original(objective, start, run, to_model=ended, **options)

    original = descent.descend
    modules = [importlib.import_module(f"mahala.batch.{name}") for name in _MODULES]
    patches = [patch.object(module, "descend", descend) for module in modules]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Compile what the learners need."""
    for case in range(len(_CASES)) if amount > SHORT else ():
        with suppress(Failed):
            run(case, 0, amount)


def _descends(make: Callable[[Rng], Any], share: float, of: Callable[[Rng], Any] = draw_rows) -> Callable[[Rng], int]:
    """A case of a learner that descends: its gradient, its minimum, and that it does not stop early."""

    def run(rng: Rng) -> int:
        given, learner, descents = of(rng), make(rng), list[Descent]()
        with recorded(descents):
            learner.fit(*given)
        last = descents[-1]  # later ones begin where earlier ones ended
        first = descents[0].start if descents[0].start.shape == last.start.shape else last.start
        started, reached = (last(place.ravel())[0] for place in (first, last.end))
        _check_gradient(last, rng, learner, max(abs(started), abs(reached)))
        _not_above(learner, reached, _minimum(last, first, ("L-BFGS-B", "BFGS")), started, share)
        # BFGS begins with a long step, beyond the minimum in which it is.
        further = PLATEAUS if share == PLATEAUS else min(share, FIRST_ORDER)
        _not_above(learner, reached, _minimum(last, last.end, ("L-BFGS-B",)), started, further)
        return 3

    return run


def _minimum(asked: Descent, start: np.ndarray, methods: tuple[str, ...]) -> float:
    """The lowest value that SciPy reaches from a start; where variables have bounds, by L-BFGS-B only."""
    options: Any = {"L-BFGS-B": {"maxiter": 1000, "maxfun": 4000, "ftol": 1e-12, "gtol": 1e-9}}
    found = [
        minimize(asked, start.ravel(), jac=True, method=method, bounds=asked.bounds, options=options.get(method))
        for method in methods
        if asked.bounds is None or method == "L-BFGS-B"
    ]
    return min(float(result.fun) for result in found if np.isfinite(result.fun))


def _check_gradient(asked: Descent, rng: Rng, learner: Any, unit: float) -> None:
    """Compare with central differences along a direction, between the start and the end of the descent."""
    place = asked.start + rng.random() * (asked.end - asked.start)
    place = (place * rng.uniform(0.9, 1.1, size=place.shape)).ravel()
    direction = rng.normal(size=place.size)
    direction *= np.abs(place).max() / np.linalg.norm(direction)
    if asked.bounds is not None:  # of variables of at least zero, those that are zero stay
        direction[place < 1e-3 * place.max()] = 0.0
        direction *= 0.1
    slopes = []
    for step in (_STEP, 2.0 * _STEP):
        ahead, behind = (asked(place + sign * step * direction)[0] for sign in (1.0, -1.0))
        slopes.append((ahead - behind) / (2.0 * step))
    _, gradient = asked(place)
    scale = max(float(np.linalg.norm(gradient) * np.linalg.norm(direction)), 1e-5 * unit)
    slope = float(gradient @ direction)
    # Where the two steps differ there is a kink between them.
    if abs(slopes[0] - slope) > _NEAR * scale + 2.0 * abs(slopes[1] - slopes[0]):
        raise Failed(f"{learner!r}: slope {slope:.8g}, by finite differences {slopes[0]:.8g}")


def _numbers(rng: Rng) -> tuple[Any, Any]:
    X, y = draw_rows(rng)
    return X, X[:, 0] + 0.3 * y + 0.3 * rng.normal(size=len(X))


def _quadruplets(rng: Rng) -> tuple[Any]:
    X, _ = draw_rows(rng)
    return (Quadruplets(X, *rng.integers(len(X), size=(4, 200))),)


def _answers(rng: Rng) -> tuple[Any]:
    X, y = draw_rows(rng)
    kind = pick(rng, (Pairs, Triplets))
    return (kind.from_labels(X, y, 200, random_state=int(rng.integers(99))),)


def _sdml(rng: Rng) -> int:
    """Against another minimiser, over the logarithm of the matrix, which is smooth but for the penalty."""
    X, y = draw_rows(rng)
    X = X[:, :3] if X.shape[1] > 3 else X
    pairs = Pairs.from_labels(X, y, 100, random_state=0)
    learner = SDML(float(10.0 ** rng.uniform(-3, 0)), random_state=0).fit(pairs)
    d = X.shape[1]
    rows, columns = np.tril_indices(d)

    def matrix(values: np.ndarray) -> np.ndarray:
        L = np.zeros((d, d))
        L[rows, columns] = values
        return L @ L.T + 1e-12 * np.eye(d)

    def objective(values: np.ndarray) -> float:
        return float(sdml.objective(matrix(values), np.eye(d), pairs, learner.balance_, learner.sparsity))

    found = sdml.objective(learner.metric_.matrix, np.eye(d), pairs, learner.balance_, learner.sparsity)
    started = np.eye(d)[rows, columns]
    best = minimize(objective, started, method="Powell", options={"maxiter": 30, "maxfev": 600, "xtol": 1e-6})
    return _not_above(learner, float(found), float(best.fun), objective(started))


def _triplet_data(rng: Rng) -> tuple[Any, Any, Any]:
    X, y = draw_rows(rng)
    X, y = X[:40, :3], y[:40]
    triplets = label_triplets(X, y, 2)
    return X, y, boosting.matrices(X, triplets.anchor, triplets.positive, triplets.negative)


def _boost_metric(rng: Rng) -> int:
    X, y, A = _triplet_data(rng)
    triplets, d = label_triplets(X, y, 2), X.shape[1]
    # With a smaller weight of the trace, triplets that can all be in order have no minimum.
    learner = BoostMetric(2, lam=float(10.0 ** rng.uniform(-3, 0)), tol=0.0, max_iter=2000).fit(X, y)
    v = learner.lam * boosting.scale(X, triplets.anchor, triplets.positive, triplets.negative)

    def objective(values: np.ndarray) -> float:
        L = values.reshape(d, d)
        return float(boosting.exponential_objective(A, L.T @ L, v))

    start = 0.1 * rng.normal(size=d * d)
    best = minimize(objective, start, method="L-BFGS-B", options={"maxiter": 300})
    started = objective(0.0 * start)
    if best.fun < started - 1e4 * (started - learner.objective_):  # it has no minimum
        return 1
    return _not_above(learner, learner.objective_, float(best.fun), started, BOOSTED)


def _psd_boost(rng: Rng) -> int:
    X, y, A = _triplet_data(rng)
    d = X.shape[1]
    learner = PSDBoost(2, nu=float(rng.uniform(0.1, 0.9)), max_iter=300).fit(X, y)

    def objective(values: np.ndarray) -> float:
        L = values.reshape(d, d)
        M = L.T @ L
        return -float(mean_of_worst(np.einsum("rij,ij->r", A, M / (np.trace(M) or 1.0)), learner.nu * len(A)))

    start = np.eye(d).ravel()
    best = minimize(objective, start, method="Powell", options={"maxiter": 20, "maxfev": 1500})
    if best.fun < learner.objective_ - learner.gap_ - 1e-6 * abs(learner.objective_):
        proved = learner.objective_ - learner.gap_
        raise Failed(f"{learner!r}: {proved:.8g} is said to bound the minimum, SciPy reaches {best.fun:.8g}")
    return _not_above(learner, learner.objective_, float(best.fun), objective(start), FIRST_ORDER)


def _not_above(learner: Any, reached: float, lowest: float, started: float, share: float = ONE) -> int:
    if reached - lowest > share * max(started - lowest, 0.0) + 1e-6 * max(1.0, abs(lowest)):
        raise Failed(f"{learner!r}: {reached:.8g} from {started:.8g}, SciPy {lowest:.8g}")
    return 1


def _rank(rng: Rng) -> int | None:
    return 2 if chance(rng, 0.5) else None


_LONG: Any = {"max_iter": 2000, "tol": 1e-9}
_CASES: tuple[Callable[[Rng], int], ...] = (
    _descends(lambda rng: mahala.ITML(float(10.0 ** rng.uniform(-2, 1)), random_state=0, **_LONG), ONE),
    _descends(lambda rng: LSML(gamma=float(10.0 ** rng.uniform(-1, 1)), random_state=0, **_LONG), ONE, _quadruplets),
    _descends(lambda rng: mahala.MMC(diagonal=chance(rng, 0.5), random_state=0, **_LONG), ONE),
    _descends(lambda rng: mahala.GML(diagonal=chance(rng, 0.5), random_state=0, **_LONG), ONE),
    _descends(lambda rng: mahala.LogisticMetric(lam=float(10.0 ** rng.uniform(-3, 0)), random_state=0, **_LONG),
              ONE, _answers),
    _descends(lambda rng: SCML(float(10.0 ** rng.uniform(-5, -2)), n_bases=12, random_state=0, tol=1e-5), FIRST_ORDER),
    _descends(lambda rng: mahala.NCA(_rank(rng), random_state=0, **_LONG), PLATEAUS),
    _descends(lambda rng: MLKR(_rank(rng), random_state=0, **_LONG), SEVERAL, _numbers),
    _descends(lambda rng: mahala.LMNN(n_components=_rank(rng), random_state=0, **_LONG), SEVERAL),
    _sdml,
    _boost_metric,
    _psd_boost,
)  # fmt: skip


def run(case: int, seed: int, amount: int) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of labels that hardly depend on the features
        return _CASES[case % len(_CASES)](np.random.default_rng([seed, case]))
