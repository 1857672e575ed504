"""The base class of learners from triplets: validation, labels → triplets, predict, score."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mahala.comparisons import Pairs, Triplets
from mahala.comparisons.sampling import draw_triplets
from mahala.compiled.ranking import retrieval
from mahala.learner import CHUNK_ELEMENTS, Learner, n_axes
from mahala.metric import scores_in_blocks


class TripletLearner(Learner):
    """A learner of a bilinear similarity from triplets, or from labels by way of triplets."""

    n_triplets: Any
    n_item_features_: int

    def _comparisons(
        self, X: Any, y: Any, *, reset: bool, at_most: bool = False
    ) -> tuple[Triplets, NDArray[np.intp] | None]:
        """Triplets as they are, a 3-D array, or rows with class labels, from which triplets are drawn.

        The second value holds the class codes of the rows, where there are any.
        """
        if isinstance(X, Pairs):
            raise TypeError(f"{type(self).__name__} learns from triplets, got Pairs; give Triplets or labelled rows")
        if reset:
            self._reset_seed()
        if isinstance(X, Triplets) or n_axes(X) == 3:
            triplets = _as_triplets(X)
            if y is not None:
                raise ValueError("y must be None with triplets: their order says which item is the more similar")
            if len(triplets) == 0:
                raise ValueError("triplets must not be empty: 0 triplets given, at least one is needed")
            self._check_n_features_of(triplets, reset=reset)
            if reset:
                self.n_item_features_ = triplets.n_item_features
            self._check_items(triplets.n_item_features)
            return triplets, None
        X, codes = self._labelled_rows(X, y, reset=reset)
        if codes.max() == 0:
            raise ValueError(f"y has one class; {type(self).__name__} needs rows of at least two classes")
        if reset:
            self.n_item_features_ = self.n_features_in_
        self._check_items(self.n_features_in_)
        return Triplets._build(X, *draw_triplets(codes, self.n_triplets, self._rng, name="n_triplets")), codes

    def _check_items(self, n_features: int) -> None:
        if n_features != self.n_item_features_:
            raise ValueError(
                f"items have {n_features} features, but {type(self).__name__} was fitted with items of "
                f"{self.n_item_features_} features"
            )

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """How much more similar the positive is than the negative, for Triplets or a 3-D array of triplets."""
        check_is_fitted(self)
        triplets = _as_triplets(X)
        self._check_n_features_of(triplets, reset=False)
        self._check_items(triplets.n_item_features)
        metric = self.metric_
        items = triplets.X if triplets.items is None else triplets.items
        result = np.empty(len(triplets))
        block = max(1, CHUNK_ELEMENTS // max(triplets.n_features, triplets.n_item_features))
        for start in range(0, len(triplets), block):
            part = triplets[start : start + block]
            anchors = triplets.X[part.anchor]
            result[start : start + block] = metric.similarity(anchors, items[part.positive]) - metric.similarity(
                anchors, items[part.negative]
            )
        return result

    def predict(self, X: Any) -> NDArray[np.int8]:
        """+1 where the positive is the more similar, else -1, for Triplets or a 3-D array of triplets."""
        return np.where(self.decision_function(X) > 0.0, np.int8(1), np.int8(-1))

    def score(self, X: Any, y: Any = None) -> float:
        """Share of triplets in the right order; for rows with class labels, the mean average precision.

        There each row is a query for the other rows, of which those of its class are relevant.
        """
        check_is_fitted(self)
        if isinstance(X, Triplets) or n_axes(X) == 3:
            return float(np.mean(self.predict(X) == 1))
        X, codes = self._labelled_rows(X, y, reset=False)
        average, _ = retrieval(scores_in_blocks(self.metric_, X), codes, codes, exclude_self=True)
        if np.isnan(average).all():
            raise ValueError("y must hold a class of at least two rows, but each row has a class of its own")
        return float(np.nanmean(average))


def _as_triplets(X: Any) -> Triplets:
    if isinstance(X, Triplets):
        return X
    if isinstance(X, Pairs):
        raise TypeError("Expected Triplets or a 3-D array of shape (n_triplets, 3, n_features), got Pairs")
    if n_axes(X) != 3:
        raise ValueError(
            "Expected Triplets or a 3-D array of shape (n_triplets, 3, n_features); rows alone hold no comparisons. "
            "Reshape your data, or use transform on rows"
        )
    return Triplets.from_array(X)
