"""AutoMetric: the metric that the judge chooses, as a scikit-learn transformer."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from mahala.comparisons import Comparisons
from mahala.data.columns.values import is_frame
from mahala.engine import inputs
from mahala.evaluation.compare import compare
from mahala.evaluation.cross_validation.answers import answers_of, learns_distance
from mahala.evaluation.cross_validation.entries import Entry
from mahala.evaluation.cross_validation.fitting import refit, refit_answers
from mahala.evaluation.cross_validation.leaderboard import Leaderboard
from mahala.evaluation.cross_validation.measuring import Clock
from mahala.evaluation.cross_validation.panel import UNSUPERVISED, default_panel, panel_for
from mahala.judge import Verdict
from mahala.learner import checked_options
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import RowsLike
from mahala.support.parameters import Positive, ReadableSignature, Seed, check_params, check_seed


@dataclass(eq=False, repr=False)
class AutoMetric(ReadableSignature, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The metric that the judge chooses: a learned one where learning helps, else a plain distance.

    `fit` compares learners by cross-validation inside of the training data, as :func:`mahala.compare` does, and fits
    the one that the judge chooses to all of it. Where none helps, that is the cosine distance or PCA if it is clearly
    better than the Euclidean distances, or else the scaled Euclidean distance. Euclidean distances between transformed
    rows are the metric's, so any method that uses Euclidean distances can follow in a pipeline.

    Parameters
    ----------
    budget : float or None, default=None
        Seconds that `fit` may take; learners that need more stop early. With None the size of the table alone
        determines the work.
    groups : str or None, default=None
        Column of X, a data frame, with the group of each row, such as a household. It is not a feature. Rows of one
        group are never in both parts of a fold.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the folds and of the learners.

    Attributes
    ----------
    metric_ : MahalanobisMetric
    verdict_ : Verdict on the gain over the plain distance, on rows that were not learned from
    chosen_ : str, name of the learner, or of the plain distance
    leaderboard_ : Leaderboard of the comparison
    n_features_in_, feature_names_in_ : of X

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = AutoMetric().fit(X, y)
    >>> metric.transform(X).shape[0]
    178
    """

    _: KW_ONLY
    budget: Positive | None = None
    groups: str | None = None
    random_state: Seed = 0

    @checked_options
    def fit(self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None, groups: "ArrayLike | None" = None) -> Self:
        """Choose a metric and fit it.

        Parameters
        ----------
        X : rows (dense, CSR or a data frame), or Pairs, Triplets or Quadruplets
        y : class labels, or numbers to predict; labels or ratings of pairs that have none
        groups : the group of each row, instead of a column, or who gave each answer
        """
        check_params(self)
        seed = int(check_seed(self.random_state).randint(2**31))
        clock, share = Clock(self.budget), None if self.budget is None else 0.8 * float(self.budget)
        if isinstance(X, Comparisons):
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            self.n_features_in_ = X.X.shape[1]
            answers = answers_of(X, y, seed)
            learners = {name: learner for name, learner in panel_for(answers, seed).items() if learns_distance(learner)}
            board = compare(answers, None, learners, groups=groups, budget=share, random_state=seed)
            entry = self._chosen_of(board)
            metric = refit_answers(
                answers, learners.get(entry.name), unit_rows=entry.unit_rows, seconds=clock.seconds()
            )
            self.metric_: MahalanobisMetric = cast(MahalanobisMetric, metric)
            return self
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        table, groups = self._split_groups(X, groups)
        if is_frame(table):
            self.feature_names_in_ = np.array([str(name) for name in table.columns], dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        else:
            table = inputs.check_features(self, table, reset=True, at_least=2)
        board = compare(table, y, groups=groups, budget=share, baselines="distances", random_state=seed)
        entry = self._chosen_of(board)
        numbers = board.metric == "r2"
        panel = default_panel(len(board.rows), board.n_features, seed, numbers=numbers)
        plain = next((name for name in UNSUPERVISED if name == entry.name), None)
        learner = panel[entry.name] if entry.learned else plain
        if len(board.rows) < board.n_rows:  # of a large table, a sample was compared
            table, y = _safe_indexing(table, board.rows), _safe_indexing(y, board.rows)
        self.metric_ = refit(table, y, learner, entry.scaling, seconds=clock.seconds(), numbers=numbers)
        return self

    def _chosen_of(self, board: Leaderboard) -> Entry:
        """Keep a leaderboard, and return the entry that the judge chooses."""
        is_scaled = board.chosen == board.reference and board.reference not in UNSUPERVISED
        entry = board[board.scaled if is_scaled else board.chosen]
        self.leaderboard_: Leaderboard = board
        self.verdict_: Verdict = board.verdict
        self.chosen_ = entry.name
        return entry

    def _split_groups(self, X: Any, groups: Any) -> tuple[Any, Any]:
        if self.groups is None:
            return X, groups
        if not is_frame(X) or self.groups not in list(X.columns):
            raise ValueError(f"groups must name a column of X, a data frame, got {self.groups!r}")
        columns = [name for name in X.columns if name != self.groups]
        return X[columns], np.asarray(X[self.groups]) if groups is None else groups

    def transform(self, X: "RowsLike") -> Any:
        """Map rows into the space in which Euclidean distances are the metric's."""
        check_is_fitted(self, "metric_")
        if is_frame(X) and self.groups is not None and self.groups in list(X.columns):
            X = X[[name for name in X.columns if name != self.groups]]
        if not is_frame(X):
            X = inputs.check_features(self, X, reset=False)
        return self.metric_.transform(X)

    @property
    def _n_features_out(self) -> int:
        return int(self.metric_.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
