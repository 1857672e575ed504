"""NeighborClassifier: classes by votes of rows under a learned metric, a linear expert and boosted trees."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from mahala.neighbors.model import NeighborModel
from mahala.support.arrays import FloatArray
from mahala.support.lazily import ClassifierMixin
from mahala.support.validation import check_labels, class_codes


@dataclass(eq=False, repr=False)
class NeighborClassifier(ClassifierMixin, NeighborModel):
    """Predict classes."""

    def _target(self, y: Any, n_rows: int) -> tuple[Any, int]:
        from sklearn.utils import column_or_1d

        y = column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 else y
        check_classification_targets(y)
        labels = check_labels(y, n_rows)
        codes = class_codes(labels, n_rows)
        self.classes_ = np.unique(labels)
        return codes, len(self.classes_)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class of `classes_` for each row."""
        return self._predicted(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        return np.asarray(self.classes_[self._predicted(X).argmax(axis=1)])

    @property
    def left_out_(self) -> FloatArray:
        return self._left_out()
