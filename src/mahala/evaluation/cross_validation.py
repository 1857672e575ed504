"""Compare learners with each other and with the Euclidean distance by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np
from joblib.parallel import get_active_backend

from mahala.data.preprocessing import TablePreprocessor, rows_of_table
from mahala.data.scaling import Scaling, feature_scales
from mahala.evaluation.baselines import CLASSIFIERS, DISTANCES
from mahala.evaluation.budget import Budget
from mahala.evaluation.cells import Cell, CellFile, Key, digest_of
from mahala.evaluation.entries import EUCLIDEAN, EUCLIDEAN_SCALED, context, entries
from mahala.evaluation.fitting import fitted
from mahala.evaluation.knn import DEFAULT_NEIGHBORS
from mahala.evaluation.leaderboard import USUAL_NEIGHBORS, Leaderboard, percent
from mahala.evaluation.measures import LOPSIDED, Measure, measure_for, smallest_step
from mahala.evaluation.measuring import Task, measured_cells
from mahala.evaluation.panel import default_panel, left_out
from mahala.evaluation.splits import MOST_ROWS, parts_of, possible_folds, sample_of
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import BoolArray
from mahala.support.contexts import time_limit
from mahala.support.parameters import Count, Positive, check_value
from mahala.support.validation import check_labels, check_rows, class_codes

# A metric of d features is a d × d matrix, which is decomposed in O(d³).
MOST_FEATURES = 5_000
# Seconds that a comparison takes at most, unless told otherwise.
BUDGET = 600.0
# Test parts on which baselines are measured: boosting may take longer than all learners.
CONTEXT_PARTS = 3

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
    X, made = rows_of_table(X)
    preprocessor = preprocessor if made is None else made
    X = check_rows(X)
    if preprocessor is not None and X.shape[1] != len(preprocessor.get_feature_names_out()):
        raise ValueError(f"preprocessor must have made X, but it makes other than the {X.shape[1]} features of X")
    if X.shape[1] > MOST_FEATURES:
        raise ValueError(
            f"X has {X.shape[1]} features, but at most {MOST_FEATURES} can be compared: reduce them first, "
            "for instance with scikit-learn's TruncatedSVD"
        )
    codes = class_codes(y, X.shape[0])
    classes = tuple(str(label) for label in np.unique(check_labels(y, X.shape[0])))
    notes: list[str] = []
    folds = possible_folds(codes, classes, folds, notes)
    n_rows = X.shape[0]
    rows = sample_of(codes, folds, random_state, notes)
    X, codes = X[rows], codes[rows]
    missing: dict[str, str] = {}
    if learners is None:
        size = min(n_rows, MOST_ROWS), X.shape[1]
        learners, missing = default_panel(*size, random_state), left_out(*size)
    _check_learners(learners)
    parts = parts_of(codes, folds, repeats, random_state)
    least = min(len(train) for train, _ in parts)
    if n_neighbors is not None and n_neighbors > least:
        raise ValueError(f"n_neighbors must be at most {least}, the number of training rows, got {n_neighbors}")
    counts = np.arange(1, min(max(n_neighbors or 0, DEFAULT_NEIGHBORS[-1]), least) + 1)
    majority = int(np.bincount(codes).argmax())
    majority_error = float(np.mean(codes != majority))
    measure = measure_for(codes) if metric == "auto" else metric
    if metric != measure == "balanced":
        notes.append(_why_balanced(classes[majority], majority_error, len(classes)))

    candidates = [*([EUCLIDEAN, EUCLIDEAN_SCALED] if _matters(X, scaling) else [EUCLIDEAN]), *learners]
    taken = {name for learner in learners for name in (learner, f"k-NN with {learner}")}
    others = [name for name in (*DISTANCES, *CLASSIFIERS) if name not in taken] if baselines else []
    keys = [Key(name, part) for part in range(len(parts)) for name in candidates]
    keys += [Key(name, part) for part in range(min(folds, CONTEXT_PARTS)) for name in others]
    settings: dict[str, Any] = {"metric": measure, "scaling": scaling, "n_neighbors": n_neighbors, "budget": budget}
    settings |= {"folds": folds, "repeats": repeats, "random_state": random_state}
    settings |= {} if preprocessor is None else {"preprocessor": preprocessor.to_header()}
    kept = None if resume is None else CellFile(resume, digest_of(X, codes, learners, settings))
    cells = {} if kept is None else {key: cell for key, cell in kept.cells.items() if key in keys}
    task = Task(X, codes, parts, counts, measure, scaling, n_neighbors or USUAL_NEIGHBORS, random_state, preprocessor)
    wanted = [key for key in keys if key not in cells]
    time_left = Budget(budget, wanted, learners, get_active_backend()[0].effective_n_jobs(n_jobs))
    interrupt = None
    try:
        for key, cell in measured_cells(task, wanted, learners, time_left, n_jobs):
            cells[key] = cell
            if kept is not None:
                kept.add(key, cell)
            if callback is not None:
                callback(len(cells), len(keys), key.name)
            if time_left.is_spent() and len(_finished(cells, candidates, len(parts))) > 1:
                break
    except KeyboardInterrupt as error:
        interrupt = error
    done = _finished(cells, candidates, len(parts))
    if interrupt is not None and not done:
        raise interrupt
    if len(done) < len(parts):
        why = "Ctrl-C" if interrupt is not None else f"the budget of {budget:g} seconds"
        notes.append(f"Partial: {why} ended the comparison after {len(done)} of {len(parts)} test parts.")
    elif len(cells) < len(keys):
        notes.append("Not all baselines were measured, because the comparison was ended before.")

    repetitions = np.arange(len(parts)) // folds
    at = None if n_neighbors is None else n_neighbors - 1
    measured = {name: [part for part in range(len(parts)) if Key(name, part) in cells] for name in others}
    board = Leaderboard(
        entries=entries(
            {name: [cells[Key(name, part)] for part in done] for name in candidates},
            set(learners),
            repetitions=repetitions[done],
            at=at,
            folds=folds,
            step=smallest_step(measure, np.bincount(codes) / folds),
        ),
        neighbor_counts=counts,
        n_neighbors=n_neighbors,
        folds=folds,
        repeats=repeats,
        scaling=scaling,
        random_state=random_state,
        n_rows=n_rows,
        n_features=X.shape[1],
        classes=classes,
        class_counts=tuple(np.bincount(codes).tolist()),
        rows=rows,
        notes=tuple(notes),
        metric=measure,
        majority=classes[majority],
        majority_error=majority_error,
        baselines=context(
            {name: [cells[Key(name, part)] for part in some] for name, some in measured.items() if some}, at
        ),
        left_out=missing,
        parts=len(done),
        columns=() if preprocessor is None else tuple(preprocessor.columns_),
    )
    if interrupt is not None:
        raise ComparisonInterrupted(board) from interrupt
    return board


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


def _finished(cells: Mapping[Key, Cell], candidates: Sequence[str], n_parts: int) -> list[int]:
    """Return the test parts on which all candidates have been measured."""
    return [part for part in range(n_parts) if all(Key(name, part) in cells for name in candidates)]


def _why_balanced(majority: str, error: float, n_classes: int) -> str:
    return (
        f"The balanced error ranks, because over {100.0 * LOPSIDED:.0f} % of rows are of class {majority!r}: always "
        f"answering {majority!r} has an error of {percent(error)}, but a balanced error of "
        f"{percent(1.0 - 1.0 / n_classes)}. The metric 'error' ranks by the plain error."
    )


def _matters(X: Any, scaling: Literal["auto"] | Scaling) -> bool:
    """Whether scaled features are more than a multiple of the raw ones."""
    hows: tuple[Scaling, ...] = ("standard", "minmax", "robust") if scaling == "auto" else (scaling,)
    return any(bool(np.ptp(feature_scales(X, how))) for how in hows)


def _check_learners(learners: Mapping[str, Learner]) -> None:
    if not isinstance(learners, Mapping) or not learners:
        raise ValueError(f"learners must be one or more learners by name, got {learners!r}")
    for name, learner in learners.items():
        if not isinstance(name, str) or name in (EUCLIDEAN, EUCLIDEAN_SCALED):
            raise ValueError(
                f"learners must have names other than {EUCLIDEAN!r} and {EUCLIDEAN_SCALED!r}, got {name!r}"
            )
        if not isinstance(learner, Learner):
            raise TypeError(f"learners must be learners of mahala, got {learner!r} for {name!r}")
        if learner._learns_numbers:
            raise ValueError(f"learners must learn from classes, but {type(learner).__name__} learns target values")
