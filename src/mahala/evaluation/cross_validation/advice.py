"""What to use: models that predict by themselves beside the metrics, on the same rows, and which is ahead."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mahala.evaluation.cross_validation.entries import Entry, Units, entry_of, in_order, knn
from mahala.evaluation.cross_validation.fitting import CLASSIFIERS
from mahala.evaluation.cross_validation.measures import row_losses
from mahala.evaluation.cross_validation.measuring import Cell
from mahala.evaluation.cross_validation.plan import Key, Plan
from mahala.judge import FEWEST, Decision, judge, mean_interval, paired_test
from mahala.support.arrays import FloatArray, IndexArray

# How a loss is called beside its value.
_CALLED = {
    "error": "{} error",
    "balanced": "{} balanced error",
    "f1": "1 - F1 of {}",
    "roc_auc": "1 - ROC AUC of {}",
    "r2": "1 - R² of {}",
}
# "Far ahead" has at most this share of the lowest error behind.
_FAR = 0.5


class Advice(NamedTuple):
    """What to use: a model that is clearly ahead of any distance, or a distance that is ahead of all models.

    Attributes
    ----------
    name, error : the method, a model or "k-NN with" a metric, and its error
    ahead_of : the others whose errors are higher, with a 95 % interval of the judge above 0
    level_with : the others, from which it does not differ clearly
    sentence : this in words
    """

    name: str
    error: float
    ahead_of: tuple[str, ...]
    level_with: tuple[str, ...]
    sentence: str

    @property
    def headline(self) -> str:
        """The advice in a few words."""
        names = " or ".join((_first(self.name), *self.level_with))
        return names if self.level_with else f"{names} is ahead"


class Shared(NamedTuple):
    """Losses of candidates and models on the units that all of them were measured on, of shape (n_units,)."""

    losses: dict[str, FloatArray]
    units: Units
    rows: IndexArray  # numbers of the units among all

    @property
    def groups(self) -> IndexArray | None:
        """The group of each unit, or None."""
        return None if self.units.groups is None else self.units.groups[self.rows]


def shared_losses(plan: Plan, cells: Mapping[Key, Cell], done: Sequence[int], units: Units) -> Shared:
    """Return the losses of models on the test parts that are theirs, beside the candidates' mean losses there."""
    first = [part for part in plan.model_parts if part in done]
    measured = {
        name: {part: cells[Key(name, part)] for part in first if Key(name, part) in cells} for name in plan.models
    }
    measured = {name: own for name, own in measured.items() if all(cell.failure is None for cell in own.values())}
    if units.rows is None:  # the units are test parts
        at = np.array([number for number, part in enumerate(done) if part in first], dtype=np.intp)
        losses = {name: values[0, at] for name, values in units.losses.items()}
        losses |= {
            name: np.array([own[part].loss for part in first]) for name, own in measured.items() if len(own) == len(at)
        }
        return Shared(losses, units, at)
    in_some = len(plan.model_parts) < len(plan.repetitions[0])
    tested = [plan.parts[part][1] for part in first] if in_some or not first else [units.rows]
    at = np.flatnonzero(np.isin(units.rows, np.concatenate([np.empty(0, dtype=np.intp), *tested])))
    rows = units.rows[at]
    losses = {name: values.mean(axis=0)[at] for name, values in units.losses.items()}
    for name, own in measured.items():
        predicted, seen = np.zeros_like(plan.target.values), np.zeros(len(plan.target.codes), dtype=bool)
        for part, cell in own.items():
            predicted[plan.parts[part][1]] = cell.predicted
            seen[plan.parts[part][1]] = True
        if seen[rows].all():
            values = row_losses(plan.measure, predicted[rows], plan.target.values[rows])
            losses[name] = values
    return Shared(losses, units, at)


