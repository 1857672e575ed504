"""scikit-learn's own checks on every learner: none may fail."""

from __future__ import annotations

import inspect

import pytest
from sklearn.utils.estimator_checks import check_estimator_sparse_matrix

import mahala
from contract.learners import LEARNERS
from sklearn_checks import each_with_checks, run

# What keeps a fit short: the checks are about input, attributes and state, and each fits many times.
SHORT = {"max_iter": 1, "n_starts": 1, "n_triplets": 150, "n_bases": 12}


def settings(kind):
    params = inspect.signature(kind).parameters
    of_answers = {"n_pairs": 100, "lam": 0.01} if kind is mahala.LogisticMetric else {}
    return {name: value for name, value in SHORT.items() if name in params} | of_answers


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each_with_checks([kind(**settings(kind)) for kind in LEARNERS])
def test_learner_passes(estimator, checks):
    # Sparse matrices are read as sparse arrays are, by the base classes.
    once = isinstance(estimator, (mahala.PA, mahala.OASIS, mahala.NCA))
    run([check for check in checks if once or check.func is not check_estimator_sparse_matrix], estimator)


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
