"""OGD: online similarity by gradient steps of one length (Zinkevich, 2003)"""

from dataclasses import dataclass
from typing import Literal

from mahala.online.similarity_learner import SimilarityLearner
from mahala.online.state.similarity import SimilarityRule, StepLength


@dataclass(eq=False, repr=False)
class OGD(SimilarityLearner):
    r"""Online learning of a bilinear similarity xᵀ M x' from triplets by gradient descent.

    With q = x⁺ - x⁻, each step on which the hinge loss l = max(0, margin - xᵀMq) is positive is M ← M + η x qᵀ.

    Parameters
    ----------
    eta : float or "auto"
        Step length; "auto" as for the C of `OASIS`.
    margin, init, average, shrinkage, n_triplets, storage, dtype, max_memory, record, random_state : as for `OASIS`

    The attributes are those of `OASIS`, and so is the example.
    """

    eta: Literal["auto"] | StepLength = 0.1

    def _step_rule(self) -> SimilarityRule:
        return SimilarityRule(0.0, 0.0, self._length(self.eta))
