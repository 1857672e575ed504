"""NeighborRegressor: numbers by votes of rows under a learned metric, a linear expert and boosted trees."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, column_or_1d

from mahala.neighbors.model import NeighborModel
from mahala.support.arrays import FloatArray


@dataclass(eq=False, repr=False)
class NeighborRegressor(RegressorMixin, NeighborModel):  # type: ignore[misc]
    """Predict numbers."""

    def _target(self, y: Any, n_rows: int) -> tuple[Any, int]:
        y = column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 else y
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if y.ndim != 1 or len(y) != n_rows:
            raise ValueError(f"y must be 1-D with a number for each of the {n_rows} rows, got shape {y.shape}")
        self._center = float(y.mean())
        self._unit = float(y.std()) or 1.0
        return (y - self._center) / self._unit, 0

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted number of each row."""
        return self._center + self._unit * self._predicted(X)[:, 0]

    @property
    def left_out_(self) -> FloatArray:
        return self._center + self._unit * self._left_out()[:, 0]
