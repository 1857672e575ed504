"""RDML: online regularised distance metric learning (Jin, Wang, Zhou, 2009)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.linalg import lapack

from mahala.compiled.rank_one import DONE, stream_rdml
from mahala.learner import Arrays
from mahala.online.definite_learner import DefiniteLearner, empty_steps, is_positive, symmetric, writeable
from mahala.online.online_learner import Signs
from mahala.online.storage.pair_model import Floats, Steps
from mahala.support.model_files import finite_array, number_value


class RDML(DefiniteLearner):
    r"""Online learning of a Mahalanobis metric that tells similar pairs, nearer than 1, from dissimilar ones.

    From M = I on, a pair with label y = ±1, v = x - x', at distance d = vᵀMv, leaves M as it is if y (1 - d) > 0. Else
    M ← M - λ_t y v vᵀ, with λ_t = λ for dissimilar pairs and

        λ_t = min(λ, (1 - f/ρ) / (2 vᵀM⁻¹v))

    for similar pairs, which keeps M positive definite without a projection. The paper has 1 / vᵀM⁻¹v there: such a step
    makes M singular, and hardly any after it could move M. Here a step takes at most half of what M has along v above
    the floor f, a thousandth of its mean eigenvalue; ρ is the Rayleigh quotient of M at M⁻¹v, where M is least of all.
    Steps of dissimilar pairs are shortened where the condition number of M would exceed 1e8 times the number of
    features.

    The border is at the squared distance 1, so the features should be scaled such that distances are about as large,
    for instance to [0, 1].

    Parameters
    ----------
    lam : float
        Learning rate λ.
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
    threshold_ : float, 1
    components_, n_features_in_, feature_names_in_
    history_ : History, what happened at each step; its p is y (d - 1), and its τ is λ_t
    n_steps_, n_updates_, n_mistakes_ : int
    loss_, squared_loss_ : float, the loss max(0, y (d - 1)) and its square summed over all steps

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = MinMaxScaler().fit_transform(X)
    >>> pairs = mahala.Pairs.from_labels(X, y, 1000, random_state=1)
    >>> before = mahala.MahalanobisMetric.euclidean(13).distance(X[pairs.left], X[pairs.right], squared=True)
    >>> learner = mahala.RDML(n_pairs=2000, random_state=0).fit(X, y)
    >>> bool(learner.score(pairs) > 0.1 + ((before <= 1) == pairs.similar).mean())
    True
    """

    _n_matrices = 4  # M and its inverse, each read and written

    _R: Floats | None  # M⁻¹, or None where it is to be made from M
    _n_corrections: int  # of R, since it was made

    def __init__(
        self,
        lam: float = 0.1,
        n_pairs: int | Literal["auto"] = "auto",
        n_steps: int | Literal["auto"] = "auto",
        balance: float | None = None,
        record: bool = True,
        random_state: Any = None,
    ) -> None:
        self.lam = lam
        self.n_pairs = n_pairs
        self.n_steps = n_steps
        self.balance = balance
        self.record = record
        self.random_state = random_state

    @property
    def _threshold(self) -> float:
        return 1.0

    def _become_identity(self, d: int) -> None:
        super()._become_identity(d)
        self._R = np.eye(d)

    def _become(self, M: Floats) -> None:
        super()._become(M)
        self._R = None
        self._n_corrections = 0

    def _steps(self, V: Floats, y: Signs) -> Steps:
        self._M = writeable(self._M)
        R = self._invert() if self._R is None else writeable(self._R)
        self._R = R
        steps = empty_steps(len(y))
        done = 0
        while done < len(y):
            rest = slice(done, None)
            own = (column[rest] for column in steps)
            more, self._n_corrections, why = stream_rdml(
                V[rest], y[rest], self._M, R, self._outside, float(self.lam), self._n_corrections, *own
            )
            done += more
            if why != DONE:
                self._R = R = self._invert()
        return steps

    def _invert(self) -> Floats:
        """M⁻¹ anew, by Cholesky."""
        self._n_corrections = 0
        factor, failed = lapack.dpotrf(np.array(self._M, order="F"), lower=1, overwrite_a=1)
        if failed:
            # Steps of sizes more than 1e16 apart: what is below the rounding errors of the rest becomes their size.
            values, vectors = np.linalg.eigh(self._M)
            values = np.maximum(values, 4.0 * len(values) * np.finfo(float).eps * values[-1])
            self._M = symmetric((vectors * values) @ vectors.T)
            return symmetric((vectors / values) @ vectors.T)
        lower, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        inverse: Floats = np.tril(lower)
        inverse += np.tril(lower, -1).T
        return inverse

    def _check_params(self) -> None:
        if not is_positive(self.lam):
            raise ValueError(f"lam must be a positive number, got {self.lam!r}")
        super()._check_params()

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._get_state()
        if self._R is not None:
            arrays["R"] = self._R
        return header | {"n_corrections": self._n_corrections}, arrays

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        self._n_corrections = int(number_value(header, "n_corrections", least=0.0))
        if "R" in arrays:
            self._R = finite_array(arrays, "R", self._M.shape).copy()
