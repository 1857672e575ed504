"""A direction in which rows do not differ, but for rounding, changes nothing and carries no metric."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from contract.learners import ALL, as_stream, every_batch_learner, parametrize
from mahala import AROMA, NCA
from mahala.batch import SCML, PSDBoost, Relief
from mahala.batch.batch_learner import BatchLearner
from mahala.online.similarity_learner import SimilarityLearner
from mahala.testing import draw

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 5)) + np.eye(3, 5)[Y]
# Values of constant columns, and the places where they are inserted. The mean of many 0.1 differs from 0.1 by rounding.
CONSTANTS = {0.0: 0, 0.1: 5, 1e6: 0}
# Sevens that differ by rounding.
SEVENS = 7.0 + 1e-15 * RNG.integers(-2, 3, size=60)
# The number of features is in a bound of RDML's steps, and GML's solver "vsgd" steps a bit along each of them.
BY_DIMENSION = {"RDML": 1e-3, "GML": 3e-5}
LEARNERS = [
    learner
    for learner in ALL
    # A constant is a feature of an inner product, and "rbf" has a width of one over the number of features, by which
    # AROMA's steps are divided, too.
    if getattr(learner, "kernel", None) is None
    and not isinstance(learner, AROMA)
    and not (isinstance(getattr(learner, "init", None), str) and learner.init == "random")
]


def distances(learner, X):
    if isinstance(learner, BatchLearner):
        few = {"max_iter": 5} if (learner.get_params().get("max_iter") or 0) > 5 else {}  # each one adds to rounding
        return clone(learner).set_params(**few).fit(X, Y).metric_.pairwise(X)
    comparisons = draw(learner, X, Y, n=120)
    metric = as_stream(learner, comparisons).fit(comparisons).metric_
    return metric.pairwise(X)


@cache
def distances_without(learner):
    """Distances that a learner gives the rows as they are."""
    return distances(learner, X)


@parametrize(LEARNERS)
def test_constant_columns_change_nothing(learner):
    expected = distances_without(learner)
    near = BY_DIMENSION.get(type(learner).__name__, 1e-6) * float(np.abs(expected).max())
    # In a bilinear similarity a constant other than zero is a feature: it stands for how often a row is the nearer one.
    values = [0.0] if isinstance(learner, SimilarityLearner) else list(CONSTANTS)
    found = distances(learner, np.insert(X, [CONSTANTS[value] for value in values], values, axis=1))
    assert found == pytest.approx(expected, rel=0, abs=near)


@every_batch_learner
def test_a_column_of_rounding_changes_nothing(learner):
    expected = distances_without(learner)
    found = distances(learner, np.column_stack([X, SEVENS]))
    assert found == pytest.approx(expected, rel=0, abs=1e-5 * expected.max())


@pytest.mark.parametrize("learner", [PSDBoost(), NCA(2, random_state=0), SCML(random_state=0)], ids=repr)
def test_a_column_that_hardly_varies_does_not_carry_the_metric(learner):
    """Beside features of deviation one."""
    expected = distances_without(learner)
    for deviation in (1e-3, 1e-16):
        found = distances(learner, np.column_stack([X, deviation * RNG.normal(size=60)]))
        assert np.median(found) > 0.1 * np.median(expected), deviation


@pytest.mark.parametrize("column", [np.full(60, 7.0), 1e-3 * RNG.normal(size=60), X[:, 0] + X[:, 1]])
def test_trace_one_is_not_on_directions_without_variance(column):
    """Of labels at random: a matrix under which all rows are equal would have the largest margin."""
    given = np.column_stack([X, column])
    metric = PSDBoost().fit(given, RNG.permutation(Y)).metric_
    assert np.median(metric.pairwise(given)) > 0.1


def test_a_metric_that_separates_nothing_is_named():
    rows = np.array([[0.0], [1.0], [2.0], [3.0]])
    with pytest.warns(ConvergenceWarning, match="Relief found a metric under which all rows are at distance zero"):
        learner = Relief().fit(rows, [0, 1, 0, 1])  # each row is nearest to one of the other class
    assert not learner.metric_.pairwise(rows).any()
