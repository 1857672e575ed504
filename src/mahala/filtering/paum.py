"""PAUM: the perceptron algorithm with uneven margins (Li, Zaragoza, Herbrich, Shawe-Taylor, Kandola, 2002)."""

from __future__ import annotations

import numpy as np

from mahala.filtering.perceptron import Perceptron, Rule
from mahala.support.params import is_number
from mahala.support.validation import check_positive

# Intercepts, η R² a step, stay far from overflow for rows as large as are accepted.
LARGEST_ETA = 1e100


class PAUM(Perceptron):
    """A perceptron that wants a margin, and a larger one where documents are relevant and few.

    Where y f(x) <= τ of y's kind, w ← w + ηyx and b ← b + ηyR². R is the largest norm of the documents seen so far,
    the one at hand included: a stream does not know those to come, and `fit` goes the same way as a stream.

    Parameters
    ----------
    tau_relevant, tau_irrelevant : float
        The margins. Only their sizes relative to ηR² count; with both 0 and rows of length 1 it is the `Perceptron`. A
        negative one lets documents of that kind be wrong by as much.
    eta : float
        The length of a step.
    n_passes, fit_intercept, record : as for `Perceptron`

    The attributes are those of `Perceptron`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> from mahala.filtering.paum import PAUM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> paum = PAUM(tau_relevant=1.0, tau_irrelevant=0.1).fit(normalize(StandardScaler().fit_transform(X)), y == 0)
    >>> paum.n_mistakes_, round(paum.balanced_error_, 3)
    (34, 0.055)
    """

    def __init__(
        self,
        tau_relevant: float = 1.0,
        tau_irrelevant: float = 0.1,
        eta: float = 1.0,
        n_passes: int = 1,
        fit_intercept: bool = True,
        record: bool = True,
    ) -> None:
        super().__init__(n_passes=n_passes, fit_intercept=fit_intercept, record=record)
        self.tau_relevant = tau_relevant
        self.tau_irrelevant = tau_irrelevant
        self.eta = eta

    def _rule(self) -> Rule:
        return Rule((float(self.tau_irrelevant), float(self.tau_relevant)), float(self.eta), by_radius=True)

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("tau_relevant", "tau_irrelevant"):
            value = getattr(self, name)
            if not (is_number(value) and np.isfinite(value)):
                raise ValueError(f"{name} must be a finite number, got {value!r}")
        check_positive(self.eta, "eta", LARGEST_ETA)
