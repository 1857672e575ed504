"""scikit-learn's own checks on every kind of filter; a filter's settings, and which learner it has, do not matter."""

from __future__ import annotations

from papers.pola2004.filters.nearest import NearestFilter
from papers.pola2004.filters.paum import PAUM
from papers.pola2004.filters.perceptron import Perceptron
from sklearn_checks import each_with_checks, run


@each_with_checks([Perceptron(), PAUM(), NearestFilter()])
def test_filter_passes(estimator, checks):
    run(checks, estimator)
