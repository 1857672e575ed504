"""The base class of learners from pairs: validation, labels → pairs, predict, score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from mahala.comparisons import Pairs, Triplets
from mahala.comparisons.sampling import draw_pairs
from mahala.compiled.neighbors import leave_one_out_errors
from mahala.learner import CHUNK_ELEMENTS, SCORE_NEIGHBORS, Learner, n_axes
from mahala.metric import MahalanobisMetric


class PairLearner(Learner):
    """A learner of a Mahalanobis metric and a threshold from pairs, or from labels by way of pairs."""

    if TYPE_CHECKING:

        @property
        def metric_(self) -> MahalanobisMetric: ...

    n_pairs: Any
    balance: float | None

    def _comparisons(
        self, X: Any, y: Any, *, reset: bool, at_most: bool = False
    ) -> tuple[Pairs, NDArray[np.intp] | None]:
        """Pairs as they are, a 3-D array with labels ±1, or rows with class labels, from which pairs are drawn.

        The second value holds the class codes of the rows, where there are any. With `at_most` fewer pairs than
        n_pairs are fine where the rows make no more.
        """
        if isinstance(X, Triplets):
            raise TypeError(f"{type(self).__name__} learns from pairs, got Triplets; give Pairs or labelled rows")
        if reset:
            self._reset_seed()
        if isinstance(X, Pairs) or n_axes(X) == 3:
            pairs = _as_pairs(X).labelled(y)
            if len(pairs) == 0:
                raise ValueError("pairs must not be empty: 0 pairs given, at least one is needed")
            self._check_n_features_of(pairs, reset=reset)
            return pairs, None
        X, codes = self._labelled_rows(X, y, reset=reset)
        if codes.max() == 0:
            raise ValueError(f"y has one class; {type(self).__name__} needs rows of at least two classes")
        drawn = draw_pairs(codes, self.n_pairs, self.balance, self._rng, name="n_pairs", at_most=at_most)
        return Pairs._build(X, *drawn), codes

    @property
    def components_(self) -> NDArray[np.float64]:
        """The linear map of `transform`, a row for each direction: M = components_ᵀ components_."""
        return self.metric_.components

    def get_mahalanobis_matrix(self) -> NDArray[np.float64]:
        """The learned matrix M."""
        return self.metric_.matrix

    @property
    def threshold_(self) -> float:
        """Pairs at most this far apart (squared) are predicted to be similar."""
        threshold = self.metric_.threshold
        assert threshold is not None, "every pair learner learns a threshold"
        return threshold

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Threshold minus squared distance, for Pairs or a 3-D array of pairs: positive means similar."""
        check_is_fitted(self)
        pairs = _as_pairs(X)
        self._check_n_features_of(pairs, reset=False)
        metric, threshold = self.metric_, self.threshold_
        result = np.empty(len(pairs))
        block = max(1, CHUNK_ELEMENTS // max(pairs.n_features, len(metric.matrix)))
        for start in range(0, len(pairs), block):
            part = pairs[start : start + block]
            result[start : start + block] = threshold - metric.distance(
                part.X[part.left], part.X[part.right], squared=True
            )
        return result

    def predict(self, X: Any) -> NDArray[np.int8]:
        """+1 for similar and -1 for dissimilar, for Pairs or a 3-D array of pairs."""
        return np.where(self.decision_function(X) >= 0.0, np.int8(1), np.int8(-1))

    def score(self, X: Any, y: ArrayLike | None = None) -> float:
        """Share of pairs predicted rightly; for rows with class labels, accuracy of leave-one-out 3-NN."""
        check_is_fitted(self)
        if isinstance(X, Pairs) or n_axes(X) == 3:
            pairs = _as_pairs(X).labelled(y)
            return float(np.mean(self.predict(pairs) == pairs.y))
        X, codes = self._labelled_rows(X, y, reset=False)
        return 1.0 - float(leave_one_out_errors(self.metric_.transform(X), codes, SCORE_NEIGHBORS)[-1])


def _as_pairs(X: Any) -> Pairs:
    if isinstance(X, Pairs):
        return X
    if isinstance(X, Triplets):
        raise TypeError("Expected Pairs or a 3-D array of shape (n_pairs, 2, n_features), got Triplets")
    if n_axes(X) != 3:
        raise ValueError(
            "Expected Pairs or a 3-D array of shape (n_pairs, 2, n_features); rows alone hold no comparisons. "
            "Reshape your data, or use transform on rows"
        )
    return Pairs.from_array(X)
