"""scikit-learn's own checks on every kind of filter; a filter's settings, and which learner it has, do not matter."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

import mahala
from mahala.filtering.nearest import NearestFilter
from mahala.filtering.paum import PAUM
from mahala.filtering.perceptron import Perceptron


@parametrize_with_checks([Perceptron(), PAUM(), NearestFilter(), NearestFilter(mahala.POLA())])
def test_filter_passes(estimator, check):
    check(estimator)
