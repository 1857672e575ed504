"""LEGO: LogDet exact gradient online (Jain, Kulis, Dhillon, Grauman, 2008)."""

from __future__ import annotations

from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from mahala.comparisons import Pairs
from mahala.comparisons.target_distances import check_targets, squared_distances, targets_for
from mahala.compiled.rank_one import stream_lego
from mahala.learner import Arrays
from mahala.online.definite_learner import DefiniteLearner, empty_steps, is_positive, writeable
from mahala.online.online_learner import Signs
from mahala.online.storage.pair_model import Floats, Steps
from mahala.support.model_files import ModelFileError, number_value


class LEGO(DefiniteLearner):
    r"""Online learning of a Mahalanobis metric from pairs that are to be at given distances.

    A pair, v = x - x', is to be at the squared distance y: one target for similar pairs, a larger one for dissimilar
    pairs. From M = I on, each pair at distance ŷ = vᵀMv moves M to the minimum of

        D_LogDet(M', M) + η/2 (vᵀM'v - y)²,

    which is M' = M - τ M v vᵀ M with τ = η(ȳ - y) / (1 + η(ȳ - y)ŷ), where ȳ = vᵀM'v is known in closed form. That
    keeps M positive definite without a projection. In floating point that needs two limits: a step shortens no distance
    to less than a ten-thousandth, and none takes the condition number of M above 1e8 times the number of features.

    Parameters
    ----------
    eta : float
        Learning rate η: how much a wrong distance counts against a change of M. What is large or small depends on the
        scale: only η times the square of a squared distance matters.
    similar_target, dissimilar_target : float or "auto"
        Squared distances at which similar and dissimilar pairs are to be. "auto" takes the 5th and the 95th percentile
        of the squared Euclidean distances of the first pairs that it sees: those of `fit`, or the first chunk of
        `partial_fit`.
    n_pairs : int or "auto"
        Pairs drawn from labelled rows; "auto" is 40 c (c - 1) for c classes.
    n_steps : int or "auto"
        Steps that `fit` takes, through the pairs in cycles; "auto" is one pass.
    balance : float or None
        Share of similar pairs among those drawn from labels; None draws uniformly from all pairs.
    record : bool
        Keep `history_`. It grows by 18 bytes a step: turn it off for a stream without end.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    metric_ : Metric, what has been learned so far
    similar_target_, dissimilar_target_ : float, the targets in force
    threshold_ : float, the mean of the two targets
    components_, n_features_in_, feature_names_in_
    history_ : History, what happened at each step; its p is |ŷ - y|
    n_steps_, n_updates_, n_mistakes_ : int
    loss_, squared_loss_ : float, |ŷ - y| and its square summed over all steps

    Examples
    --------
    >>> import numpy as np, mahala
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = np.column_stack([y + 0.1 * rng.normal(size=100), rng.normal(size=(100, 3))])  # the rest is noise
    >>> learner = mahala.LEGO(eta=1.0, random_state=0).fit(X, y)
    >>> M = learner.metric_.matrix
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True
    """

    _n_matrices = 2
    _stream_params = ("similar_target", "dissimilar_target")

    _targets: tuple[float, float] | None
    _inverse_trace: float  # tr M⁻¹

    def __init__(
        self,
        eta: float = 0.1,
        similar_target: float | Literal["auto"] = "auto",
        dissimilar_target: float | Literal["auto"] = "auto",
        n_pairs: int | Literal["auto"] = "auto",
        n_steps: int | Literal["auto"] = "auto",
        balance: float | None = None,
        record: bool = True,
        random_state: Any = None,
    ) -> None:
        self.eta = eta
        self.similar_target = similar_target
        self.dissimilar_target = dissimilar_target
        self.n_pairs = n_pairs
        self.n_steps = n_steps
        self.balance = balance
        self.record = record
        self.random_state = random_state

    @property
    def similar_target_(self) -> float:
        """The squared distance at which similar pairs are to be."""
        return self._targets_in_force()[0]

    @property
    def dissimilar_target_(self) -> float:
        """The squared distance at which dissimilar pairs are to be."""
        return self._targets_in_force()[1]

    def _targets_in_force(self) -> tuple[float, float]:
        check_is_fitted(self, "n_steps_")
        assert self._targets is not None, "the first pairs set the targets"
        return self._targets

    @property
    def _threshold(self) -> float:
        return 0.5 * sum(self._targets_in_force())

    def _start(self) -> None:
        super()._start()
        self._targets = None
        self._inverse_trace = float(self.n_features_in_)

    def _feed_for(self, pairs: Pairs, n_steps: int) -> None:
        if self._targets is None:
            self._targets = self._first_targets(pairs)
        super()._feed_for(pairs, n_steps)

    def _first_targets(self, pairs: Pairs) -> tuple[float, float]:
        """The targets given, or else those that the first pairs suggest."""
        low, high = self.similar_target, self.dissimilar_target
        if not isinstance(low, str) and not isinstance(high, str):
            return float(low), float(high)
        if len(pairs) < 2:
            raise ValueError(
                "similar_target and dissimilar_target are 'auto', percentiles of the distances of the first pairs, and "
                "one pair has none: give numbers, or begin with fit or partial_fit on several pairs"
            )
        return targets_for(squared_distances(pairs), low, high)

    def _steps(self, V: Floats, y: Signs) -> Steps:
        self._M = writeable(self._M)
        steps = empty_steps(len(y))
        self._inverse_trace = stream_lego(
            V, y, self._M, self._outside, self._inverse_trace, float(self.eta), self._targets_in_force(), *steps
        )
        return steps

    def _check_params(self) -> None:
        if not is_positive(self.eta):
            raise ValueError(f"eta must be a positive number, got {self.eta!r}")
        check_targets(self.similar_target, self.dissimilar_target)
        super()._check_params()

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._get_state()
        low, high = self._targets_in_force()
        targets = {"similar_target": low, "dissimilar_target": high}
        return header | targets | {"inverse_trace": self._inverse_trace}, arrays

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        low, high = (number_value(header, name) for name in self._stream_params)
        if not 0.0 < low < high:
            raise ModelFileError(f"the targets should be positive, the first below the second, found {low} and {high}")
        self._targets = low, high
        self._inverse_trace = number_value(header, "inverse_trace", least=0.0)
