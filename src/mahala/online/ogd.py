"""OGD: online similarity by gradient steps of one length (Zinkevich, 2003)"""

from __future__ import annotations

from typing import Any, Literal

from mahala.metric import Metric
from mahala.online.similarity_learner import LONGEST_STEP, SimilarityLearner, Storage
from mahala.online.storage.similarity_model import Rule
from mahala.support.validation import check_positive


class OGD(SimilarityLearner):
    r"""Online learning of a bilinear similarity xᵀ M x' from triplets by gradient descent.

    With q = x⁺ - x⁻, each step on which the hinge loss l = max(0, 1 - xᵀMq) is positive is M ← M + η x qᵀ.

    Parameters
    ----------
    eta : float
        Step length.
    init, average, n_triplets, storage, dtype, max_memory, record, random_state : as for `OASIS`

    The attributes are those of `OASIS`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> import mahala
    >>> X, y = load_wine(return_X_y=True)
    >>> X = normalize(StandardScaler().fit_transform(X))
    >>> learner = mahala.OGD(eta=0.1, n_triplets=5000, random_state=0).fit(X, y)
    >>> round(mahala.mean_average_precision(learner.metric_, X, y), 2)
    0.99
    """

    def __init__(
        self,
        eta: float = 0.1,
        init: Literal["identity", "zero"] | Metric = "identity",
        average: bool = False,
        n_triplets: int = 100_000,
        storage: Storage = "auto",
        dtype: Literal["float64", "float32"] = "float64",
        max_memory: float | None = None,
        record: bool = True,
        random_state: Any = None,
    ) -> None:
        self.eta = eta
        self.init = init
        self.average = average
        self.n_triplets = n_triplets
        self.storage = storage
        self.dtype = dtype
        self.max_memory = max_memory
        self.record = record
        self.random_state = random_state

    def _rule(self) -> Rule:
        return Rule(0.0, 0.0, float(self.eta), average=bool(self.average))

    def _check_params(self) -> None:
        check_positive(self.eta, "eta", LONGEST_STEP)
        super()._check_params()