def model_entries(plan: Plan, cells: Mapping[Key, Cell], shared: Shared, reference: str) -> list[Entry]:
    """Return the entries of models in their order."""
    result = []
    for name in plan.models:
        own = {part: cells[Key(name, part)] for part in plan.repetitions[0] if Key(name, part) in cells}
        if not own or not len(shared.rows):  # none of the test parts of models is done
            continue
        entry = replace(entry_of(plan, name, own), kind="model")
        if name in shared.losses:
            values = shared.losses[name]
            low, high = mean_interval(values, shared.groups)
            ends = paired_test(values - shared.losses[reference], shared.groups, overlap=shared.units.overlap)
            entry = replace(
                entry,
                error=float(values.mean()),
                low=max(low, 0.0),
                high=high if plan.target.is_number else min(high, 1.0),
                difference=ends[0],
                difference_low=ends[1],
                difference_high=ends[2],
            )
        result.append(entry)
    return in_order(result)


def advise(
    plan: Plan, shared: Shared, decision: Decision, chosen: Entry, best: Entry, models: Sequence[Entry]
) -> Advice | None:
    """Return what to use, or None if models and distances do not differ clearly, or were measured on too few units.

    `chosen` is the distance that the judge chooses, whose losses are those of choices on other folds, and `best` the
    one with the lowest error. That error is optimistic, so a model that is ahead of `best` is ahead of any distance.
    """
    models = [entry for entry in models if entry.name in shared.losses and not entry.is_set_apart]
    if not models or len(shared.rows) < FEWEST:
        return None
    losses = {entry.name: shared.losses[entry.name] for entry in models}
    errors = {entry.name: entry.error for entry in models}
    honest = -decision.values[shared.rows] if chosen.learned else shared.losses[chosen.name]
    voters = knn(plan.settings.n_neighbors)
    if honest.mean().round(12) <= min(values.mean() for values in losses.values()).round(12):
        name, own, error = f"{voters} with {chosen.spoken}", honest, chosen.error
        rivals = list(losses)
    else:
        name = models[0].name
        own, error = losses.pop(name), errors.pop(name)
        # Whatever is ahead of the best distance, those of the context included, is ahead of all.
        distances = {other: float(shared.losses[other].mean()) for other in plan.baselines if other in shared.losses}
        distances[best.name] = best.error
        nearest = min(distances, key=distances.__getitem__)
        rivals = [f"{voters} with {Entry(nearest, learned=False).spoken}"]
        losses[rivals[0]], errors[rivals[0]] = shared.losses[nearest], distances[nearest]
    behind = [other for other, values in losses.items() if _is_ahead(plan, shared, own, values)]
    if not set(rivals) <= set(behind):
        return None
    level = [other for other in losses if other not in behind]
    shown = {other: f"{other} ({_percent(value)})" for other, value in errors.items()}
    of_model = name in plan.models
    ahead = f"any distance ({_percent(errors[rivals[0]])})" if of_model else listed([shown[other] for other in rivals])
    far = "far " if error <= _FAR * min(errors[other] for other in rivals) else ""
    sentence = f"{_first(name)} ({_CALLED[plan.measure].format(_percent(error))}) is {far}ahead of {ahead}."
    if also := [shown[other] for other in behind if other not in rivals]:
        sentence += f" It is also ahead of {listed(also)}."
    if level:
        are = "is" if len(level) == 1 else "are"
        sentence += f" {_first(listed([shown[other] for other in level]))} {are} not clearly behind."
    return Advice(name, error, tuple(behind), tuple(level), sentence)


def _first(text: str) -> str:
    """Return text as it begins a sentence: names of other libraries' models are words, all others are names."""
    return text[0].upper() + text[1:] if text.startswith(CLASSIFIERS) else text


def _is_ahead(plan: Plan, shared: Shared, own: FloatArray, other: FloatArray) -> bool:
    """Return whether the judge shows that one method has lower losses than another."""
    values = -np.stack([other, own], axis=1)[np.newaxis]
    units = shared.units
    verdict = judge(
        values,
        units.folds[:1, shared.rows],
        measure=plan.measure,
        units=units.name,
        groups=shared.groups,
        overlap=units.overlap,
    ).verdict
    return verdict.kind == "shown to help"


def listed(names: list[str]) -> str:
    """Return names as a part of a sentence: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"
