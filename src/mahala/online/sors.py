"""SORS and AdaSORS: sparse online relative similarity (Yao, Zhao, Yu, Jin, Li, 2015)"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from mahala.online.similarity_learner import SimilarityLearner
from mahala.online.state.similarity import SimilarityRule, StepLength
from mahala.support.parameters import NonNegative, Positive


@dataclass(eq=False, repr=False)
class SORS(SimilarityLearner):
    r"""Sparse online relative similarity: a bilinear similarity xᵀ M x' whose matrix is sparse.

    With q = x⁺ - x⁻ and the hinge loss l = max(0, margin - xᵀMq), each step is M ← soft(M + η x qᵀ, ηλ) where
    l > 0, else M ← soft(M, ηλ), elementwise; soft(m, θ) = sign(m) max(|m| - θ, 0).

    Parameters
    ----------
    eta : float or "auto"
        Step length; "auto" as for the C of `OASIS`.
    lam : float
        Weight of the penalty: the larger, the sparser. In T steps an entry loses up to ηλT in all.
    penalty : "l1" or "offdiagonal"
        Which entries are thresholded: all (the paper's I), or all but the diagonal (its II).
    margin, init, average, shrinkage, n_triplets, storage, dtype, max_memory, record, random_state :
        as for `OASIS`, but no "gram"

    The attributes are those of `OASIS`, and so is the example.
    """

    eta: Literal["auto"] | StepLength = 0.1
    _: KW_ONLY
    lam: NonNegative = 1e-6
    penalty: Literal["l1", "offdiagonal"] = "l1"

    def _step_rule(self) -> SimilarityRule:
        eta, off_diagonal = self._length(self.eta), self.penalty == "offdiagonal"
        return SimilarityRule(0.0, 0.0, eta, eta, eta * float(self.lam), off_diagonal, late=True)

    def _check_params(self) -> None:
        rule = self._rule()
        if not rule.theta / rule.delta < np.inf:
            raise ValueError(f"lam must be such that thresholds are finite, got {self.lam!r} with eta={self.eta!r}")


@dataclass(eq=False, repr=False)
class AdaSORS(SORS):
    r"""Sparse online relative similarity with step lengths that adapt to each entry (AdaGrad).

    With q = x⁺ - x⁻ and the hinge loss l = max(0, margin - xᵀMq), each step is M ← soft(M + η x qᵀ, ηλ) where
    l > 0, else M ← soft(M, ηλ), elementwise; soft(m, θ) = sign(m) max(|m| - θ, 0).

    Parameters
    ----------
    delta : float
        The least Σ: keeps first steps short.
    eta, lam, penalty and the rest : as for `SORS`

    The attributes are those of `OASIS`, and so is the example.
    """

    _: KW_ONLY
    delta: Positive = 0.1

    def _step_rule(self) -> SimilarityRule:
        # Where the square of a gradient is too small for a float, so is its quotient by this.
        least = float(np.finfo(self.dtype).tiny) ** 0.5
        return super()._step_rule()._replace(upper=1.0, delta=max(float(self.delta), least), adaptive=True)
