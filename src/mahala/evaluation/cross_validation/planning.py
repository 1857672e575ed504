"""Plan a comparison: check what is given, and choose rows, parts, learners, the measure and the neighbours."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from mahala.data.preprocessing import TablePreprocessor
from mahala.data.scaling import Scaling
from mahala.evaluation.cross_validation.fitting import CLASSIFIERS, DISTANCES
from mahala.evaluation.cross_validation.leaderboard import percent
from mahala.evaluation.cross_validation.measures import LOPSIDED, Measure, measure_for
from mahala.evaluation.cross_validation.panel import (
    check_learners,
    default_panel,
    default_predictor,
    left_out,
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
from mahala.evaluation.cross_validation.splits import MOST_ROWS, auto_repeats, parts_of, possible_folds, sample_of
from mahala.evaluation.knn import DEFAULT_NEIGHBORS
from mahala.learner import Learner
from mahala.neighbors.model import NeighborModel
from mahala.support.parameters import Count, Positive, check_value


def make_plan(
    X: Any,
    y: Any,
    learners: Mapping[str, Learner] | Iterable[str] | None,
    *,
    folds: int,
    repeats: Literal["auto"] | int,
    n_neighbors: int | None,
    metric: Literal["auto"] | Measure,
    scaling: Literal["auto"] | Scaling,
    groups: Any,
    times: Any,
    budget: float | None,
    baselines: bool,
    random_state: int,
    preprocessor: TablePreprocessor | None,
) -> Plan:
    """Return the plan of :func:`mahala.compare`, which describes the arguments."""
    check_value(folds, "folds", Count)
    check_value(repeats, "repeats", Literal["auto"] | Count)
    check_value(n_neighbors, "n_neighbors", Count | None)
    check_value(budget, "budget", Positive | None)
    check_value(metric, "metric", Literal["auto", "error", "balanced", "f1", "roc_auc", "r2"])
    check_value(scaling, "scaling", Literal["auto", "none", "numbers", "standard", "minmax", "robust"])
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}")
    X, preprocessor = rows_and_preprocessor(X, preprocessor)
    n_rows = X.shape[0]
    target = target_of(y, n_rows, None if metric == "auto" else metric == "r2")
    group_codes, moments, notes = check_groups(groups, n_rows), check_times(times, n_rows), list[str]()
    if target.is_number:
        if metric == "auto":
            notes.append("The target is a number: k-NN regression is compared. For classes, pass them as text.")
    else:
        folds = possible_folds(target.codes, target.classes, folds, notes)
    if group_codes is not None:
        folds = min(folds, int(group_codes.max()) + 1)
    rows = sample_of(target.codes, folds, random_state, notes)
    X, target = X[rows], target.select(rows)
    group_codes = None if group_codes is None else group_codes[rows]
    moments = None if moments is None else moments[rows]
    n_repeats = 1 if moments is not None else auto_repeats(len(rows)) if repeats == "auto" else int(repeats)
    codes = None if target.is_number else target.codes
    parts = parts_of(codes, folds, n_repeats, random_state, group_codes, moments, len(rows))
    size = min(n_rows, MOST_ROWS), X.shape[1]
    chosen, predictors, missing = _learners(learners, size, random_state, target.is_number, baselines)
    least = min(len(train) for train, _ in parts)
    if n_neighbors is not None and n_neighbors > least:
        raise ValueError(f"n_neighbors must be at most {least}, the number of training rows, got {n_neighbors}")
    measure: Measure = metric if metric != "auto" else "r2" if target.is_number else measure_for(target.codes)
    if metric != measure == "balanced":
        notes.append(_why_balanced(target))
    without = {"k-NN with LDA", "logistic regression"} if target.is_number else {"ridge regression"}
    taken = {name for learner in chosen for name in (learner, f"k-NN with {learner}")} | without | set(predictors)
    return Plan(
        X=X,
        target=target,
        rows=rows,
        n_rows=n_rows,
        parts=parts,
        folds=folds if moments is None else len(parts),
        repeats=n_repeats,
        counts=np.arange(1, min(max(n_neighbors or 0, DEFAULT_NEIGHBORS[-1]), least) + 1),
        n_neighbors=n_neighbors,
        groups=group_codes,
        measure=measure,
        scaling=scaling,
        random_state=random_state,
        budget=budget,
        learners=chosen,
        models=[*predictors, *(name for name in CLASSIFIERS if baselines and name not in taken)],
        predictors=predictors,
        baselines=[name for name in DISTANCES if baselines and name not in taken],
        left_out=missing,
        preprocessor=preprocessor,
        notes=notes,
    )


def _learners(
    given: Mapping[str, Any] | Iterable[str] | None, size: tuple[int, int], seed: int, numbers: bool, baselines: bool
) -> tuple[dict[str, Learner], dict[str, NeighborModel], dict[str, str]]:
    """Return learners and predictors by name, and why members of the default panel are left out."""
    missing: dict[str, str] = {}
    if given is None:
        learners: Any = default_panel(*size, seed, numbers=numbers)
        missing = left_out(*size, numbers=numbers)
    elif isinstance(given, Mapping) or not isinstance(given, Iterable):
        learners = given
    else:
        learners = named_learners(given, *size, seed, numbers=numbers)
    check_learners(learners, numbers=numbers)
    predictors = {name: learner for name, learner in learners.items() if isinstance(learner, NeighborModel)}
    if baselines and not predictors:
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
