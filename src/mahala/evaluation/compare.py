"""Compare learners with each other and with plain distances by cross-validation: plan, measure, summarise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np
from joblib.parallel import get_active_backend
from numpy.typing import ArrayLike

from mahala.comparisons import Comparisons
from mahala.data.preprocessing import TablePreprocessor, rows_of_table
from mahala.data.scaling import Scaling
from mahala.evaluation.cell_file import CellFile
from mahala.evaluation.cross_validation.answers import AnswerPlan, plan_answers
from mahala.evaluation.cross_validation.fitting import refit
from mahala.evaluation.cross_validation.halving import finished_parts, most_keys, next_keys
from mahala.evaluation.cross_validation.leaderboard import Leaderboard
from mahala.evaluation.cross_validation.measures import Measure
from mahala.evaluation.cross_validation.measuring import Budget, Cell, Clock, measured_cells
from mahala.evaluation.cross_validation.plan import Key, Plan
from mahala.evaluation.cross_validation.planning import make_plan
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.summary import summarise
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import BoolArray, RowsLike
from mahala.support.limits import one_blas_thread
from mahala.support.parameters import Count, check_value
from mahala.support.validation import check_rows

Progress = Callable[[int, int, str], object]
# Seconds until the first preview, after a round and inside of one. Until each other one, the time doubles.
_ROUND_SECONDS, _PREVIEW_SECONDS = 5.0, 20.0


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C, or another end, during a comparison; `leaderboard` has the test parts that were finished."""

    def __init__(self, leaderboard: Leaderboard, end: str) -> None:
        super().__init__(end)
        self.leaderboard = leaderboard


