"""LEGO: LogDet exact gradient online (Jain, Kulis, Dhillon, Grauman, 2008)."""

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import blas

from mahala.comparisons import Pairs
from mahala.comparisons.target_distances import TargetParam, check_targets, squared_distances, targets_for
from mahala.compiled.jit import SKIPPED, Steps
from mahala.compiled.pairs import rank_one as kernels
from mahala.compiled.pairs.steps import COINCIDING
from mahala.online.pair_learner import PairLearner
from mahala.online.state.definite import DefiniteState
from mahala.online.state.margin import Outcome, PairChunk
from mahala.support.arrays import FloatArray
from mahala.support.model_files import ModelFileError
from mahala.support.parameters import Count, Positive
from mahala.support.states import Group, Number

# The functions behind the compiled ones.
_lego_step, _conditioned = inspect.unwrap(kernels.lego_step), inspect.unwrap(kernels.conditioned)
_TINY = float(np.finfo(float).tiny)


@dataclass(eq=False, repr=False)
class LEGO(PairLearner):
    """Learn a Mahalanobis metric from pairs that are to be at given distances: LogDet exact gradient online.

    Parameters
    ----------
    eta : float, default=0.1
        Learning rate η: how much a wrong distance counts against a change of M. What is large or small depends on the
        scale: only η times the square of a squared distance matters.
    similar_target, dissimilar_target : float or "auto", default="auto"
        Squared distances at which similar and dissimilar pairs are to be. "auto" takes the 5th and the 95th percentile
        of the squared Euclidean distances of the first pairs that it sees: those of `fit`, or the first chunk of
        `partial_fit`. A stream that starts with a single pair takes half of its squared distance and one and a half
        times it; give numbers if you know the scale.
    n_steps : int or "auto", default="auto"
        Steps that `fit` takes, through the pairs in cycles; "auto" is one pass.
    n_pairs, balance, record, random_state
        See :class:`mahala.PA`.

    Attributes
    ----------
    metric_ : MahalanobisMetric, what has been learned so far
    similar_target_, dissimilar_target_ : float, the targets in use
    threshold_ : float, the mean of the two targets
    history_ : History, what happened at each step; its p is |ŷ - y|
    components_, n_steps_, n_updates_, n_mistakes_, n_skipped_
        See :class:`mahala.PA`.
    loss_, squared_loss_ : float, |ŷ - y| and its square summed over all steps

    Notes
    -----
    From M = I on, each pair at distance ŷ = vᵀMv, v = x - x', moves M to the minimum of
    D_LogDet(M', M) + η/2 (vᵀM'v - y)², where y is one target for similar pairs and a larger one for dissimilar pairs.
    That keeps M positive definite without a projection.

    References
    ----------
    P. Jain, B. Kulis, I. S. Dhillon, K. Grauman: Online metric learning and fast similarity search. Advances in Neural
    Information Processing Systems 21 (NIPS), 2008, 761-768.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = MinMaxScaler().fit_transform(X)
    >>> learner = mahala.LEGO(n_pairs=1000, random_state=0).fit(X, y)
    >>> pairs = mahala.Pairs.from_labels(X, y, 1000, random_state=1)
    >>> round(learner.score(pairs), 2)
    0.89
    """

    _test_settings = ({}, {"eta": 5.0, "similar_target": 2.0, "dissimilar_target": 20.0})

    eta: Positive = 0.1
    _: KW_ONLY
    similar_target: TargetParam = "auto"
    dissimilar_target: TargetParam = "auto"
    n_steps: Literal["auto"] | Count = "auto"

    _fixed: ClassVar = ("similar_target", "dissimilar_target")
    _from_first_chunk: ClassVar = _fixed

    def _check_params(self) -> None:
        check_targets(self.similar_target, self.dissimilar_target)

    def _loss_terms(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, bool]:
        return -np.where(y > 0.0, *self._model.targets), np.ones_like(y), np.zeros_like(y), True

    def _rule(self) -> float:
        return float(self.eta)

    def _first_state(self, comparisons: Pairs, complete: bool) -> DefiniteState:
        low, high = self.similar_target, self.dissimilar_target
        if isinstance(low, str) or isinstance(high, str):
            low, high = targets_for(squared_distances(comparisons), low, high)
        return LEGOState(self.n_features_in_, (float(low), float(high)))

    def _stored_state(self, header: dict[str, object]) -> DefiniteState:
        return LEGOState(self.n_features_in_, (1.0, 2.0))

    @property
    def similar_target_(self) -> float:
        """The squared distance at which similar pairs are to be."""
        self._check_fitted()
        return float(self._model.targets[0])

    @property
    def dissimilar_target_(self) -> float:
        """The squared distance at which dissimilar pairs are to be."""
        self._check_fitted()
        return float(self._model.targets[1])


class LEGOState(DefiniteState):
    """M, the trace of its inverse, and the two targets, with the threshold midway."""

    FIELDS: ClassVar = (
        Group("targets", Number("similar_target"), Number("dissimilar_target")),
        Number("inverse_trace", least=0.0),
    )
    n_matrices = 2

    def __init__(self, d: int, targets: tuple[float, float]) -> None:
        super().__init__(d, 0.5 * sum(targets))
        self.targets = targets
        self.inverse_trace = float(d)  # tr M⁻¹

    def _stream(self, chunk: PairChunk, rule: float, steps: Steps) -> None:
        V, y = chunk
        model = self._M.for_steps(), self.outside, self.inverse_trace
        self.inverse_trace = kernels.stream_lego(V, y, *model, (rule, *self.targets), steps)
        self.n_steps += len(y)

    def _step(self, v: FloatArray, y: int, rule: float) -> Outcome:
        self.n_steps += 1
        a, norm2 = self._M.times(v), blas.ddot(v, v)
        dist, target, tau = blas.ddot(a, v), self.targets[y < 0], 0.0
        if norm2 >= COINCIDING and dist > 0.0:
            length2, dimension = max(blas.ddot(a, a), _TINY), float(len(v) + self.outside)
            trace = self._M.trace() + self.outside
            step = _lego_step(dist, target, rule)
            step = _conditioned(step, dist / norm2, dist, length2, trace, self.inverse_trace, dimension)
            if not abs(step) * length2 <= kernels.LARGEST_TERM:
                tau = SKIPPED
            elif step:
                tau = step
                self._M.add(-step, a)
                inverse_trace = self.inverse_trace + step * norm2 / (1.0 - step * dist)
                self.inverse_trace = max(inverse_trace, dimension * (dimension / (trace - step * length2)))
        return abs(dist - target), tau, 1 if dist <= self.b else -1

    def _check(self) -> None:
        super()._check()
        low, high = self.targets
        if not 0.0 < low < high:
            raise ModelFileError(f"the targets should be positive, the first below the second, found {low} and {high}")
        self.b = 0.5 * (low + high)
