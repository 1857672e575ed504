"""Compare learners with each other and with the Euclidean distance by cross-validation: plan, measure, summarise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np
from joblib.parallel import get_active_backend

from mahala.data.preprocessing import TablePreprocessor, rows_of_table
from mahala.data.scaling import Scaling
from mahala.evaluation.cell_file import CellFile
from mahala.evaluation.entries import context, entries
from mahala.evaluation.fitting import CLASSIFIERS, DISTANCES, fitted
from mahala.evaluation.knn import DEFAULT_NEIGHBORS
from mahala.evaluation.leaderboard import Leaderboard
from mahala.evaluation.leaderboard_lines import percent
from mahala.evaluation.measures import LOPSIDED, Measure, measure_for, smallest_step
from mahala.evaluation.measuring import Budget, Cell, measured_cells
from mahala.evaluation.plan import (
    MOST_ROWS,
    Key,
    Plan,
    check_learners,
    default_panel,
    left_out,
    parts_of,
    possible_folds,
    rows_and_preprocessor,
    sample_of,
)
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import BoolArray, IndexArray
from mahala.support.contexts import time_limit
from mahala.support.parameters import Count, Positive, check_value
from mahala.support.validation import check_labels, check_rows, class_codes

# Seconds that a comparison takes at most by default.
BUDGET = 600.0

Progress = Callable[[int, int, str], object]


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C during a comparison; `leaderboard` has the test parts that were finished."""

    def __init__(self, leaderboard: Leaderboard) -> None:
        super().__init__("the comparison was interrupted")
        self.leaderboard = leaderboard


