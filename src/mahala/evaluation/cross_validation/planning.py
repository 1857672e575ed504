"""Plan a comparison: check what is given, and choose rows, parts, learners, the measure and the neighbours."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mahala.data.copies import Copies
from mahala.evaluation.cross_validation.fitting import CLASSIFIERS, DISTANCES
from mahala.evaluation.cross_validation.leaderboard import percent
from mahala.evaluation.cross_validation.measures import LOPSIDED, Measure, measure_for
from mahala.evaluation.cross_validation.panel import (
    UNSUPERVISED,
    check_learners,
    default_panel,
    default_predictor,
    left_out,
    members,
    named_learners,
)
from mahala.evaluation.cross_validation.plan import (
    Plan,
    Target,
    check_groups,
    check_times,
    rows_and_preprocessor,
    target_of,
)
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.splits import (
    Parts,
    auto_repeats,
    joined,
    most_rows,
    one_of_each,
    parts_of,
    possible_folds,
    sample_of,
    screening_parts,
    with_copies,
)
from mahala.evaluation.knn import DEFAULT_NEIGHBORS
from mahala.learner import Learner
from mahala.neighbors.model import NeighborModel
from mahala.support.arrays import IndexArray


def make_plan(X: Any, y: Any, learners: Mapping[str, Learner] | Iterable[str] | None, settings: Settings) -> Plan:
    """Return the plan of :func:`mahala.compare`."""
    X, preprocessor = rows_and_preprocessor(X, settings.preprocessor)
    n_rows, metric, seed = X.shape[0], settings.metric, settings.random_state
    notes = list[str]()
    target = _target(y, n_rows, metric, notes)
    groups, times = check_groups(settings.groups, n_rows), check_times(settings.times, n_rows)
    folds = settings.folds
    columns = None if preprocessor is None else list(preprocessor.feature_groups().values())
    copies = Copies.of(X, target.values, columns)
    sets = np.arange(n_rows) if copies is None else copies.sets
    if not target.is_number:
        folds = possible_folds(target.codes[one_of_each(sets, target.codes)], target.classes, folds, notes)
    unit = "rows" if copies is None else "different rows"
    if groups is not None:
        unit, groups, sets = "groups", joined(groups, sets, folds), np.arange(n_rows)
        folds = min(folds, int(groups.max()) + 1)
    rows = sample_of(target.codes, most_rows(X.shape[1]), folds, seed, notes)
    X, target = X[rows], target.select(rows)
    sets = np.unique(sets[rows], return_inverse=True)[1]
    first = one_of_each(sets, target.codes)
    groups = None if groups is None else groups[rows]
    times = None if times is None else times[rows]
    repeats = 1 if times is not None else auto_repeats(len(rows)) if settings.repeats == "auto" else settings.repeats
    measure: Measure = metric if metric != "auto" else "r2" if target.is_number else measure_for(target.codes)
    # F1 and areas under curves are not means over rows, so a learner needs them of the same test parts as others.
    is_halved = learners is None and settings.repeats == "auto" and measure not in ("f1", "roc_auc")
    screening, screened = Parts(), np.empty(0, dtype=np.intp)
    if is_halved and groups is None and times is None:
        screening, screened = screening_parts(target.codes[first], X.shape[1], folds, seed)
    if times is not None:
        parts = parts_of(None, folds, 1, seed, sets if groups is None else groups, times, len(rows))
        folds = len(parts)
    else:
        codes = None if target.is_number else target.codes[first]
        parts = _tested_parts(codes, sets, screened, folds, repeats, seed, groups)
    chosen, predictors, missing = _learners(learners, len(rows), X.shape[1], target, settings)
    if metric != measure == "balanced":
        notes.append(_why_balanced(target))
    others = _others({*chosen, *predictors}, settings.baselines, numbers=target.is_number)
    settings = replace(settings, folds=folds, repeats=int(repeats), groups=None, times=None, preprocessor=preprocessor)
    return Plan(
        X=X,
        target=target,
        rows=rows,
        n_rows=n_rows,
        parts=[*with_copies(screening, sets), *parts],
        counts=_counts(settings.n_neighbors or 0, least=min(len(train) for train, _ in parts)),
        groups=sets if unit == "different rows" else groups,
        unit=unit,
        copies=copies,
        measure=measure,
        settings=settings,
        learners=chosen,
        models=[*(name for name in others if name in CLASSIFIERS), *predictors],
        predictors=predictors,
        baselines=[name for name in others if name in DISTANCES],
        left_out=missing,
        notes=notes,
        is_halved=is_halved,
        n_screening=len(screening),
    )


def _target(y: Any, n_rows: int, metric: Literal["auto"] | Measure, notes: list[str]) -> Target:
    target = target_of(y, n_rows, None if metric == "auto" else metric == "r2")
    if target.is_number and metric == "auto":
        notes.append("The target is a number: k-NN regression is compared. For classes, pass them as text.")
    return target


def _counts(n_neighbors: int, *, least: int) -> IndexArray:
    """Return the numbers of neighbours to measure; `least` is the smallest number of training rows."""
    if n_neighbors > least:
        raise ValueError(f"n_neighbors must be at most {least}, the number of training rows, got {n_neighbors}")
    return np.arange(1, min(max(n_neighbors, DEFAULT_NEIGHBORS[-1]), least) + 1)


def _tested_parts(
    codes: IndexArray | None,
    sets: IndexArray,
    screened: IndexArray,
    folds: int,
    repeats: int,
    seed: int,
    groups: IndexArray | None,
) -> Parts:
    """Return parts that test each set of copies but those of the screening; `codes` are the classes of sets."""
    tested = np.setdiff1d(np.unique(sets), screened)  # all rows, if they have groups
    parts = parts_of(None if codes is None else codes[tested], folds, repeats, seed, groups, None, len(tested))
    return with_copies([(np.r_[tested[train], screened], tested[test]) for train, test in parts], sets)


def _others(taken: set[str], baselines: bool | Literal["distances"], *, numbers: bool) -> list[str]:
    """Return the names of models and distances to measure beside those that are taken."""
    if baselines is not True:
        return [name for name in UNSUPERVISED if baselines and name not in taken]
    without = {"LDA", "logistic regression"} if numbers else {"ridge regression"}
    return [name for name in (*CLASSIFIERS, *DISTANCES) if name not in taken | without]


def _learners(
    learners: Any, n_rows: int, n_features: int, target: Target, settings: Settings
) -> tuple[dict[str, Learner], dict[str, NeighborModel], dict[str, str]]:
    """Return learners and predictors by name, and why members of the default panel are left out."""
    missing: dict[str, str] = {}
    seed, numbers = settings.random_state, target.is_number
    if learners is None:
        learners = default_panel(n_rows, n_features, seed, numbers=numbers)
        missing = left_out(n_rows, n_features, numbers=numbers)
    elif isinstance(learners, Iterable) and not isinstance(learners, Mapping):
        panel = members(n_rows, n_features, seed, numbers=numbers)
        learners = named_learners(learners, panel | default_predictor(seed, numbers=numbers))
    check_learners(learners, numbers=numbers)
    predictors = {name: learner for name, learner in learners.items() if isinstance(learner, NeighborModel)}
    if settings.baselines is True and not predictors:
        predictors = default_predictor(seed, numbers=numbers)
    return {name: own for name, own in learners.items() if not isinstance(own, NeighborModel)}, predictors, missing


def _why_balanced(target: Target) -> str:
    counts = np.bincount(target.codes)
    majority = target.classes[int(counts.argmax())]
    return (
        f"Metrics are ranked by the balanced error, because over {100.0 * LOPSIDED:.0f} % of rows are of class "
        f"{majority!r}: always answering {majority!r} has an error of "
        f"{percent(1.0 - counts.max() / len(target.codes))}, but a balanced error of "
        f"{percent(1.0 - 1.0 / len(counts))}. For the plain error, use --metric error (Python: metric='error')."
    )
