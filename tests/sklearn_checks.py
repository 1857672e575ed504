"""scikit-learn's checks as parameters of a test."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks


def with_checks(estimators, **options):
    """Decorate a test like `parametrize_with_checks`, which in old versions gives a generator that pytest refuses."""
    mark = parametrize_with_checks(estimators, **options)
    names, values = mark.args
    return pytest.mark.parametrize(names, list(values), **mark.kwargs)
