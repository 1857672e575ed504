"""The perceptron (Rosenblatt, 1958)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mahala.compiled.triplets.rows import CSR
from mahala.support.arrays import BoolArray, FloatArray
from mahala.support.parameters import Count
from papers.pola2004.filters.kernels import INTERCEPT, scores, stream_perceptron
from papers.pola2004.filters.online_filter import OnlineFilter


@dataclass(eq=False, repr=False, kw_only=True)
class Perceptron(OnlineFilter):
    """A linear filter f(x) = wᵀx + b that is updated when it is wrong: if y f(x) <= 0, w ← w + yx and b ← b + y.

    y is +1 for relevant documents and -1 for irrelevant ones. Initially w and b are 0, and every document is predicted
    to be irrelevant.

    Parameters
    ----------
    n_passes : int
        The number of passes of `fit` over the documents. Every pass counts in the rates and in `predictions_`.
    fit_intercept : bool
        Whether to learn b; otherwise it is 0.
    record : bool
        Whether to keep `predictions_`, which grows by one byte per step: turn it off for an endless stream.

    Attributes
    ----------
    coef_, intercept_ : w and b
    classes_ : the irrelevant class and the relevant one
    n_features_in_, n_steps_, n_mistakes_ : int
    false_positive_rate_, false_negative_rate_, balanced_error_ : float, of the predictions before each answer
    predictions_ : bool array, the predictions before each answer

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> from papers.pola2004.filters.perceptron import Perceptron
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> perceptron = Perceptron().fit(normalize(StandardScaler().fit_transform(X)), y == 0)
    >>> perceptron.n_mistakes_, round(perceptron.balanced_error_, 3)
    (39, 0.073)
    """

    n_passes: Count = 1
    fit_intercept: bool = True

    @property
    def intercept_(self) -> float:
        """The intercept b."""
        return float(self._state[INTERCEPT])

    def _rule(self) -> tuple[tuple[float, float], float, bool]:
        """Return the margins of irrelevant and relevant documents, η, and whether b changes by R²."""
        return (0.0, 0.0), 1.0, False

    def _start(self) -> None:
        self.coef_ = np.zeros(self.n_features_in_)
        self._state = np.zeros(2)

    def _feed(self, rows: CSR, relevant: BoolArray, predicted: BoolArray) -> Iterator[int]:
        for name in ("coef_", "_state"):  # read-only if the filter was unpickled as a memory map
            if not getattr(self, name).flags.writeable:
                setattr(self, name, getattr(self, name).copy())
        margins, eta, by_radius = self._rule()
        stream_perceptron(
            rows, relevant, self.coef_, self._state, margins, eta, float(self.fit_intercept), by_radius, predicted
        )
        yield len(relevant)

    def _decide(self, rows: CSR) -> FloatArray:
        result = np.empty(len(rows[0]) - 1)
        scores(rows, self.coef_, self.intercept_, result)
        return result
