"""OGD: online similarity by gradient steps of one length (Zinkevich, 2003)"""

from dataclasses import dataclass
from typing import Literal

from mahala.online.similarity_learner import SimilarityLearner, length_of
from mahala.online.state.similarity import SimilarityRule, StepLength


@dataclass(eq=False, repr=False)
class OGD(SimilarityLearner):
    """Learn a bilinear similarity xᵀ M x' from triplets by gradient steps of one length.

    Parameters
    ----------
    eta : float or "auto", default=0.1
        Step length; "auto" as for the C of :class:`mahala.OASIS`.
    margin, init, average, shrinkage, n_triplets, storage, dtype, max_memory, record, random_state
        See :class:`mahala.OASIS`.

    The attributes are those of :class:`mahala.OASIS`.

    Notes
    -----
    With q = x⁺ - x⁻, each step on which the hinge loss l = max(0, margin - xᵀMq) is positive is M ← M + η x qᵀ.

    References
    ----------
    M. Zinkevich: Online convex programming and generalized infinitesimal gradient ascent. Proceedings of the 20th
    International Conference on Machine Learning (ICML), 2003, 928-936.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.OGD(0.1, n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.evaluation.mean_average_precision(learner.metric_, X, y), 2)
    0.99
    """

    _test_settings = ({"eta": 0.125, "storage": "dense", "dtype": "float32", "average": True, "init": "zero"},)

    eta: Literal["auto"] | StepLength = 0.1

    def _step_rule(self, margin: float, size: float) -> SimilarityRule:
        return SimilarityRule(0.0, 0.0, length_of(self.eta, margin, size))