def compare(
    X: Any,
    y: Any,
    learners: Mapping[str, Learner] | None = None,
    *,
    folds: int = 5,
    repeats: int = 2,
    n_neighbors: int | None = None,
    metric: Literal["auto"] | Measure = "auto",
    scaling: Literal["auto"] | Scaling = "auto",
    budget: float | None = BUDGET,
    baselines: bool = True,
    random_state: int = 0,
    n_jobs: int = 1,
    preprocessor: TablePreprocessor | None = None,
    callback: Progress | None = None,
    resume: str | PathLike[str] | None = None,
) -> Leaderboard:
    """Compare learners, and the Euclidean distance on raw and on scaled features, by repeated cross-validation.

    All learners are evaluated on the same stratified folds. In each training part the scales of the features are
    computed and the learner is fitted; the test part is then classified by nearest neighbours in the training part,
    with 1 to 25 neighbours (or up to `n_neighbors` if that is more). Intervals and tests use the corrected resampled t
    (Nadeau, Bengio, 2003), because training parts overlap. p-values are adjusted for the number of learners, so the
    winner's p-value remains valid although it was selected on the same folds; its error is slightly optimistic.

    A learner wins only if it is shown to beat the better Euclidean distance. If none is, `winner` of the result is that
    distance, and the verdict has the smallest difference that could have been shown: the standard error of the best
    learner's difference times the quantile of Student's t at which its adjusted p-value is 0.05.

    Parameters
    ----------
    X, y : rows (dense, CSR or a data frame, up to 5,000 features) and their class labels. A data frame is turned into
        features by :class:`mahala.TablePreprocessor`, as `columns` of the result tells; the medians that replace
        missing numbers, and the values of categories, are those of each training part. Tables of more than 20,000 rows
        are sampled, and if a class has fewer rows than `folds`, fewer folds are used; `notes` of the result say so.
    learners : learners by name; None for :func:`default_panel`
    folds, repeats : number of folds, and how often the cross-validation is repeated with other folds
    n_neighbors : number of neighbours whose error ranks the learners. If it is None, the other test parts of the same
        repetition choose it for each test part: 3, unless another number has an error that is lower by more than one
        standard error.
    metric : measure that ranks: "error" for the share of misclassified rows; "balanced" for its mean over classes;
        "f1" for 1 minus the F1 score, "roc_auc" for 1 minus the area under the ROC curve, of the rarer of two classes
        or their means over more classes. "auto" is "balanced" if more than 75 % of the rows are of one class, else
        "error".
    scaling : how features are scaled: "none", "standard" (by their standard deviation), "minmax" (by their range),
        "robust" (by the distance between their quartiles), or "auto" to choose for each training part. That is
        "standard", unless leave-one-out errors of the Euclidean distance on the training part are lower by more than
        two standard errors with another one.
    budget : seconds for the whole comparison, or None for no limit. Each fit may take an equal share, and of what
        quick learners leave; iterative learners that need more stop with what they have, and `stopped` of their entry
        counts that.
    baselines : whether to measure, on the first three test parts and as context only, k-NN with the cosine distance,
        PCA and LDA, logistic regression and gradient-boosted trees
    random_state : seed of the folds, and of learners whose own `random_state` is None
    n_jobs : number of processes
    preprocessor : what made X of a table, if X is no data frame, such as `read_table(...).preprocessor`
    callback : called after each fit with the number of fits done, their total and the name of the learner
    resume : a file that keeps what is finished. The same comparison of the same data, started again, resumes there.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C. If a test part is finished for all learners, its attribute `leaderboard` is the partial result.

    >>> from mahala import LDA
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> leaderboard = compare(X, y, {"LDA": LDA()}, repeats=1, baselines=False)
    >>> [entry.name for entry in leaderboard.entries]
    ['LDA', 'Euclidean, scaled', 'Euclidean']
    """
    for value, name in ((folds, "folds"), (repeats, "repeats"), (n_jobs, "n_jobs")):
        check_value(value, name, Count)
    check_value(n_neighbors, "n_neighbors", Count | None)
    check_value(budget, "budget", Positive | None)
    check_value(metric, "metric", Literal["auto", "error", "balanced", "f1", "roc_auc"])
    check_value(scaling, "scaling", Literal["auto", "none", "standard", "minmax", "robust"])
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}")
    X, preprocessor = rows_and_preprocessor(X, preprocessor)
    n_rows, n_features = X.shape
    codes = class_codes(y, n_rows)
    classes = tuple(str(label) for label in np.unique(check_labels(y, n_rows)))
    notes: list[str] = []
    folds = possible_folds(codes, classes, folds, notes)
    rows = sample_of(codes, folds, random_state, notes)
    X, codes = X[rows], codes[rows]
    missing: dict[str, str] = {}
    if learners is None:
        size = min(n_rows, MOST_ROWS), n_features
        learners, missing = default_panel(*size, random_state), left_out(*size)
    check_learners(learners)
    parts = parts_of(codes, folds, repeats, random_state)
    least = min(len(train) for train, _ in parts)
    if n_neighbors is not None and n_neighbors > least:
        raise ValueError(f"n_neighbors must be at most {least}, the number of training rows, got {n_neighbors}")
    measure = measure_for(codes) if metric == "auto" else metric
    if metric != measure == "balanced":
        notes.append(_why_balanced(codes, classes))
    taken = {name for learner in learners for name in (learner, f"k-NN with {learner}")}
    plan = Plan(
        X=X,
        codes=codes,
        classes=classes,
        rows=rows,
        n_rows=n_rows,
        parts=parts,
        folds=folds,
        repeats=repeats,
        counts=np.arange(1, min(max(n_neighbors or 0, DEFAULT_NEIGHBORS[-1]), least) + 1),
        n_neighbors=n_neighbors,
        measure=measure,
        scaling=scaling,
        random_state=random_state,
        budget=budget,
        learners=learners,
        baselines=[name for name in (*DISTANCES, *CLASSIFIERS) if baselines and name not in taken],
        left_out=missing,
        preprocessor=preprocessor,
        notes=notes,
    )
    cells, interrupt = _measure(plan, resume, n_jobs, callback)
    done = _finished_parts(plan, cells)
    if interrupt is not None and not done:
        raise interrupt
    board = _summarise(
        plan, cells, done, "Ctrl-C" if interrupt is not None else f"the budget of {budget or 0.0:g} seconds"
    )
    if interrupt is not None:
        raise ComparisonInterrupted(board) from interrupt
    return board


