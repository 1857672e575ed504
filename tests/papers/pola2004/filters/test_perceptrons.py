from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from papers.pola2004.filters.paum import PAUM
from papers.pola2004.filters.perceptron import Perceptron
from reference import filtering as reference
from reference.documents import streams


def agrees(fitted, w, b, predicted):
    np.testing.assert_array_equal(fitted.coef_, w)
    assert fitted.intercept_ == b
    np.testing.assert_array_equal(fitted.predictions_, predicted)


@given(streams(), st.booleans(), st.booleans())
def test_perceptron_is_the_reference(stream, fit_intercept, sparse):
    X, relevant = stream
    fitted = Perceptron(fit_intercept=fit_intercept).fit(sp.csr_matrix(X) if sparse else X, relevant)
    agrees(fitted, *reference.perceptron(X, relevant, fit_intercept=fit_intercept))


@given(
    streams(),
    st.sampled_from([0.0, 1.0, 50.0]),
    st.sampled_from([-1.0, 0.0, 0.125]),
    st.sampled_from([0.5, 1.0, 4.0]),
    st.booleans(),
)
def test_paum_is_the_reference(stream, tau_relevant, tau_irrelevant, eta, fit_intercept):
    X, relevant = stream
    fitted = PAUM(tau_relevant, tau_irrelevant=tau_irrelevant, eta=eta, fit_intercept=fit_intercept).fit(X, relevant)
    agrees(fitted, *reference.paum(X, relevant, tau_relevant, tau_irrelevant, eta, fit_intercept=fit_intercept))


@given(streams())
def test_paum_without_margins_is_the_perceptron_on_rows_of_length_one(stream):
    X, relevant = stream
    X = np.eye(X.shape[1])[np.argmax(X, axis=1)]
    agrees(PAUM(0.0, tau_irrelevant=0.0).fit(X, relevant), *reference.perceptron(X, relevant))


@pytest.mark.parametrize("kind", [Perceptron, PAUM])
def test_passes_go_on_where_the_last_one_ended(kind, labelled):
    X, y = labelled
    several = kind(n_passes=3).fit(X, y == 0)
    again = kind()
    for _ in range(3):
        again.partial_fit(X, y == 0)
    agrees(several, again.coef_, again.intercept_, again.predictions_)
    assert several.n_steps_ == 270


def test_more_passes_separate_what_can_be_separated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    relevant = X @ [1.0, -2.0, 0.5] > 0.3
    fitted = Perceptron(n_passes=200).fit(X, relevant)
    assert fitted.score(X, relevant) == 1.0
    # A pass without a mistake has come at the end.
    np.testing.assert_array_equal(fitted.predictions_[-200:], relevant)


def test_uneven_margins_find_more_of_the_few():
    rng = np.random.default_rng(1)
    relevant = rng.random(3000) < 0.05
    X = rng.normal(size=(3000, 4))
    X[relevant, 0] += 1.5
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    even, uneven = PAUM(1.0, tau_irrelevant=1.0).fit(X, relevant), PAUM(1.0, tau_irrelevant=-1.0).fit(X, relevant)
    assert uneven.false_negative_rate_ < even.false_negative_rate_


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (Perceptron(n_passes=0), "n_passes must be an integer of at least 1, got 0"),
        (Perceptron(n_passes=True), "n_passes must be an integer of at least 1, got True"),
        (Perceptron(fit_intercept="yes"), "fit_intercept must be True or False, got 'yes'"),
        (PAUM(tau_relevant=np.nan), "tau_relevant must be a finite number, got nan"),
        (PAUM(tau_irrelevant="1"), "tau_irrelevant must be a finite number, got '1'"),
        (PAUM(eta=0.0), "eta must be a positive number of at most 1e\\+100, got 0.0"),
        (PAUM(eta=1e200), r"eta must be a positive number of at most 1e\+100, got 1e\+200"),
    ],
)
def test_bad_parameters_are_named(learner, message):
    with pytest.raises(ValueError, match=message):
        learner.fit([[0.0], [1.0]], [False, True])


def test_values_as_large_as_are_accepted_do_not_overflow():
    X = np.array([[1e45, -1e45], [1e45, 1e45], [-1e45, 1e45]] * 20)
    fitted = PAUM(eta=1e100).fit(X, np.tile([True, False, False], 20))
    assert np.isfinite(fitted.coef_).all()
    assert np.isfinite(fitted.decision_function(X)).all()


def test_margins_may_be_any_finite_number():
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert np.isfinite(PAUM(10**30).fit(X, [True, False]).decision_function(X)).all()
    for wrong in (np.nan, np.inf, "x"):
        with pytest.raises(ValueError, match="tau_relevant must be a finite number"):
            PAUM(wrong).fit(X, [True, False])
