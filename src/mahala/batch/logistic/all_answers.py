"""LogisticMetric's problem over all answers at once."""

from typing import NamedTuple

import numpy as np

from mahala.batch.logistic.answers import PENALTY, Answers, Fit, fit_map
from mahala.batch.logistic.parameters import LogisticParams
from mahala.batch.logistic.penalty import choose_penalty
from mahala.batch.logistic.prior_space import Coordinates
from mahala.batch.pair_costs import as_pairs
from mahala.batch.run import Model, Run, check_n_components
from mahala.judge import Verdict
from mahala.learner import LabelledRows

# Pairs that "auto" draws from class labels.
DRAWN_PAIRS = 10_000
# Iterations in which `partial_fit` takes new answers into account.
FEW_ITERATIONS = 20


class Outcome(NamedTuple):
    """What a fit leaves to the next one, beside its model.

    lam : weight of the penalty
    verdict : of the folds that chose it, if any did
    answers : all so far, unless they were seen in minibatches
    """

    lam: float
    verdict: Verdict | None = None
    answers: Answers | None = None

    @property
    def multiple(self) -> float:
        """How many times the default penalty that of the fit is; 1 if its answers are not kept."""
        return 1.0 if self.answers is None else self.lam * float(self.answers.weights.sum()) / PENALTY


class AllAnswers:
    """The minimum over all answers, to which later ones are added, with a penalty that folds over items may choose."""

    def __init__(
        self, data: LabelledRows | Answers, params: LogisticParams, rng: np.random.Generator, earlier: Outcome | None
    ) -> None:
        if isinstance(data, LabelledRows):
            n = DRAWN_PAIRS if isinstance(params.n_pairs, str) else params.n_pairs
            data = Answers.of(as_pairs(data, n, rng, balance=0.5, at_most=True))
        answers = data.compact()
        if earlier is not None and earlier.answers is not None:
            answers = answers.joined(earlier.answers)
        if kind := answers.only_kind:
            raise ValueError(f"pairs must be of both kinds, similar and dissimilar, but all are {kind}")
        self._params = params
        self._coordinates = Coordinates.of(answers.X, params.prior, params.n_components)
        self._placed = answers._replace(X=self._coordinates.rows(answers.X))
        width = self._placed.X.shape[1]
        check_n_components(params.n_components, width, "the dimensions of the rows")
        self._start = np.eye(params.n_components or width, width, dtype=self._placed.X.dtype)
        default, verdict = PENALTY / float(answers.weights.sum()), None
        if not isinstance(params.lam, str):
            multiple = params.lam / default
        elif earlier is not None:
            multiple, verdict = earlier.multiple, earlier.verdict
        else:
            multiple, verdict = choose_penalty(self._placed, self._start, params.noise, rng)
        self.outcome = Outcome(multiple * default, verdict, answers)

    def solve(self, run: Run) -> str:
        """Descend by L-BFGS, from an earlier model if there is one; return the stop reason."""
        params = self._params
        problem = self._placed, self._start, self.outcome.lam, params.noise
        warm = None if run.warm is None else self._in_coordinates(run.warm)
        run.max_iter = FEW_ITERATIONS if run.resumes else run.max_iter
        return fit_map(*problem, run, warm=warm, to_model=self._to_model).reason

    def _in_coordinates(self, warm: Model) -> Fit | None:
        """Return the earlier model in the coordinates; None if later rows gave the covariance a larger rank."""
        full = self._params.n_components is None
        A = self._coordinates.from_map(warm["L"], full)
        if not full and len(A) != len(self._start):
            raise ValueError(f"n_components must be {len(A)}, as in the last fit, got {self._params.n_components}")
        threshold = float(warm["threshold"][0]) if "threshold" in warm else 0.0
        return Fit(A, threshold) if A.shape == self._start.shape else None

    def _to_model(self, fit: Fit) -> Model:
        full, coordinates = self._params.n_components is None, self._coordinates
        model: Model = {"L": coordinates.to_map(fit.A, full)}
        if full and coordinates.span is not None:
            model["M"] = coordinates.matrix(fit.A)
        return model | ({"threshold": np.array([fit.threshold])} if self._placed.has_threshold else {})
