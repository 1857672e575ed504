"""LogisticMetric: a metric near a prior one, from answers to comparisons (after Mason, Jain, Nowak, 2017)."""

from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.logistic.all_answers import AllAnswers, Outcome
from mahala.batch.logistic.answers import Answers, weighted_answers
from mahala.batch.logistic.minibatches import AnswersInMinibatches
from mahala.batch.logistic.parameters import LogisticParams
from mahala.batch.run import Run
from mahala.batch.triplets import rows_in_shared_classes
from mahala.comparisons import Comparisons, Pairs, Quadruplets, Triplets
from mahala.comparisons.quadruplets import are_labels
from mahala.judge import Verdict
from mahala.learner import LabelledRows, checked_options, n_axes
from mahala.support.arrays import Arrays, RowsLike
from mahala.support.locking import one_at_a_time
from mahala.support.model_files import header_value
from mahala.support.states import prefixed, without_prefix


@dataclass(eq=False, repr=False)
class LogisticMetric(LogisticParams, BatchLearner):
    """A metric near a prior one, from answers of people: pairs, triplets, quadruplets, ratings or class labels.

    An answer such as "a is more like b than c" has a margin m = d_M(a, c) - d_M(a, b), the squared distance that should
    be larger minus the other one. For pairs, the other one is a threshold, which is learned, too. In the space of the
    prior metric LogisticMetric minimises

        mean log(1 + exp(-m / t)) + lam ‖L - I‖²

    over the linear map L by L-BFGS from L = I. t is three times the median of the absolute margins under the prior, so
    nothing depends on the units of X. Without `n_components` and `noise` the problem is convex in M = LᵀL: the least
    penalty of the maps with one M is tr M - 2 tr √M + const. A stationary L with positive eigenvalues is the minimum;
    the others are not stable. With `n_components` the problem is not convex.

    Parameters
    ----------
    prior : None, "identity", "covariance" or MahalanobisMetric, default=None
        The metric to stay near, which is used where the answers do not help: None or "identity" is the Euclidean
        distance of X, "covariance" the Mahalanobis distance of its rows.
    lam : "auto" or float, default="auto"
        Weight of the penalty. "auto" starts with 6 / n for n answers, and lets folds over items choose another
        multiple, or the prior, where they show that it predicts more answers about items not learned from.
    n_components : int or None, default=None
        Number of rows of L; None for all dimensions. I is then the projection onto the directions of largest variance
        in the space of the prior. Under prior="covariance" all variances are equal there, and the directions are those
        of the standardised features: units do not matter, but rotations of the features do.
    noise : float, default=0.0
        Expected share of wrong answers, below 0.5, whatever their margin.
    n_pairs : "auto" or int, default="auto"
        Number of pairs drawn from class labels; "auto" is 10,000, or all if there are fewer. With `batch_size`, the
        number of pairs or answers seen in all: "auto" is four for each row or given answer, at least a million.
    batch_size : None, "auto" or int, default=None
        Number of answers in a minibatch. None minimises over all answers at once. For millions of answers, "auto"
        takes steps on minibatches of 256 to 16,384, whose length needs no tuning: memory is that of the rows, which
        may be of float16, on a GPU, in a memory map or of Dask. `lam` is then 6 / n without folds, `max_iter` the
        number of rounds after which the objective is reported, and `tol` is not used.
    checkpoint : str or None, default=None
        File for the state of an unfinished fit on minibatches, from which the same call of `fit` resumes. It is written
        every 30 seconds, and removed at the end.
    max_iter, tol, warm_start, callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    lam_ : float, the penalty that was used; infinite if the prior was chosen
    verdict_ : Verdict of the folds, if `lam` is "auto"; None otherwise
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    B. Mason, L. Jain, R. Nowak: Learning low-dimensional metrics. Advances in Neural Information Processing Systems 30
    (NIPS), 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from mahala import MahalanobisMetric, Triplets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5))
    >>> a, b, c = rng.integers(60, size=(3, 400))
    >>> far = abs(X[a, 0] - X[c, 0]) > abs(X[a, 0] - X[b, 0])  # people look at the first feature only
    >>> answers = Triplets(X, a, np.where(far, b, c), np.where(far, c, b))
    >>> learner = LogisticMetric(random_state=0).fit(answers[:200])
    >>> round(float(np.mean(MahalanobisMetric.euclidean(5).margins(answers[200:]) > 0)), 2)
    0.56
    >>> round(learner.score(answers[200:]), 2)
    0.86
    >>> learner.verdict_.kind
    'shown to help'
    """

    _learns_from = Triplets
    _test_settings = (
        {"n_pairs": 100, "lam": 0.01},
        {"n_pairs": 100, "lam": 0.01, "prior": "covariance", "n_components": 2, "noise": 0.1},
    )

    @checked_options
    def fit(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None, weights: "ArrayLike | None" = None
    ) -> Self:
        """Learn the metric from answers, or from rows with class labels.

        Parameters
        ----------
        X : Pairs, Triplets or Quadruplets, an array of shape (n, 2 to 4, n_features), or rows
        y : for pairs without labels +1 / -1, or ratings, which are higher for pairs that are more alike; class labels
            of rows; else None
        weights : a positive weight for each answer, as if it had been given so many times; None for 1
        """
        return self._fit_answers(X, y, weights, resumes=False)

    @one_at_a_time
    def partial_fit(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None, weights: "ArrayLike | None" = None
    ) -> Self:
        """Learn from more answers, beside those of earlier calls, in a few iterations from the present map.

        The penalty is the multiple of 6 / n that `fit` chose, for all answers so far. With `batch_size`, earlier
        answers are not kept: the present map is the start of a descent on the new ones.

        Parameters
        ----------
        X, y, weights : as for `fit`, of the same features
        """
        return self._fit_answers(X, y, weights, resumes=True)

    def _fit_answers(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None", weights: "ArrayLike | None", *, resumes: bool
    ) -> Self:
        if weights is not None and self._rated_pairs(X, y) is not None:
            made = "answers, which are made of two ratings each"
            raise ValueError(f"weights must be None with ratings: they weight {made}")
        return self._fit(X, y, None if weights is None else partial(weighted_answers, weights), resumes=resumes)

    def score(self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None) -> float:
        """Return how well the metric judges, as :meth:`mahala.NCA.score`; of ratings, the share in the right order."""
        if self._rated_pairs(X, y) is not None:
            self._check_fitted()
            return super().score(self._validated(X, y, reset=False))
        return super().score(X, y)

    @classmethod
    def _kinds(cls) -> dict[int, type[Comparisons]]:
        return {2: Pairs, 3: Triplets, 4: Quadruplets}

    def _rated_pairs(self, X: "RowsLike | Comparisons", y: "ArrayLike | None") -> Pairs | None:
        """Return pairs if y are their ratings, else None."""
        pairs = X if isinstance(X, Comparisons) or n_axes(X) != 3 else self._from_array(X)
        return pairs if isinstance(pairs, Pairs) and y is not None and not are_labels(y) else None

    def _validated(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None", *, reset: bool
    ) -> LabelledRows | Comparisons:
        """Validate rows with labels, or answers; pairs with ratings become quadruplets."""
        pairs = self._rated_pairs(X, y)
        if pairs is None or y is None:
            return super()._validated(X, y, reset=reset)
        self._check_features(pairs, reset=reset)
        return Quadruplets.from_ratings(pairs.X, pairs.left, pairs.right, y, random_state=self._seed)

    @property
    def _reads_stored_rows(self) -> bool:  # type: ignore[override]
        return self.batch_size is not None

    def _learn(self, data: LabelledRows | Answers | Comparisons, run: Run) -> str:
        if isinstance(data, Comparisons):
            data = Answers.of(data)
        elif isinstance(data, LabelledRows):
            rows_in_shared_classes(data.labels)  # raises if there are no similar pairs
        problem: AllAnswers | AnswersInMinibatches
        if self.batch_size is None:
            problem = AllAnswers(data, self, self._rng, self._outcome if run.resumes else None)
        else:
            problem = AnswersInMinibatches(data, self, run, self._seed)
        self._set_outcome(problem.outcome)
        return problem.solve(run)

    def _set_outcome(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.lam_, self.verdict_ = outcome.lam, outcome.verdict

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._get_state()
        lam, verdict, answers = self._outcome
        header["lam"] = None if np.isinf(lam) else lam  # JSON has no infinity, which stands for the prior
        header["verdict"] = None if verdict is None else list(verdict)
        return header, arrays | prefixed("answers", {} if answers is None else answers._asdict())

    def _set_state(self, header: dict[str, object], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        lam = header_value(header, "lam", float, type(None))
        entries, parts = header_value(header, "verdict", list, type(None)), without_prefix("answers", arrays)
        verdict = None if entries is None else Verdict.of(entries)
        answers = Answers.restored(parts, self.n_features_in_) if parts else None
        self._set_outcome(Outcome(np.inf if lam is None else lam, verdict, answers))
