"""scikit-learn's checks, all of one estimator in one test: each takes a few milliseconds, and pytest as long for it."""

from __future__ import annotations

from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks


def each_with_checks(estimators, *, once=False):
    """Decorate a test of an estimator and its checks; a failing check is named in a note of its error.

    With `once`, which is for estimators of one base class, a check runs on the first of them that has it.
    """
    checks, names = {}, {}
    for estimator, check in parametrize_with_checks(estimators).args[1]:
        own = checks.setdefault(id(estimator), (estimator, []))[1]
        if not once or names.setdefault(check.func.__name__, id(estimator)) == id(estimator):
            own.append(check)
    assert len(checks) == len(estimators)
    return pytest.mark.parametrize(("estimator", "checks"), checks.values(), ids=[repr(own) for own in estimators])


def run(checks, estimator):
    for check in checks:
        try:
            check(estimator)
        except SkipTest:  # it needs what is not installed
            continue
        except BaseException as error:
            error.add_note(f"in {check}")
            raise
