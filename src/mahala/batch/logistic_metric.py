"""LogisticMetric: a metric near a prior one, from answers to comparisons (after Mason, Jain, Nowak, 2017)."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np

from mahala.batch.batch_learner import BatchLearner, dense_rows
from mahala.batch.logistic.answers import PENALTY, Answers, Fit, fit_map
from mahala.batch.logistic.minibatches import fit_in_minibatches
from mahala.batch.logistic.penalty import choose_penalty
from mahala.batch.logistic.prior_space import Coordinates
from mahala.batch.pair_costs import as_pairs
from mahala.batch.run import IterationParams, Model, Run, check_n_components
from mahala.batch.triplets import rows_in_shared_classes
from mahala.comparisons import Comparisons, Pairs, Quadruplets, Triplets
from mahala.comparisons.quadruplets import are_labels
from mahala.engine.inputs import check_stored_features
from mahala.judge import Verdict
from mahala.learner import LabelledRows, checked_options, n_axes
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import Arrays
from mahala.support.locking import one_at_a_time
from mahala.support.model_files import header_value
from mahala.support.parameters import Count, NonNegative, Positive, Seed, Where, between
from mahala.support.states import prefixed, without_prefix
from mahala.support.validation import check_weights, is_sparse

Noise = Annotated[float, Where(between(0.0, 0.499), "a number of at least 0 and below 0.5")]
# Pairs that "auto" draws from class labels.
DRAWN_PAIRS = 10_000
# Iterations in which `partial_fit` takes new answers into account.
FEW_ITERATIONS = 20


@dataclass(eq=False, repr=False)
class LogisticMetric(IterationParams, BatchLearner):
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
    B. Mason, L. Jain, R. Nowak: Learning low-dimensional metrics. NIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from mahala import Triplets
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

    prior: Literal["identity", "covariance"] | MahalanobisMetric | None = None
    _: KW_ONLY
    lam: Literal["auto"] | Positive = "auto"
    n_components: Count | None = None
    noise: Noise = 0.0
    n_pairs: Literal["auto"] | Count = "auto"
    batch_size: Literal["auto"] | Count | None = None
    checkpoint: str | None = None
    max_iter: Count = 200
    tol: NonNegative = 1e-6
    random_state: Seed = None

    @checked_options
    def fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Learn the metric from answers, or from rows with class labels.

        Parameters
        ----------
        X : Pairs, Triplets or Quadruplets, an array of shape (n, 2 to 4, n_features), or rows
        y : for pairs without labels +1 / -1, or ratings, which are higher for pairs that are more alike; class labels
            of rows; else None
        weights : a positive weight for each answer, as if it had been given so many times; None for 1
        """
        return self._fit(X, y, weights=weights, more=False)

    @one_at_a_time
    def partial_fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Learn from more answers, beside those of earlier calls, in a few iterations from the present map.

        The penalty is the multiple of 6 / n that `fit` chose, for all answers so far. With `batch_size`, earlier
        answers are not kept: the present map is the start of a descent on the new ones.

        Parameters
        ----------
        X, y, weights : as for `fit`, of the same features
        """
        return self._fit(X, y, weights=weights, more=hasattr(self, "_model"))

    def score(self, X: Any, y: Any = None) -> float:
        """Return how well the metric judges, as :meth:`mahala.NCA.score`; of ratings, the share in the right order."""
        if self._rated_pairs(X, y) is not None:
            self._check_fitted()
            X, y = self._given(X, y, reset=False), None
        return super().score(X, y)

    @classmethod
    def _kinds(cls) -> dict[int, type[Comparisons]]:
        return {2: Pairs, 3: Triplets, 4: Quadruplets}

    def _rated_pairs(self, X: Any, y: Any) -> Pairs | None:
        """Return pairs if y are their ratings, else None."""
        pairs = X if isinstance(X, Comparisons) or n_axes(X) != 3 else self._from_array(X)
        return pairs if isinstance(pairs, Pairs) and y is not None and not are_labels(y) else None

    def _given(self, X: Any, y: Any, *, reset: bool) -> LabelledRows | Comparisons:
        """Validate rows with labels, or answers; pairs with ratings become quadruplets."""
        pairs = self._rated_pairs(X, y)
        if pairs is None:
            return super()._given(X, y, reset=reset)
        self._check_features(pairs, reset=reset)
        return Quadruplets.from_ratings(pairs.X, pairs.left, pairs.right, y, random_state=self._seed)

    def _training_data(self, X: Any, y: Any, **more: Any) -> Any:
        self._resumes: bool = more["more"]
        data, weights = super()._training_data(X, y), more["weights"]
        if isinstance(data, LabelledRows):
            if weights is not None:
                raise ValueError("weights must be None with class labels: they weight answers")
            rows_in_shared_classes(data.codes)  # raises if there are no similar pairs
            if self.batch_size is not None:
                return data
            n = DRAWN_PAIRS if isinstance(self.n_pairs, str) else self.n_pairs
            data = as_pairs(data, n, self._rng, balance=0.5, at_most=True)
        elif weights is not None and isinstance(data, Quadruplets) and y is not None:
            made = "answers, which are made of two ratings each"
            raise ValueError(f"weights must be None with ratings: they weight {made}")
        answers = Answers.of(data, None if weights is None else check_weights(weights, len(data)))
        if self.batch_size is not None:
            return answers
        earlier = self._answers if self._resumes else None
        answers = answers.compact() if earlier is None else answers.compact().joined(earlier)
        if answers.has_one_kind:
            kind = "similar" if isinstance(data, Pairs) and np.all(data.similar) else "dissimilar"
            raise ValueError(f"pairs must be of both kinds, similar and dissimilar, but all are {kind}")
        return answers

    def _rows(self, X: Any, *, reset: bool) -> Any:
        if self.batch_size is None:
            return super()._rows(X, reset=reset)
        return check_stored_features(self, X, reset=reset, at_least=2)

    def _dense_rows(self, X: Any) -> Any:
        return X if self.batch_size is not None and not is_sparse(X) else dense_rows(X)

    def _warm_model(self) -> Model | None:
        return self._model if (self.warm_start or self._resumes) and hasattr(self, "_model") else None

    def _learn(self, data: Any, run: Run) -> str:
        if self.batch_size is not None:
            self._answers: Answers | None = None  # all so far, unless they were seen in minibatches
            self._multiple: float = 1.0  # of the default penalty
            self.verdict_: Verdict | None = None
            reason, self.lam_ = fit_in_minibatches(data, self, run, seed=self._seed, warm=self._warm_model())
            return reason
        answers, coordinates = data, Coordinates.of(data.X, self.prior, self.n_components)
        placed = answers._replace(X=coordinates.rows(answers.X))
        width, full = placed.X.shape[1], self.n_components is None
        check_n_components(self.n_components, width, "the dimensions of the rows")
        start = np.eye(self.n_components or width, width, dtype=placed.X.dtype)
        default, warm = PENALTY / float(answers.weights.sum()), self._warm_model()
        if not isinstance(self.lam, str):
            multiple, verdict = self.lam / default, None
        elif self._resumes:
            multiple, verdict = self._multiple, self.verdict_
        else:
            multiple, verdict = choose_penalty(placed, start, self.noise, self._rng)

        def to_model(fit: Fit) -> Model:
            model: Model = {"L": coordinates.to_map(fit.A, full)}
            if full and coordinates.span is not None:
                model["M"] = coordinates.matrix(fit.A)
            return model | ({"threshold": np.array([fit.threshold])} if answers.has_threshold else {})

        first = None
        if warm is not None:
            threshold = float(warm["threshold"][0]) if "threshold" in warm else 0.0
            A = coordinates.from_map(warm["L"], full)
            if not full and len(A) != self.n_components:
                raise ValueError(f"n_components must be {len(A)}, as in the last fit, got {self.n_components}")
            # Later rows can give the covariance a larger rank.
            first = Fit(A, threshold) if A.shape == start.shape else None
        most = FEW_ITERATIONS if self._resumes else self.max_iter
        penalty = multiple * default
        self._answers, self._multiple, self.lam_, self.verdict_ = answers, multiple, penalty, verdict
        limits: Any = {"max_iter": most, "tol": self.tol}
        return fit_map(placed, start, penalty, self.noise, run, warm=first, to_model=to_model, **limits).reason

    def _set_model(self, model: Model, threshold: float | None = None) -> None:
        learned = float(model["threshold"][0]) if "threshold" in model else None
        super()._set_model(model, learned if threshold is None else threshold)
        self._model = {name: array for name, array in model.items() if name != "M"}

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._get_state()
        # JSON has no infinity, which stands for the prior.
        numbers = {"multiple": self._multiple, "lam": self.lam_}
        header |= {name: None if np.isinf(number) else number for name, number in numbers.items()}
        header["verdict"] = None if self.verdict_ is None else list(self.verdict_)
        return header, arrays | prefixed("answers", {} if self._answers is None else self._answers._asdict())

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        self._resumes = False
        super()._set_state(header, arrays)
        numbers = (header_value(header, name, float, type(None)) for name in ("multiple", "lam"))
        self._multiple, self.lam_ = (np.inf if number is None else number for number in numbers)
        verdict = header_value(header, "verdict", list, type(None))
        self.verdict_ = None if verdict is None else Verdict.of(verdict)
        answers = without_prefix("answers", arrays)
        self._answers = Answers.restored(answers, self.n_features_in_) if answers else None
