"""scikit-learn's own checks on every filter."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from filtering.documents import FILTERS


@parametrize_with_checks(FILTERS)
def test_filter_passes(estimator, check):
    check(estimator)
