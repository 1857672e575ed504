"""NeighborRegressor: numbers by votes of rows under a learned metric, a linear expert and boosted trees."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, column_or_1d

from mahala.neighbors.conformal import prediction_intervals
from mahala.neighbors.inspection import InspectedModel
from mahala.neighbors.reasons import Reasons
from mahala.support.arrays import Array, FloatArray, IndexArray, RowsLike
from mahala.support.model_files import number_value
from mahala.support.validation import is_chunked


@dataclass(eq=False, repr=False)
class NeighborRegressor(RegressorMixin, InspectedModel):  # type: ignore[misc]
    """Predict numbers by votes of the training rows, beside them a linear expert and boosted trees.

    A row votes for another one with a weight that falls with its distance, exp(-d), under one linear metric that is
    learned on encoded columns; the prediction is the mean of the votes. The numbers of the three experts are averaged,
    with weights that suit rows that were left out. The fit is deterministic.

    Parameters
    ----------
    n_components, n_bins, metric, identifiers, decimal : see :class:`mahala.NeighborClassifier`
    max_seconds, verbose, random_state : see :class:`mahala.NeighborClassifier`
    linear : "auto" or bool, default="auto"
        Whether a ridge regression is one of the experts. "auto" is where it helps rows that were left out.
    trees : "auto" or bool, default="auto"
        Whether scikit-learn's histogram gradient boosting is one of the experts. "auto" is where it helps by more than
        one standard error.

    Attributes
    ----------
    metric_ : MahalanobisMetric, the learned metric, which takes tables as `fit` does
    weights_ : dict of the shares of "rows", "line" and "trees"
    left_out_ : ndarray of shape (n_rows,)
        Predictions for the training rows by models that had not seen them; NaN for rows that were never left out.
    score_ : float, R² of `left_out_`
    folds_, rows_, target_name_ : see :class:`mahala.NeighborClassifier`
    n_features_in_, feature_names_in_ : of X

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = NeighborRegressor().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.4
    True
    >>> model.predict_interval(X[:3], level=0.8).shape
    (3, 2)
    """

    def _learn_target(self, y: "ArrayLike", n_rows: int, numbers: IndexArray) -> tuple[FloatArray, int]:
        y = self._numbers(y, n_rows)[numbers]
        in_order = np.sort(y)  # so that sums do not depend on the order of rows
        self._center = float(in_order.mean())
        self._unit = float(in_order.std()) or 1.0
        return (y - self._center) / self._unit, 0

    def _known_target(self, y: "ArrayLike", n_rows: int) -> FloatArray:
        return (self._numbers(y, n_rows) - self._center) / self._unit

    def _numbers(self, y: "ArrayLike", n_rows: int) -> FloatArray:
        y = column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 else y
        try:
            numbers = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        except ValueError as error:
            if "convert" not in str(error):
                raise
            raise ValueError(f"y must hold numbers, for classes use NeighborClassifier: {error}") from error
        if numbers.ndim != 1 or len(numbers) != n_rows:
            raise ValueError(f"y must be 1-D with a number for each of the {n_rows} rows, got shape {numbers.shape}")
        return numbers

    def predict(self, X: "RowsLike") -> FloatArray:
        """Return the predicted number of each row."""
        return self._in_units(self._predicted(X)[:, 0])

    def predict_interval(self, X: "RowsLike", level: float = 0.9) -> FloatArray:
        """Return the lower and the upper end of an interval for each row.

        Intervals are those of CV+: for rows like those of `fit` they hold the true number with a probability of about
        `level`. The theory says at least 2 `level` - 1 if no model has seen its left-out fold; here the fold chooses
        when the fit of its map stops, and all folds the weights of the experts.

        Parameters
        ----------
        X : rows as in `fit`
        level : between 0 and 1
        """
        return self._in_units(prediction_intervals(self._fitted_model(), self._prepared(X, level), level))

    @property
    def left_out_(self) -> FloatArray:
        """Predictions of the training rows by models that had not seen them."""
        return self._in_units(self._fitted_model().left_out_by_number(self._n_rows)[:, 0])

    @property
    def score_(self) -> float:
        """R² of `left_out_`."""
        model = self._fitted_model()
        rated = model.rows.folds >= 0
        if not rated.any():
            return float("nan")
        y, weights = model.rows.target.y[rated], model.rows.target.weights[rated]
        errors = np.average(np.square(model.left_out[rated, 0] - y), weights=weights)
        variance = np.average(np.square(y - np.average(y, weights=weights)), weights=weights)
        return float(1.0 - errors / variance) if variance > 0.0 else 0.0

    def _in_units(self, values: Array) -> FloatArray:
        return self._center + self._unit * (values if is_chunked(values) else np.asarray(values, dtype=np.float64))

    def _labels(self, y: Array) -> Array:
        return self._in_units(y)

    def _doubts(self, y: Array, predicted: FloatArray) -> FloatArray:
        errors = np.abs(predicted[:, 0] - y)
        return np.asarray(errors / (errors + (float(np.median(errors)) or 1.0)))

    def _reasons(self, parts: dict[str, Any]) -> Reasons:
        mixture = parts.pop("mixture")
        parts["line"] = {name: self._unit * value for name, value in parts["line"].items()}
        parts["experts"] = {name: float(self._in_units(value)) for name, value in parts["experts"].items()}
        return Reasons(float(self._in_units(mixture[0])), None, **parts)

    def _get_labels(self) -> dict[str, object]:
        return {"center": self._center, "unit": self._unit}

    def _set_labels(self, header: Mapping[str, object]) -> None:
        self._center, self._unit = number_value(header, "center"), number_value(header, "unit", 0.0)
