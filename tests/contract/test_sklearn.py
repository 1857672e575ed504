"""scikit-learn's own checks on every learner.

`predict` and `decision_function` are about comparisons; some checks call them with rows, which hold none, and must
fail. So that nothing hides behind those failures, these checks also run on the learner without the two methods, where
none may fail.
"""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from contract.learners import LEARNERS, ON_ROWS, few
from sklearn_checks import with_checks

ON_COMPARISONS = "calls predict or decision_function with rows, which hold no comparisons"
EXPECTED_FAILURES = dict.fromkeys(
    [
        "check_n_features_in_after_fitting",
        "check_estimators_pickle",
        "check_estimators_dtypes",
        "check_dtype_object",
        "check_f_contiguous_array_estimator",
        "check_estimators_nan_inf",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_dict_unchanged",
        "check_fit_idempotent",
    ],
    ON_COMPARISONS,
)


@with_checks(
    [kind(**few(kind)) for kind in LEARNERS],
    expected_failed_checks=lambda learner: EXPECTED_FAILURES if hasattr(learner, "predict") else {},
)
def test_learner_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{kind.__name__}-{check.func.__name__}")
        for kind in ON_ROWS
        for estimator, check in estimator_checks_generator(kind(**few(kind)))
        if check.func.__name__ in EXPECTED_FAILURES
    ],
)
def test_learner_on_rows_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [kind for kind in LEARNERS if hasattr(kind, "predict")])
def test_predict_on_rows_says_what_to_do(kind, labelled):
    X, y = labelled
    with pytest.raises(ValueError, match=r"(Pairs|Triplets) or a 3-D array .* rows alone hold no comparisons"):
        kind(**few(kind)).fit(X, y).predict(X)
