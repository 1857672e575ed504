from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given

from mahala import MahalanobisMetric
from mahala.metric import Explanation
from metric.cases import brute_force, mahalanobis


@given(case=mahalanobis(indefinite=True))
def test_explanations_sum_to_the_squared_distance(case):
    M, X, Y = case
    unit = np.abs(M).max() or 1.0
    explanation = MahalanobisMetric(M).explain(X[0], Y[0])
    expected = brute_force(M / unit, X[:1], Y[:1])[0, 0]
    v = X[0] - Y[0]
    np.testing.assert_allclose(explanation.features / unit, v * (M / unit @ v), atol=1e-11)
    for total in (explanation.distance, explanation.features.sum(), explanation.directions.sum()):
        np.testing.assert_allclose(total / unit, expected, atol=1e-11)


def test_explanations_name_the_largest_contributions():
    metric = MahalanobisMetric([[1.0, -3.0], [-3.0, 10.0]], feature_names=["age", "dose"])
    explanation = metric.explain([2.0, 1.0], [0.0, 0.0])
    assert explanation.distance == 2.0
    assert explanation.top() == [("dose", 4.0), ("age", -2.0)]
    assert explanation.top(1) == [("dose", 4.0)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        explanation.distance = 3.0
    assert [name for name, _ in MahalanobisMetric.euclidean(3).explain([1, 2, 3], [0, 0, 0]).top(2)] == ["x2", "x1"]
    with pytest.raises(ValueError, match="single points"):
        metric.explain(np.eye(2), [0.0, 0.0])
    mixed = Explanation(-2.0, np.array([1.0, -5.0, 2.0]), np.array([-2.0]), ("a", "b", "c"))
    assert mixed.top() == [("b", -5.0), ("c", 2.0), ("a", 1.0)]
    assert Explanation(3.0, None, None, None).top() == []
    assert Explanation(3.0, None, np.array([1.0, 2.0]), None).top() == [("direction 1", 2.0), ("direction 0", 1.0)]
