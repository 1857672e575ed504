"""Tests of methods over data sets by their ranks: Friedman, Holm and Nemenyi."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from mahala.support.arrays import FloatArray
from mahala.support.validation import as_floats


@dataclass(frozen=True, eq=False)
class FriedmanResult:
    """Result of :func:`friedman_holm`; arrays are in the order of ``methods``.

    Attributes
    ----------
    alpha : significance level of ``critical_difference``
    ranks : mean rank of each method over the data sets; 1 is the best
    statistic, p_value : Friedman's chi-square statistic, corrected for ties, and its p-value
    f_statistic, f_p_value : F statistic of Iman and Davenport, which is less conservative, and its p-value
    adjusted : Holm-adjusted p-values of all pairs of methods: a symmetric matrix with ones on the diagonal
    critical_difference : Nemenyi's; mean ranks at least this far apart differ significantly at level ``alpha``
    """

    methods: tuple[str, ...]
    n_datasets: int
    alpha: float
    ranks: FloatArray
    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    adjusted: FloatArray
    critical_difference: float

    def against(self, method: str) -> FloatArray:
        """Return p-values of every method against one, Holm-adjusted for these comparisons only; 1 for itself.

        They are lower than those in ``adjusted``, which allow for all pairs.

        >>> result = friedman_holm([[1, 2, 3], [1, 2, 3], [1, 3, 2], [1, 2, 3]], methods=["a", "b", "c"])
        >>> result.against("c").round(3), result.adjusted[2].round(3)
        (array([0.027, 0.48 , 1.   ]), array([0.04, 0.48, 1.  ]))
        """
        at = self.methods.index(method)
        others = np.arange(len(self.methods)) != at
        error = _standard_error(len(self.methods), self.n_datasets)
        p_values: FloatArray = np.ones(len(self.methods))
        p_values[others] = holm(2 * stats.norm.sf(np.abs(self.ranks - self.ranks[at])[others] / error))
        return p_values


def friedman_holm(table: ArrayLike, methods: Sequence[str] | None = None, alpha: float = 0.05) -> FriedmanResult:
    """Compare methods by their ranks on each data set: Friedman, Holm and Nemenyi tests.

    Parameters
    ----------
    table : array of shape (n_datasets, n_methods), or a data frame with one column per method
        Errors, times or other results for which lower is better. Ties share their mean rank.
    methods : list of str or None, default=None
        Names of the columns. None takes those of the data frame, or "1", "2", …
    alpha : float, default=0.05
        Significance level of the critical difference.

    References
    ----------
    Demšar, J. (2006). Statistical comparisons of classifiers over multiple data sets. JMLR 7.

    >>> errors = [[0.12, 0.15, 0.20], [0.30, 0.33, 0.41], [0.08, 0.07, 0.11], [0.21, 0.25, 0.26]]
    >>> result = friedman_holm(errors, methods=["PA-I", "PA-II", "Euclidean"])
    >>> result.ranks
    array([1.25, 1.75, 3.  ])
    >>> round(result.p_value, 4), round(float(result.adjusted[0, 2]), 4)
    (0.0388, 0.04)
    """
    if methods is None:
        methods = list(getattr(table, "columns", ()))
    values = _check_table(table)
    n, k = values.shape
    names = tuple(map(str, methods if len(methods) else range(1, k + 1)))
    if len(names) != k or len(set(names)) != k:
        raise ValueError(f"methods must be {k} different names, one for each column of table, got {list(names)}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")

    ranks_by_dataset = stats.rankdata(values, axis=1)
    ranks: FloatArray = ranks_by_dataset.mean(axis=0)
    middle = (k + 1) / 2
    between, total = n * np.sum((ranks - middle) ** 2), np.sum((ranks_by_dataset - middle) ** 2)
    # If all methods tie on every data set, total is 0 and there is no evidence of a difference.
    agreement = min(between / total, 1.0) if total else 0.0
    statistic = n * (k - 1) * agreement
    f_statistic = (n - 1) * agreement / (1 - agreement) if agreement < 1 else np.inf

    i, j = np.triu_indices(k, 1)
    error = _standard_error(k, n)
    adjusted = np.ones((k, k))
    adjusted[i, j] = adjusted[j, i] = holm(2 * stats.norm.sf(np.abs(ranks[i] - ranks[j]) / error))
    return FriedmanResult(
        methods=names,
        n_datasets=n,
        alpha=alpha,
        ranks=ranks,
        statistic=float(statistic),
        p_value=float(stats.chi2.sf(statistic, k - 1)),
        f_statistic=float(f_statistic),
        f_p_value=float(stats.f.sf(f_statistic, k - 1, (k - 1) * (n - 1))),
        adjusted=adjusted,
        critical_difference=float(stats.studentized_range.isf(alpha, k, np.inf) / np.sqrt(2) * error),
    )


def _standard_error(n_methods: int, n_datasets: int) -> float:
    """Return the standard error of a difference of mean ranks."""
    return float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def holm(p_values: ArrayLike) -> FloatArray:
    """Adjust the p-values of several tests by Holm's step-down method.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = as_floats(p_values, "p_values")
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.arange(len(p), 0, -1) * p[order]))
    return adjusted


def _check_table(table: ArrayLike) -> FloatArray:
    try:
        values = as_floats(table, "table")
    except ValueError as error:
        raise ValueError(
            "table must hold a number for each data set and method, without missing values or a column of names"
        ) from error
    if values.ndim != 2:
        raise ValueError(f"table must be 2-D, datasets × methods, got {values.ndim} dimension(s)")
    if np.isnan(values).any():
        row, column = np.argwhere(np.isnan(values))[0]
        advice = "drop that dataset, or put in inf if the method failed on it"
        raise ValueError(f"table must have no NaN, got one in row {row}, column {column}; {advice}")
    n, k = values.shape
    if k == 2:
        advice = "for two methods use a paired test, for instance scipy.stats.wilcoxon"
        raise ValueError(f"table must have at least 3 methods, got 2; {advice}")
    if k < 3 or n < 2:
        raise ValueError(f"table must have at least 2 datasets (rows) and 3 methods (columns), got {n} × {k}")
    return values