def _measure(
    plan: Plan, resume: str | PathLike[str] | None, n_jobs: int, callback: Progress | None
) -> tuple[dict[Key, Cell], KeyboardInterrupt | None]:
    """Return all cells, or those that were finished before Ctrl-C or the end of the budget."""
    file = CellFile(resume, Key, plan.digest() if resume is not None else "")
    cells = {key: Cell.of(values) for key, values in file.cells.items() if key in plan.keys}
    missing = [key for key in plan.keys if key not in cells]
    budget = Budget(plan.budget, missing, plan.learners, get_active_backend()[0].effective_n_jobs(n_jobs))
    try:
        for key, cell in measured_cells(plan, missing, budget, n_jobs):
            cells[key] = cell
            file.add(key, vars(cell))
            if callback is not None:
                callback(len(cells), len(plan.keys), key.name)
            if budget.is_spent() and len(_finished_parts(plan, cells)) > 1:
                break
    except KeyboardInterrupt as error:
        return cells, error
    return cells, None


def _finished_parts(plan: Plan, cells: Mapping[Key, Cell]) -> list[int]:
    """Return the test parts on which all candidates have been measured."""
    return [part for part in range(len(plan.parts)) if all(Key(name, part) in cells for name in plan.candidates)]


def _summarise(plan: Plan, cells: Mapping[Key, Cell], done: list[int], end: str) -> Leaderboard:
    """Make the leaderboard of the test parts that are done; `end` is what ended a partial comparison."""
    notes = list(plan.notes)
    if len(done) < len(plan.parts):
        notes.append(f"Partial: {end} ended the comparison after {len(done)} of {len(plan.parts)} test parts.")
    elif len(cells) < len(plan.keys):
        notes.append("Not all baselines were measured, because the comparison was ended before.")
    by_name: dict[str, list[Cell]] = {}
    for key in plan.keys:
        if key in cells and (key.name in plan.baselines or key.part in done):
            by_name.setdefault(key.name, []).append(cells[key])
    at = None if plan.n_neighbors is None else plan.n_neighbors - 1
    counts = np.bincount(plan.codes)
    same = ("n_neighbors", "folds", "repeats", "scaling", "random_state", "n_rows", "classes", "rows", "left_out")
    return Leaderboard(
        **{name: getattr(plan, name) for name in same},
        entries=entries(
            {name: by_name[name] for name in plan.candidates},
            set(plan.learners),
            repetitions=np.array(done) // plan.folds,
            at=at,
            folds=plan.folds,
            step=smallest_step(plan.measure, counts / plan.folds),
        ),
        neighbor_counts=plan.counts,
        n_features=plan.X.shape[1],
        class_counts=tuple(counts.tolist()),
        notes=tuple(notes),
        metric=plan.measure,
        baselines=context({name: by_name[name] for name in plan.baselines if name in by_name}, at),
        parts=len(done),
        columns=() if plan.preprocessor is None else tuple(plan.preprocessor.columns_),
    )


def _why_balanced(codes: IndexArray, classes: tuple[str, ...]) -> str:
    counts = np.bincount(codes)
    majority = classes[int(counts.argmax())]
    return (
        f"The balanced error ranks, because over {100.0 * LOPSIDED:.0f} % of rows are of class {majority!r}: always "
        f"answering {majority!r} has an error of {percent(1.0 - counts.max() / len(codes))}, but a balanced error of "
        f"{percent(1.0 - 1.0 / len(classes))}. The metric 'error' ranks by the plain error."
    )


def held_out(
    X: Any,
    y: Any,
    learner: Learner | None,
    leaderboard: Leaderboard,
    scaling: Scaling = "standard",
    *,
    seconds: float | None = None,
) -> tuple[MahalanobisMetric, BoolArray]:
    """Return the learner's metric from the first training part, and a mask of the `leaderboard.rows` held out.

    The other arguments are those of :func:`refit`.
    """
    X, y = check_rows(rows_of_table(X)[0])[leaderboard.rows], np.asarray(y)[leaderboard.rows]
    codes = class_codes(y, len(y))
    train, test = parts_of(codes, leaderboard.folds, leaderboard.repeats, leaderboard.random_state)[0]
    with time_limit(seconds):
        metric = fitted(X[train], codes[train], learner, scaling)
    mask = np.zeros(len(codes), dtype=bool)
    mask[test] = True
    return metric, mask