@one_blas_thread()  # a change of the number of threads for each fit would wake threads that then wait
def compare(
    X: RowsLike | Comparisons,
    y: ArrayLike | None = None,
    learners: Mapping[str, object] | Iterable[str] | None = None,
    *,
    folds: int = 5,
    repeats: Literal["auto"] | int = "auto",
    n_neighbors: int | None = None,
    metric: Literal["auto"] | Measure = "auto",
    scaling: Literal["auto"] | Scaling = "auto",
    groups: ArrayLike | None = None,
    times: ArrayLike | None = None,
    budget: float | None = None,
    baselines: bool | Literal["distances"] = True,
    random_state: int = 0,
    n_jobs: int = 1,
    preprocessor: TablePreprocessor | None = None,
    callback: Progress | None = None,
    preview: Callable[[Leaderboard], object] | None = None,
    resume: str | PathLike[str] | None = None,
) -> Leaderboard:
    """Compare learners and plain distances by repeated cross-validation, and judge whether learning helps.

    All learners are evaluated on the same folds. In each training part, the features are scaled and the learner is
    fitted. The test part is then predicted by nearest neighbours in the training part: classes by votes, numbers by
    means. Each distance chooses its number of neighbours k in the training part. The reference is the plain distance
    with the lowest error, of raw or of scaled features; or the cosine distance or PCA, if the lower bound of its gain,
    as below, is above 0.

    The judge makes one test, however many learners there are. For each fold it chooses a learner on the other folds:
    the one with the largest mean gain minus 1.64 standard errors. This choice is measured on the fold. On all folds
    together it chooses the reference if no learner has such a lower bound above 0. The gains over all rows, paired
    with the reference, give the verdict:

    - "shown to help": a learner is chosen, and the 95 % interval of the gain is above 0
    - "probably helps": a learner is chosen, and the gain is above 0
    - "does not help": otherwise

    The intervals of the entries describe each learner alone and are not adjusted for the number of learners.

    Models predict test rows by themselves, from raw features. They are in `models` of the result. `advice` says what to
    use if a model is clearly ahead of any distance on the same rows, or a metric with k-NN of all models.

    Parameters
    ----------
    X : array, CSR matrix or data frame of shape (n_rows, n_features), or Pairs, Triplets or Quadruplets
        Rows with up to 5,000 features, or answers of people. A data frame is converted by :class:`TablePreprocessor`,
        whose medians and categories are those of each training part. Of more than 20,000 rows, or 4 million numbers, a
        sample is compared.
    y : array of shape (n_rows,), default=None
        Class labels, or numbers to predict. With Pairs: labels or ratings.
    learners : dict of learners by name, list of names, or None, default=None
        Names are those of members of the panel, such as ["GML", "LMNN"]. None is :func:`default_panel`. A dict may
        also hold :class:`mahala.NeighborClassifier` or :class:`mahala.NeighborRegressor`.
    folds : int, default=5
        Number of folds. If a class has fewer rows, fewer folds are used. Copies of a row are in one fold.
    repeats : int or "auto", default="auto"
        How often the cross-validation is repeated with other folds. "auto" is 1 to 5, more for fewer rows. Of the
        default panel only learners that can still win go on after a repetition, the better third at most. Of a table
        with more than 3,000 rows, or 1 million numbers, if it has 1,000 rows, the learners are first compared on 500 to
        1,500 of them, which no later fold tests.
    n_neighbors : int or None, default=None
        Number of neighbours of all distances. With None, each distance chooses from 1 to 25 inside each training part:
        the number with the lowest error, averaged over k - 2 to k + 2, when rows of this part are left out one by one,
        or group by group.
    metric : "auto", "error", "balanced", "f1", "roc_auc" or "r2", default="auto"
        Measure that ranks: the share of misclassified rows; its mean over classes; 1 minus the F1 score; 1 minus the
        area under the ROC curve; 1 minus R² of predicted numbers. F1 and the area are those of the rarer of two
        classes, or means over more classes. "auto" is "r2" if y has many different numbers, "balanced" if more than
        75 % of the rows are of one class, and else "error".
    scaling : "auto", "none", "standard", "numbers", "minmax" or "robust", default="auto"
        Divisor of each feature: none; its standard deviation; the same, except for 0/1 features; its range; the
        distance between its quartiles. "auto" chooses for each training part: "numbers", or "standard" if no feature
        is 0/1, unless leave-one-out errors of the Euclidean distance are lower by more than two standard errors with
        another one.
    groups : array of shape (n_rows,), default=None
        Group of each row, such as a household. Rows of one group are in one part, so errors are those on new groups.
        With answers: who gave each.
    times : array of shape (n_rows,), default=None
        Time of each row, numbers or dates. Each test part is then predicted from the rows before it.
    budget : float or None, default=None
        Seconds for the whole comparison. Each fit may take an equal share, and of what quick learners leave. Iterative
        learners that need more stop early; `stopped` of their entry counts that. With None the size of the table alone
        determines the work, so that the result does not depend on the speed of the machine.
    baselines : bool or "distances", default=True
        Measure also models that predict by themselves, in test parts of the first repetition that have 300 rows, and
        in two at least: NeighborClassifier or NeighborRegressor, logistic or ridge regression, and gradient-boosted
        trees. Measure, in the whole repetition, k-NN with the cosine distance and PCA, each of which is context
        unless it is the reference, and as context that with LDA. "distances" measures the cosine distance and PCA only.
    random_state : int, default=0
        Seed of the folds, and of learners whose own `random_state` is None.
    n_jobs : int, default=1
        Number of processes.
    preprocessor : TablePreprocessor or None, default=None
        What made X, if X is not a data frame, such as `read_table(...).preprocessor`.
    callback : callable or None, default=None
        Called after each fit with the number of fits done, their total at most, and the name of the learner.
    preview : callable or None, default=None
        Called with the leaderboard so far: after 20 seconds, or after 5 at the end of a round, and each time that the
        time has doubled. A round is the screening of a large table or a repetition.
    resume : str, path or None, default=None
        File that keeps finished fits. The same comparison of the same data, started again, resumes there.

    Returns
    -------
    Leaderboard
        For answers, errors are shares of answers that are not predicted, about new items; `same_items` has those about
        the same items. Of the options for rows, `repeats`, `n_neighbors`, `metric`, `scaling`, `times` and
        `preprocessor` must keep their defaults.

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
    'shown to help'
    """
    settings = Settings(
        folds=folds, repeats=repeats, n_neighbors=n_neighbors, metric=metric, scaling=scaling, groups=groups,
        times=times, budget=budget, baselines=baselines, random_state=random_state, preprocessor=preprocessor,
    )  # fmt: skip
    check_value(n_jobs, "n_jobs", Count)
    plan: Plan | AnswerPlan
    if isinstance(X, Comparisons):
        plan = plan_answers(X, y, learners, settings)
    elif y is None:
        raise ValueError("y must hold the label or target value of each row of X, got None")
    else:
        plan = make_plan(X, y, learners, settings)
    cells, interrupt = _measure(plan, resume, n_jobs, callback, preview)
    done = finished_parts(plan, cells)
    if interrupt is not None and not done:
        raise interrupt
    end = "the budget" if interrupt is None else str(interrupt) or "Ctrl-C"
    board = summarise(plan, cells, done, end if next_keys(plan, cells) else "")
    if interrupt is not None:
        raise ComparisonInterrupted(board, end) from interrupt
    return board


