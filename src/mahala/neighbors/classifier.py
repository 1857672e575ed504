"""NeighborClassifier: classes by votes of rows under a learned metric, a linear expert and boosted trees."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from mahala.neighbors.conformal import prediction_sets
from mahala.neighbors.inspection import InspectedModel
from mahala.neighbors.reasons import Reasons
from mahala.support.arrays import Array, BoolArray, FloatArray, IndexArray, RowsLike
from mahala.support.lazily import ClassifierMixin
from mahala.support.model_files import ModelFileError, header_value
from mahala.support.validation import check_labels, class_codes, is_chunked


@dataclass(eq=False, repr=False)
class NeighborClassifier(ClassifierMixin, InspectedModel):
    """Predict classes by votes of the training rows, beside them a linear expert and boosted trees.

    A row votes for another one with a weight that falls with its distance, exp(-d), under one linear metric that is
    learned on encoded columns. The probabilities of the three experts are multiplied, with exponents that suit rows
    that were left out. The fit is deterministic.

    Parameters
    ----------
    n_components : int, default=32
        Rank of the metric.
    n_bins : int, default=8
        Bins of each column of numbers, so that the metric sees bends and plateaus.
    linear : "auto" or bool, default="auto"
        Whether a penalised softmax regression is one of the experts. "auto" is where it helps rows that were left out.
    trees : "auto" or bool, default="auto"
        Whether scikit-learn's histogram gradient boosting is one of the experts. "auto" is where it helps by more than
        one standard error.
    metric : MahalanobisMetric, fitted learner or None, default=None
        A metric to use instead of the learned one. Only its scale is fitted.
    identifiers : "drop" or "keep", default="drop"
        What to do with columns of a data frame that look like identifiers; see :class:`mahala.data.TablePreprocessor`.
    decimal : "auto", "auto,", "." or ",", default="auto"
        Decimal mark of ambiguous text in a data frame, such as 1,019. "auto" infers it from the other columns; without
        any evidence it is a point, with "auto," a comma.
    max_seconds : float or None, default=None
        Seconds after which the fit ends with the best so far.
    verbose : bool, default=False
        Whether to show a progress bar.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the folds, of minibatches and of the trees.

    Attributes
    ----------
    classes_ : ndarray, the classes
    metric_ : MahalanobisMetric, the learned metric, which takes tables as `fit` does
    weights_ : dict of the exponents of "rows", "line" and "trees"
    left_out_ : ndarray of shape (n_rows, n_classes)
        Predictions for the training rows by models that had not seen them; NaN for rows that were never left out.
    score_ : float, the accuracy of `left_out_`
    folds_ : ndarray of shape (n_rows,), the fold in which each row was left out
    rows_ : ndarray of the numbers or names of the training rows that vote
    target_name_ : str or None, the name of y if it is a column with one
    n_features_in_, feature_names_in_ : of X

    References
    ----------
    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov: Neighbourhood components analysis. Advances in Neural
    Information Processing Systems 17 (NIPS), 2004.
    Y. Gorishniy, I. Rubachev, A. Babenko: On embeddings for numerical features in tabular deep learning. NeurIPS, 2022.
    H.-J. Ye, H.-H. Yin, D.-C. Zhan, W.-L. Chao: Revisiting nearest neighbor for tabular data: a deep tabular baseline
    two decades later. arXiv:2407.03257, 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = NeighborClassifier().fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.98
    >>> rows, shares = model.neighbors(X[1:2], k=3)
    >>> y[::2][rows[0]].tolist()
    [0, 0, 0]
    """

    def _learn_target(self, y: "ArrayLike", n_rows: int, numbers: IndexArray) -> tuple[IndexArray, int]:
        y = column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 else y
        labels = check_labels(y, n_rows)[numbers]
        codes = class_codes(labels, len(labels))
        check_classification_targets(y)
        dtype = getattr(y, "dtype", None)
        # Text stays of the type that it has, as in other classifiers.
        self.classes_ = np.unique(labels).astype(dtype if getattr(dtype, "kind", "") == "U" else labels.dtype)
        return codes, len(self.classes_)

    def _known_target(self, y: "ArrayLike", n_rows: int) -> IndexArray:
        labels = check_labels(y, n_rows)
        known = {label: code for code, label in enumerate(self.classes_.tolist())}
        unknown = [label for label in labels.tolist() if label not in known]
        if unknown:
            raise ValueError(f"y must hold classes that fit has seen, got {unknown[0]!r}; call fit with all rows")
        return np.array([known[label] for label in labels.tolist()], dtype=np.intp)

    def predict_proba(self, X: "RowsLike") -> FloatArray:
        """Return the probability of each class of `classes_` for each row."""
        return self._predicted(X)

    def predict(self, X: "RowsLike") -> Array:
        """Return the most probable class of each row."""
        codes = self._predicted(X).argmax(axis=1)
        if is_chunked(codes):
            return codes.map_blocks(self.classes_.__getitem__, dtype=self.classes_.dtype)  # type: ignore[no-any-return]
        return np.asarray(self.classes_[codes])

    def predict_set(self, X: "RowsLike", level: float = 0.9) -> BoolArray:
        """Return for each row which classes of `classes_` its prediction set holds, at least one.

        Sets are cross-conformal: for rows like those of `fit` they hold the true class with a probability of about
        `level`. The theory says at least 2 `level` - 1 if no model has seen its left-out fold; here the fold chooses
        when the fit of its map stops, and all folds the weights of the experts.

        Parameters
        ----------
        X : rows as in `fit`
        level : between 0 and 1
        """
        return prediction_sets(self._fitted_model(), self._prepared(X, level), level)

    @property
    def left_out_(self) -> FloatArray:
        """Predicted probabilities of the training rows by models that had not seen them."""
        return self._fitted_model().left_out_by_number(self._n_rows)

    @property
    def score_(self) -> float:
        """The accuracy of `left_out_`."""
        model = self._fitted_model()
        rated = model.rows.folds >= 0
        if not rated.any():
            return float("nan")
        right = model.left_out[rated].argmax(axis=1) == model.rows.target.y[rated]
        return float(np.average(right, weights=model.rows.target.weights[rated]))

    def _labels(self, y: Array) -> Array:
        return self.classes_[y]

    def _doubts(self, y: Array, predicted: FloatArray) -> FloatArray:
        return np.asarray(1.0 - predicted[np.arange(len(y)), y])

    def _reasons(self, parts: dict[str, Any]) -> Reasons:
        mixture = parts.pop("mixture")
        other = parts.pop("other")
        code = int(mixture.argmax())
        return Reasons(
            self.classes_[code], float(mixture[code]), other=None if other is None else self.classes_[other], **parts
        )

    def _get_labels(self) -> dict[str, object]:
        kind = self.classes_.dtype.kind
        values = [value.item() if isinstance(value, np.generic) else value for value in self.classes_]
        return {"classes": values, "classes_kind": kind if kind in "biufU" else "O"}

    def _set_labels(self, header: Mapping[str, object]) -> None:
        values, kind = header_value(header, "classes", list), header_value(header, "classes_kind", str)
        if not values or kind not in set("biufUO"):
            raise ModelFileError("header entry 'classes' should be a list of classes")
        dtypes: dict[str, type] = {"b": bool, "i": np.int64, "u": np.uint64, "f": np.float64, "U": str, "O": object}
        self.classes_ = np.array(values, dtype=dtypes[kind])
