"""Compare learners with each other and with plain distances by cross-validation: plan, measure, summarise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

import numpy as np
from joblib.parallel import get_active_backend

from mahala.data.labels import possible_leaks
from mahala.data.preprocessing import TablePreprocessor, rows_of_table
from mahala.data.scaling import Scaling
from mahala.evaluation.cell_file import CellFile
from mahala.evaluation.entries import decide, entries, entry_of, reference_of, units_of
from mahala.evaluation.fitting import CLASSIFIERS, DISTANCES, fitted
from mahala.evaluation.knn import DEFAULT_NEIGHBORS
from mahala.evaluation.leaderboard import Leaderboard
from mahala.evaluation.leaderboard_lines import p_text, percent, points
from mahala.evaluation.measures import LOPSIDED, Measure, measure_for
from mahala.evaluation.measuring import Budget, Cell, choose, measure_cell, measured_cells, usual_neighbors
from mahala.evaluation.panel import check_learners, default_panel, left_out, named_learners
from mahala.evaluation.plan import Key, Plan, Target, check_groups, check_times, rows_and_preprocessor, target_of
from mahala.evaluation.splits import MOST_ROWS, auto_repeats, group_column, parts_of, possible_folds, sample_of
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import BoolArray, IndexArray
from mahala.support.contexts import time_limit
from mahala.support.parameters import Count, Positive, check_value, get_config
from mahala.support.validation import check_rows, is_sparse

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
    learners: Mapping[str, Learner] | Iterable[str] | None = None,
    *,
    folds: int = 5,
    repeats: Literal["auto"] | int = "auto",
    n_neighbors: int | None = None,
    metric: Literal["auto"] | Measure = "auto",
    scaling: Literal["auto"] | Scaling = "auto",
    groups: Any = None,
    times: Any = None,
    budget: float | None = BUDGET,
    baselines: bool = True,
    random_state: int = 0,
    n_jobs: int = 1,
    preprocessor: TablePreprocessor | None = None,
    callback: Progress | None = None,
    resume: str | PathLike[str] | None = None,
) -> Leaderboard:
    """Compare learners and plain distances by repeated cross-validation, and judge whether learning helps.

    All learners are evaluated on the same folds. In each training part the scales of the features are computed and the
    learner is fitted; the test part is then predicted by nearest neighbours in the training part: classes by votes,
    numbers by means. The reference is the plain distance with the lowest error, of raw features and of scaled ones.

    The judge makes one test, however many learners there are. For each fold it chooses a learner on the other folds:
    the one with the largest mean gain minus 1.64 standard errors. What it chose is measured on the fold. On all folds
    together it chooses the reference instead if no learner has such a lower bound above 0. The gains over all rows,
    paired with the reference, give the verdict: "shown to help" if a learner is chosen and the 95 % interval is above
    0, "probably helps" if a learner is chosen and the gain is above 0, and otherwise "does not help". The intervals of
    the entries describe each learner alone and are not adjusted.

    Parameters
    ----------
    X, y : rows (dense, CSR or a data frame, up to 5,000 features) and their class labels, or numbers to predict. A
        data frame is turned into features by :class:`mahala.TablePreprocessor`, as `columns` of the result tells; the
        medians that replace missing numbers, and the values of categories, are those of each training part. Tables of
        more than 20,000 rows are sampled, and if a class has fewer rows than `folds`, fewer folds are used; `notes` of
        the result say so.
    learners : learners by name, or names of members of the panel, such as ["GML", "LMNN"]; None for
        :func:`default_panel`
    folds, repeats : number of folds, and how often the cross-validation is repeated with other folds; "auto" repeats
        it 2 to 10 times, the more often the fewer rows there are
    n_neighbors : number of neighbours. None is 3, unless the scaled Euclidean distance has an error that is lower by
        more than one standard error with 1, 5, 9, 15 or 25.
    metric : measure that ranks: "error" for the share of misclassified rows; "balanced" for its mean over classes;
        "f1" for 1 minus the F1 score, "roc_auc" for 1 minus the area under the ROC curve, of the rarer of two classes
        or their means over more classes; "r2" for 1 minus R² of predicted numbers. "auto" is "r2" if y has many
        different numbers, "balanced" if more than 75 % of the rows are of one class, else "error".
    scaling : how features are scaled: "none"; "standard" (by their standard deviation); "numbers" (the same, but 0/1
        features stay as they are); "minmax" (by their range); "robust" (by the distance between their quartiles); or
        "auto" to choose for each training part. That is "numbers", or "standard" if no feature is 0/1, unless
        leave-one-out errors of the Euclidean distance on the training part are lower by more than two standard errors
        with another one.
    groups : the group of each row, such as a household or a patient. Rows of one group are in one part, so that errors
        are those on new groups.
    times : the time of each row, numbers or dates. Each test part is then predicted from the rows before it.
    budget : seconds for the whole comparison, or None for no limit. Each fit may take an equal share, and of what
        quick learners leave; iterative learners that need more stop with what they have, and `stopped` of their entry
        counts that.
    baselines : whether to measure, on the first three test parts and as context only, k-NN with the cosine distance,
        PCA and LDA, logistic or ridge regression and gradient-boosted trees
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
    >>> leaderboard = compare(X, y, {"LDA": LDA()}, n_neighbors=3, baselines=False)
    >>> [entry.name for entry in leaderboard.entries]
    ['LDA', 'Euclidean, scaled', 'Euclidean']
    >>> leaderboard.verdict.kind
    'probably helps'
    """
    for value, name in ((folds, "folds"), (n_jobs, "n_jobs")):
        check_value(value, name, Count)
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
    missing: dict[str, str] = {}
    size = min(n_rows, MOST_ROWS), X.shape[1]
    if learners is None:
        learners = default_panel(*size, random_state, numbers=target.is_number)
        missing = left_out(*size, numbers=target.is_number)
    elif not isinstance(learners, Mapping) and isinstance(learners, Iterable):
        learners = named_learners(learners, *size, random_state, numbers=target.is_number)
    check_learners(learners, numbers=target.is_number)
    least = min(len(train) for train, _ in parts)
    if n_neighbors is not None and n_neighbors > least:
        raise ValueError(f"n_neighbors must be at most {least}, the number of training rows, got {n_neighbors}")
    measure: Measure = metric if metric != "auto" else "r2" if target.is_number else measure_for(target.codes)
    if metric != measure == "balanced":
        notes.append(_why_balanced(target))
    without = {"k-NN with LDA", "logistic regression"} if target.is_number else {"ridge regression"}
    taken = {name for learner in learners for name in (learner, f"k-NN with {learner}")} | without
    plan = Plan(
        X=X,
        target=target,
        rows=rows,
        n_rows=n_rows,
        parts=parts,
        folds=folds if moments is None else len(parts),
        repeats=n_repeats,
        counts=np.arange(1, min(max(n_neighbors or 0, DEFAULT_NEIGHBORS[-1]), least) + 1),
        n_neighbors=n_neighbors or 0,
        groups=group_codes,
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
    if n_neighbors is None:
        plan = replace(plan, n_neighbors=usual_neighbors(plan))
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
    units = units_of(plan, cells, done)
    reference = reference_of(plan, units)
    chosen, decision = decide(plan, units, reference, plan.measure)
    baselines = {
        name: {key.part: cells[key] for key in plan.keys if key.name == name and key in cells}
        for name in plan.baselines
    }
    target = plan.target
    same = ("n_neighbors", "folds", "repeats", "scaling", "random_state", "n_rows", "rows", "left_out")
    board = Leaderboard(
        **{name: getattr(plan, name) for name in same},
        entries=tuple(entries(plan, cells, done, units, reference)),
        verdict=decision.verdict,
        chosen=chosen,
        reference=reference,
        neighbor_counts=plan.counts,
        n_features=plan.X.shape[1],
        classes=target.classes,
        class_counts=() if target.is_number else tuple(np.bincount(target.codes).tolist()),
        first_part=plan.parts[0],
        notes=tuple(notes),
        metric=plan.measure,
        baselines=tuple(entry_of(plan, name, parts) for name, parts in baselines.items() if parts),
        parts=len(done),
        planned=len(plan.parts),
        columns=() if plan.preprocessor is None else tuple(plan.preprocessor.columns_),
    )
    board = replace(board, verdict=board.verdict._replace(measure=board.measure, text=_sentence(board)))
    return replace(board, cautions=tuple(_cautions(plan, board)))


def _sentence(board: Leaderboard) -> str:
    """Return the verdict in words."""
    verdict, base, best = board.verdict, board.euclidean, board.candidate or board.best_learner
    if best is None:
        return f"No learner could be fitted here; {base.spoken} has a {board.measure} of {percent(base.error)}."
    if math.isnan(verdict.p_value):
        what = f"The {board.measure} of {base.spoken} is {percent(base.error)}"
        return f"Too early to tell: one test part was measured. {what}."
    first = verdict.kind[0].upper() + verdict.kind[1:]
    if verdict.kind == "probably helps" and verdict.repeats > 1:
        first += f" ({verdict.wins} of {verdict.repeats} repeats)"
    who = best.name if verdict.helps else f"the best learner, {best.name},"
    choice = "Chosen on other folds, it gains" if verdict.helps else "What is chosen on other folds gains"
    interval = f"95 % interval {points(verdict.low)} to {points(verdict.high)}, {p_text(verdict.p_value)}"
    more = " More rows would tell." if verdict.kind == "probably helps" else ""
    return (
        f"{first}: {who} has a {board.measure} of {percent(best.error)}, {base.spoken} {percent(base.error)}. {choice} "
        f"{points(verdict.gain)} points over {verdict.n:,} {verdict.units} ({interval}).{more}"
    )


def _cautions(plan: Plan, board: Leaderboard) -> Iterable[str]:
    """Yield what makes the verdict doubtful: leaks, ids of groups, and errors above that of a constant answer."""
    if board.metric in ("error", "balanced"):
        constant = {"error": board.majority_error, "balanced": 1.0 - 1.0 / len(board.classes)}[board.metric]
        if board.winner.error > constant:
            yield (
                f"k-NN is worse than always answering {board.majority!r}: {percent(board.winner.error)} against "
                f"{percent(constant)}."
            )
    if plan.preprocessor is None or is_sparse(plan.X):
        return
    features = plan.preprocessor.feature_groups()
    for name in possible_leaks(plan.X, plan.target.codes, features):
        yield f"Column {name!r} alone nearly determines the label: a leak? If so, drop it."
    column = None if plan.groups is not None else group_column(plan.X, plan.target.codes, features)
    if column is not None:
        old, new = _new_group_errors(plan, board, column.groups)
        yield (
            f"Column {column.name!r} looks like an id of groups, because its rows share the label. On new groups the "
            f"{board.measure} of {board.winner.spoken} is {percent(new)}, not {percent(old)}: name it as the groups, "
            "or drop it."
        )


def _new_group_errors(plan: Plan, board: Leaderboard, groups: IndexArray) -> tuple[float, float]:
    """Return the error of the winner, and its error where groups are not in both parts."""
    codes = None if plan.target.is_number else plan.target.codes
    parts = parts_of(codes, min(plan.folds, int(groups.max()) + 1), 1, plan.random_state, groups, n_rows=len(plan.rows))
    plan = replace(plan, parts=parts, groups=groups, learners={**plan.learners})
    name, settings = board.winner.name, get_config()
    cells = {
        part: measure_cell(plan, Key(name, part), choose(plan, part, settings), None, settings)[1]
        for part in range(len(parts))
    }
    return board.winner.error, entry_of(plan, name, cells).error


def _why_balanced(target: Target) -> str:
    counts = np.bincount(target.codes)
    majority = target.classes[int(counts.argmax())]
    return (
        f"The balanced error ranks, because over {100.0 * LOPSIDED:.0f} % of rows are of class {majority!r}: always "
        f"answering {majority!r} has an error of {percent(1.0 - counts.max() / len(target.codes))}, but a balanced "
        f"error of {percent(1.0 - 1.0 / len(counts))}. The metric 'error' ranks by the plain error."
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
    target = target_of(y, len(y), leaderboard.metric == "r2")
    train, test = leaderboard.first_part
    with time_limit(seconds):
        metric = fitted(
            X[train], target.codes[train] if learner is None else target.of(learner, train), learner, scaling
        )
    mask = np.zeros(len(y), dtype=bool)
    mask[test] = True
    return metric, mask
