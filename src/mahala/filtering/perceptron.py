"""The perceptron (Rosenblatt, 1958)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mahala.compiled.filtering import INTERCEPT, scores, stream_perceptron
from mahala.compiled.triplets import CSR
from mahala.filtering.online_filter import Bools, Floats, OnlineFilter
from mahala.support.params import is_count


class Rule(NamedTuple):
    """When a perceptron moves, and how far."""

    margins: tuple[float, float] = (0.0, 0.0)  # irrelevant, relevant
    eta: float = 1.0
    by_radius: bool = False


class Perceptron(OnlineFilter):
    """A linear filter f(x) = wᵀx + b that moves where it is wrong: where y f(x) <= 0, w ← w + yx and b ← b + y.

    y is +1 for relevant documents and -1 for irrelevant ones. At first w and b are 0, and all is irrelevant.

    Parameters
    ----------
    n_passes : int
        How often `fit` goes through the documents. Every pass counts in the rates and in `predictions_`.
    fit_intercept : bool
        Whether b is learned; else it stays 0.
    record : bool
        Keep `predictions_`. It grows by a byte a step: turn it off for a stream without end.

    Attributes
    ----------
    coef_, intercept_ : w and b
    classes_ : the irrelevant class and the relevant one
    n_features_in_, n_steps_, n_mistakes_ : int
    false_positive_rate_, false_negative_rate_, balanced_error_ : float, of what was predicted before each answer
    predictions_ : bool array, what was predicted before each answer

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> from mahala.filtering.perceptron import Perceptron
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> perceptron = Perceptron().fit(normalize(StandardScaler().fit_transform(X)), y == 0)
    >>> perceptron.n_mistakes_, round(perceptron.balanced_error_, 3)
    (39, 0.073)
    """

    coef_: Floats
    _state: Floats

    def __init__(self, n_passes: int = 1, fit_intercept: bool = True, record: bool = True) -> None:
        self.n_passes = n_passes
        self.fit_intercept = fit_intercept
        self.record = record

    @property
    def intercept_(self) -> float:
        """b, what is added to wᵀx."""
        return float(self._state[INTERCEPT])

    def _rule(self) -> Rule:
        return Rule()

    def _start(self) -> None:
        self.coef_ = np.zeros(self.n_features_in_)
        self._state = np.zeros(2)

    def _feed(self, rows: CSR, relevant: Bools, predicted: Bools) -> Iterator[slice]:
        for name in ("coef_", "_state"):  # read-only where the filter was unpickled as a memory map
            if not getattr(self, name).flags.writeable:
                setattr(self, name, getattr(self, name).copy())
        rule, unit = self._rule(), float(self.fit_intercept)
        stream_perceptron(
            rows, relevant, self.coef_, self._state, rule.margins, rule.eta, unit, rule.by_radius, predicted
        )
        yield slice(None)

    def _decide(self, rows: CSR) -> Floats:
        result = np.empty(len(rows[0]) - 1)
        scores(rows, self.coef_, self.intercept_, result)
        return result

    @property
    def _passes(self) -> int:
        return int(self.n_passes)

    def _check_params(self) -> None:
        super()._check_params()
        if not is_count(self.n_passes):
            raise ValueError(f"n_passes must be a number from 1 up, got {self.n_passes!r}")
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise ValueError(f"fit_intercept must be True or False, got {self.fit_intercept!r}")
