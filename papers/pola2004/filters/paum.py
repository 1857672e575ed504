"""PAUM: the perceptron algorithm with uneven margins (Li, Zaragoza, Herbrich, Shawe-Taylor, Kandola, 2002)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Annotated

from mahala.support.parameters import Where, is_number
from papers.pola2004.filters.perceptron import Perceptron

Finite = Annotated[float, Where(lambda value: is_number(value) and -inf < value < inf, "a finite number")]
# An intercept changes by η R² per step; the limit keeps it far from overflow for rows as large as are accepted.
Eta = Annotated[
    float, Where(lambda value: is_number(value) and 0.0 < value <= 1e100, "a positive number of at most 1e+100")
]


@dataclass(eq=False, repr=False)
class PAUM(Perceptron):
    """A perceptron with margins, of which the one for relevant documents may be larger, because these are few.

    If y f(x) <= τ of y's kind, w ← w + ηyx and b ← b + ηyR². R is the largest norm of the documents seen so far,
    including the current one: a stream does not know later documents, and `fit` works like a stream.

    Parameters
    ----------
    tau_relevant, tau_irrelevant : float
        The margins. Only their sizes relative to ηR² matter; if both are 0 and rows have length 1, PAUM is the
        `Perceptron`. A negative margin tolerates documents of its kind that are wrong by as much.
    eta : float
        Learning rate.
    n_passes, fit_intercept, record : as for `Perceptron`

    The attributes are those of `Perceptron`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler, normalize
    >>> from papers.pola2004.filters.paum import PAUM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> paum = PAUM(tau_relevant=1.0, tau_irrelevant=0.1).fit(normalize(StandardScaler().fit_transform(X)), y == 0)
    >>> paum.n_mistakes_, round(paum.balanced_error_, 3)
    (34, 0.055)
    """

    tau_relevant: Finite = 1.0
    _: KW_ONLY
    tau_irrelevant: Finite = 0.1
    eta: Eta = 1.0

    def _rule(self) -> tuple[tuple[float, float], float, bool]:
        return (float(self.tau_irrelevant), float(self.tau_relevant)), float(self.eta), True
