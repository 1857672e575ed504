"""The base class of the batch learners that learn from triplets as well as from labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.run import Model, matrix_of
from mahala.comparisons import Triplets
from mahala.metric import MahalanobisMetric
from mahala.metric.shrinkage import Shrinkage, Weights, mixing_weights
from mahala.support.states import Array


@dataclass(eq=False, repr=False, kw_only=True)
class TripletLearner(BatchLearner):
    """A batch learner from triplets, whose M is shrunk toward the identity if triplets cannot determine it."""

    shrinkage: Shrinkage = "auto"

    _learns_from = Triplets
    _MORE = (Array("model.weights", optional=True, dtype=np.float64, shape=(2,), least=0.0),)

    @property
    def shrinkage_(self) -> float:
        """Share of the Euclidean distance in the metric."""
        self._check_fitted()
        return 1.0 - float(self._model["weights"][0]) if "weights" in self._model else 0.0

    def _check_params(self) -> None:
        super()._check_params()
        if self._reduces and self.shrinkage not in ("auto", 0.0):
            advice = "the Euclidean distance would add its directions to those of L; leave one of them out"
            raise ValueError(f"shrinkage must be 'auto' or 0 with n_components, got {self.shrinkage!r}: {advice}")

    @property
    def _reduces(self) -> bool:
        return getattr(self, "n_components", None) is not None

    def _finished(self, data: Any, model: Model) -> Model:
        if self._reduces or not isinstance(data, Triplets):
            return model
        settings: dict[str, Any] = {"shrinkage": 0.0, "warm_start": False, "callback": None, "verbose": False}
        seed = 0 if self.random_state is None else self._seed  # a learner that draws nothing else stays the same
        if "random_state" in self.get_params(deep=False):
            settings["random_state"] = seed

        def fit(part: Triplets) -> MahalanobisMetric:
            return clone(self).set_params(**settings).fit(part).metric_  # type: ignore[no-any-return]

        def learned() -> MahalanobisMetric:
            return MahalanobisMetric(matrix_of(model))

        name, plain = type(self).__name__, MahalanobisMetric.euclidean(data.n_features)
        weights = mixing_weights(name, self.shrinkage, data, learned, plain, fit, seed)
        return model if weights == Weights() else model | {"weights": np.array(weights)}
