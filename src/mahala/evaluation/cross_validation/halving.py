"""Successive halving: after each repetition of a cross-validation, only learners that can still win are measured.

The verdict stays honest. Each row keeps, for each learner, the mean loss of the repetitions in which it was measured,
and in each of them the row was held out. So every learner has a loss on every row, and the judge chooses among all.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

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
    """Return the test parts on which all candidates have been measured that are to be."""
    candidates, by_part = {*plan.candidates}, defaultdict[int, list[Key]](list)
    for keys in _rounds(plan, cells):
        for key in keys:
            if key.name in candidates:
                by_part[key.part].append(key)
        if any(key not in cells for key in keys):
            break
    return sorted(part for part, keys in by_part.items() if all(key in cells for key in keys))


def most_keys(plan: Plan | AnswerPlan, cells: Mapping[Key, Cell]) -> int:
    """Return how many cells are measured in all, if no more learners fall out than must."""
    n, n_learners, n_rounds = 0, len(plan.learners), 0
    for keys in _rounds(plan, cells):
        n, n_rounds = n + len(keys), n_rounds + 1
        if any(key not in cells for key in keys):
            break
        n_learners = sum(name in plan.learners for name in {key.name for key in keys})
    else:
        return n
    if isinstance(plan, AnswerPlan) or not plan.is_halved:
        return n
    for parts in plan.repetitions[n_rounds:]:
        n_learners = _kept(n_learners)
        n += len(parts) * (len(plan.plain) + n_learners)
    return n


def _rounds(plan: Plan | AnswerPlan, cells: Mapping[Key, Cell]) -> Iterator[list[Key]]:
    """Yield the cells of each round; those of all rounds before must be measured when the next one is asked for."""
    if isinstance(plan, AnswerPlan) or not plan.is_halved:
        yield plan.keys
        return
    in_first = {*plan.repetitions[0]}
    yield [key for key in plan.keys if key.part in in_first]
    learners = list(plan.learners)
    for n_done in range(1, len(plan.repetitions)):
        learners = survivors(plan, cells, learners, n_done)
        if not learners:
            return
        yield [Key(name, part) for part in plan.repetitions[n_done] for name in (*plan.plain, *learners)]


def survivors(plan: Plan, cells: Mapping[Key, Cell], learners: list[str], n_done: int) -> list[str]:
    """Return the learners that can still win after so many repetitions, the better third at most.

    A learner is out if its mean loss is higher than that of the best one, or of the best plain distance, by more than
    1.64 standard errors.
    """
    done = [part for parts in plan.repetitions[:n_done] for part in parts]
    units = units_of(plan, cells, done)
    losses = {name: units.losses[name].mean(axis=0) for name in units.losses}
    ranked = sorted(
        (name for name in learners if name in losses), key=lambda name: round(float(losses[name].mean()), 12)
    )
    if not ranked:
        return []
    best = np.stack([losses[ranked[0]], losses[reference_of(plan, units)]], axis=1)
    kept = ranked[: _kept(len(learners))]
    return [name for name in kept if (lower_bounds(losses[name][:, np.newaxis] - best, units.groups) <= ROUNDING).all()]


def _kept(n_learners: int) -> int:
    return -(-n_learners // _STAY)