def _measure(
    plan: Plan | AnswerPlan,
    resume: str | PathLike[str] | None,
    n_jobs: int,
    callback: Progress | None,
    preview: Callable[[Leaderboard], object] | None,
) -> tuple[dict[Key, Cell], KeyboardInterrupt | None]:
    """Return all cells, or those that were finished before Ctrl-C or the end of the budget."""
    file = CellFile(resume, Key, plan.digest() if resume is not None else "")
    cells = {key: Cell.of(values) for key, values in file.cells.items() if key in plan.keys}
    n_processes = get_active_backend()[0].effective_n_jobs(n_jobs)
    clock, previews = Clock(plan.settings.budget), _Previews(preview)
    try:
        while keys := next_keys(plan, cells):
            total = most_keys(plan, cells)
            share = len(keys) / (total - len(cells))
            budget = Budget(clock, share, keys, {**plan.learners, **plan.predictors}, n_processes)
            for key, cell in measured_cells(plan, keys, budget, n_jobs):
                cells[key] = cell
                file.add(key, vars(cell))
                if callback is not None:
                    callback(len(cells), total, key.name)
                if clock.left() == 0.0 and len(finished_parts(plan, cells)) > 1:
                    return cells, None
                previews.show(plan, cells, _PREVIEW_SECONDS)
            previews.show(plan, cells, _ROUND_SECONDS)
    except KeyboardInterrupt as error:
        return cells, error
    return cells, None


class _Previews:
    """Shows the leaderboard of the test parts that are done: the longer a comparison takes, the more rarely."""

    def __init__(self, preview: Callable[[Leaderboard], object] | None) -> None:
        self._preview = preview
        self._began = time.monotonic()
        self._last = 0.0
        self._shown = list[int]()

    def show(self, plan: Plan | AnswerPlan, cells: Mapping[Key, Cell], least: float) -> None:
        """Show what is new, if at least so many seconds have passed, and twice as many as at the last one."""
        passed = time.monotonic() - self._began
        if self._preview is None or passed < max(least, 2.0 * self._last):
            return
        done = finished_parts(plan, cells)
        # Nothing can be said of a single part but errors, which are better than nothing.
        if done == self._shown or len(done) < (2 if self._shown else 1) or not next_keys(plan, cells):
            return
        self._preview(summarise(plan, cells, done, "a preview"))
        self._last, self._shown = passed, done


def held_out(
    X: Any,
    y: Any,
    learner: Learner | None,
    leaderboard: Leaderboard,
    scaling: Scaling = "standard",
    *,
    seconds: float | None = None,
) -> tuple[MahalanobisMetric, BoolArray]:
    """Return the metric of a learner fitted to the first training part, and a mask of the `leaderboard.rows` held out.

    The other arguments are those of :func:`refit`.
    """
    assert leaderboard.first_part is not None, "rows were compared"
    train, test = leaderboard.first_part
    X, y = check_rows(rows_of_table(X)[0])[leaderboard.rows], np.asarray(y)[leaderboard.rows]
    metric = refit(X[train], y[train], learner, scaling, seconds=seconds, numbers=leaderboard.metric == "r2")
    mask = np.zeros(len(y), dtype=bool)
    mask[test] = True
    return metric, mask
