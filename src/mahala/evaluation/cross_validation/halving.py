"""Successive halving: after each repetition of a cross-validation, only learners that can still win are measured.

The verdict stays honest. Each row keeps, for each learner, the mean loss of the repetitions in which it was measured,
and in each of them the row was held out. So every learner has a loss on every row, and the judge chooses among all.
Of a large table, some rows are for a screening: learners are compared on them first, and on the other rows only those
that are among the better third there. The judge sees the other rows only.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from mahala.evaluation.cross_validation.answers import AnswerPlan
from mahala.evaluation.cross_validation.entries import reference_of, units_of
from mahala.evaluation.cross_validation.measuring import Cell
from mahala.evaluation.cross_validation.plan import Key, Plan
from mahala.judge import ROUNDING, lower_bounds

# One of so many learners stays after a repetition. Others of the same rows only average how the folds were drawn.
_STAY = 3


def next_keys(plan: Plan | AnswerPlan, cells: Mapping[Key, Cell]) -> list[Key]:
    """Return the cells of the first round that is not complete, without those that are measured; none at the end."""
    missing = ([key for key in keys if key not in cells] for keys in _rounds(plan, cells))
    return next(filter(None, missing), [])


def finished_parts(plan: Plan | AnswerPlan, cells: Mapping[Key, Cell]) -> list[int]:
    """Return the test parts on which all has been measured that is to be.

    Those of the screening count only if there are no others: they choose learners, which the others test.
    """
    by_part = defaultdict[int, list[Key]](list)
    for keys in _rounds(plan, cells):
        for key in keys:
            by_part[key.part].append(key)
        if any(key not in cells for key in keys):
            break
    done = sorted(part for part, keys in by_part.items() if all(key in cells for key in keys))
    n_screening = plan.n_screening if isinstance(plan, Plan) else 0
    return [part for part in done if part >= n_screening] or done


def most_keys(plan: Plan | AnswerPlan, cells: Mapping[Key, Cell]) -> int:
    """Return how many cells are measured in all, if no more learners fall out than must."""
    n = n_learners = n_rounds = 0
    for keys in _rounds(plan, cells):
        n, n_rounds = n + len(keys), n_rounds + 1
        n_learners = sum(name in plan.learners for name in {key.name for key in keys})
        if any(key not in cells for key in keys):
            break
    else:
        return n
    if isinstance(plan, AnswerPlan) or not plan.is_halved:
        return n
    for number, parts in enumerate(plan.repetitions):
        if number >= n_rounds - bool(plan.n_screening):
            n_learners = _kept(n_learners)
            n += len(parts) * (len(plan.plain) + n_learners + (0 if number else len(plan.baselines)))
            n += 0 if number else len(plan.model_parts) * len(plan.models)
    return n


def _rounds(plan: Plan | AnswerPlan, cells: Mapping[Key, Cell]) -> Iterator[list[Key]]:
    """Yield the cells of each round; those of all rounds before must be measured when the next one is asked for."""
    if isinstance(plan, AnswerPlan) or not plan.is_halved:
        yield plan.keys
        return
    learners, done = list(plan.learners), list(range(plan.n_screening))
    if done:
        yield [key for key in plan.keys if key.part in done]
        learners = survivors(plan, cells, learners, done, least=1)
    keys, first = plan.keys, {*plan.repetitions[0]}
    out = {*plan.learners} - {*learners}
    yield [key for key in keys if key.part in first and key.name not in out]
    done = []
    for parts, after in pairwise(plan.repetitions):
        done += parts
        learners = survivors(plan, cells, learners, done)
        if not learners:
            return
        yield [Key(name, part) for part in after for name in (*plan.plain, *learners)]


def survivors(plan: Plan, cells: Mapping[Key, Cell], learners: list[str], done: list[int], least: int = 0) -> list[str]:
    """Return the learners that can still win after some test parts: the better third at most, but `least` anyway.

    A learner is out if its mean loss is higher than that of the best one, or of the best plain distance, by more than
    1.64 standard errors.
    """
    units = units_of(plan, cells, done)
    losses = {name: units.losses[name].mean(axis=0) for name in units.losses}
    able = [name for name in learners if name in losses]
    if not able:
        return []
    ranked = sorted(able, key=lambda name: round(float(losses[name].mean()), 12))
    best = np.stack([losses[ranked[0]], losses[reference_of(plan, units)]], axis=1)
    return [
        name
        for rank, name in enumerate(ranked[: _kept(len(learners))])
        if rank < least or (lower_bounds(losses[name][:, np.newaxis] - best, units.groups) <= ROUNDING).all()
    ]


def _kept(n_learners: int) -> int:
    return -(-n_learners // _STAY)
