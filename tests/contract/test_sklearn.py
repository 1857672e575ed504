"""scikit-learn's own checks on every learner: none may fail."""

from __future__ import annotations

import inspect

import pytest

import mahala
from contract.learners import LEARNERS, REPRESENTATIVES
from sklearn_checks import each_with_checks, run

# What keeps a fit short: the checks are about input, attributes and state, and each fits many times.
SHORT = {"max_iter": 1, "n_starts": 1, "n_triplets": 150, "n_bases": 12}

# What rows are and when a learner is fitted, which the base classes see to: on one learner of each.
OF_BASE_CLASSES = {
    f"check_{name}"
    for name in (
        *("complex_data", "dtype_object", "estimators_empty_data_messages", "estimators_nan_inf", "array_api_input"),
        *("estimator_sparse_tag", "estimator_sparse_array", "estimator_sparse_matrix", "f_contiguous_array_estimator"),
        *("transformer_data_not_an_array", "fit1d", "fit2d_predict1d", "requires_y_none", "pipeline_consistency"),
        *("n_features_in", "n_features_in_after_fitting", "estimators_unfitted", "transformers_unfitted"),
        *("fit_check_is_fitted", "sample_weights_pandas_series", "sample_weights_not_an_array", "sample_weights_list"),
        *("dict_unchanged", "dont_overwrite_attributes", "estimators_overwrite_params", "estimators_fit_returns_self"),
        *("methods_sample_order_invariance", "methods_subset_invariance", "transformer_preserve_dtypes"),
        *("estimators_pickle", "fit_score_takes_y", "get_params_invariance", "set_params", "estimator_repr"),
    )
}


def settings(kind):
    params = inspect.signature(kind).parameters
    of_answers = {"n_pairs": 100, "lam": 0.01} if kind is mahala.LogisticMetric else {}
    return {name: value for name, value in SHORT.items() if name in params} | of_answers


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each_with_checks([kind(**settings(kind)) for kind in LEARNERS])
def test_learner_passes(estimator, checks):
    left_out = set() if type(estimator) in map(type, REPRESENTATIVES) else OF_BASE_CLASSES
    run([check for check in checks if check.func.__name__ not in left_out], estimator)


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_learner_is_a_transformer_of_rows(kind, labelled):
    """What judges comparisons has names that scikit-learn does not call with rows, and says what they take."""
    X, y = labelled
    learner = kind(**settings(kind)).fit(X, y)
    for name, other in (("predict", "predict_comparisons"), ("decision_function", "margins")):
        assert not hasattr(learner, name)
        with pytest.raises(AttributeError, match=f"{kind.__name__} has no attribute '{name}'; {other}"):
            getattr(learner, name)
        with pytest.raises(
            (TypeError, ValueError), match=r"Expected (Pairs|Triplets|Quadruplets|Pairs or Triplets).* rows"
        ):
            getattr(learner, other)(X)
