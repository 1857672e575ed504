from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import mahala
from papers.pola2004.filters.nearest import NearestFilter
from reference import filtering as reference
from reference.documents import streams
from reference.online_pairs import passive_aggressive
from strategies import examples

LEARNERS = [
    mahala.POLA(),
    mahala.POLA(gamma=1.0),
    mahala.PA("I", C=0.1),
    mahala.PA("II", C=0.1, psd="end"),
    mahala.PA("LS", psd=3),
    mahala.PA(init="identity"),
    mahala.LEGO(similar_target=1.0, dissimilar_target=2.0),
    mahala.online.RDML(),
]


def state_of(learner):
    """M and the threshold by which the learner predicts."""
    if hasattr(learner, "_model"):
        return learner._model.M, learner._model.b
    return learner.metric_.matrix, learner.metric_.threshold


@given(streams(), st.booleans())
def test_without_a_learner_it_is_the_nearest_document(stream, sparse):
    X, relevant = stream
    fitted = NearestFilter().fit(sp.csr_matrix(X) if sparse else X, relevant)
    np.testing.assert_array_equal(fitted.predictions_, reference.nearest(X, relevant))


@given(streams(), streams())
def test_queries_are_decided_by_the_nearest_of_either_kind(stream, other):
    X, relevant = stream
    queries = np.resize(other[0], (len(other[0]), X.shape[1]))
    fitted = NearestFilter().fit(X, relevant)
    decisions = fitted.decision_function(queries)
    for query, decision in zip(queries, decisions, strict=True):
        squared = np.sum((X - query) ** 2, axis=1)
        assert (decision > 0) == relevant[np.argmin(squared)]
        bad, good = (np.min(squared[kind], initial=np.inf) for kind in (~relevant, relevant))
        assert decision == pytest.approx(bad - good, abs=1e-300)


def test_near_duplicates_far_from_the_origin_are_told_apart():
    # Through inner products alone all these distances would be rounding errors.
    X = 1e8 + np.array([[0.0, 0.0], [2e-6, 0.0], [1.5e-6, 0.0], [0.2e-6, 0.0]])
    relevant = np.array([False, True, True, False])
    np.testing.assert_array_equal(NearestFilter().fit(X, relevant).predictions_, reference.nearest(X, relevant))
    np.testing.assert_array_equal(NearestFilter().fit(X, relevant).predictions_, [False, False, True, False])


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@examples(8)
@given(stream=streams(max_n=30, max_d=5))
def test_with_a_learner_it_is_the_papers_filter(learner, stream):
    X, relevant = stream
    X = (X - X.mean(axis=0)) / (1.0 + np.abs(X).max())
    own = clone(learner)

    expected, gaps = reference.learned(X, relevant, lambda: state_of(own), own.learn_one)
    fitted = NearestFilter(learner).fit(X, relevant)
    # Up to the first decision that rounding makes.
    sure = np.cumprod(gaps > 1e-9).astype(bool)
    np.testing.assert_array_equal(fitted.predictions_[sure], np.array(expected)[sure])
    if sure.all() and hasattr(own, "n_steps_"):
        np.testing.assert_allclose(fitted.learner_.metric_.matrix, own.metric_.matrix, rtol=0, atol=1e-8)
        assert fitted.learner_.n_steps_ == own.n_steps_


def test_pola_is_the_papers_pola():
    """Against the whole paper in NumPy, learner and all, on a stream that is long enough to learn from."""
    rng = np.random.default_rng(3)
    relevant = rng.random(120) < 0.2
    X = rng.normal(size=(120, 6))
    X[relevant, :2] += 2.0
    pairs = []

    def state():
        V, y = np.array([v for v, _ in pairs]), [label for _, label in pairs]
        return passive_aggressive(V, y, (0.0, 0.0, np.inf), psd=1)[:2]

    def step(x, other, similar):
        pairs.append((x - other, 1 if similar else -1))

    expected, gaps = reference.learned(X, relevant, state, step)
    assert gaps.min() > 1e-7
    fitted = NearestFilter(mahala.POLA()).fit(X, relevant)
    np.testing.assert_array_equal(fitted.predictions_, expected)
    assert fitted.learner_.n_steps_ == len(pairs)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_queries_are_decided_by_the_closest_relevant_document(learner, labelled):
    X, y = labelled
    relevant = y == 1
    fitted = NearestFilter(learner).fit(X[:60], relevant[:60])
    M, threshold = state_of(fitted.learner_)
    V = X[60:, None, :] - X[:60][relevant[:60]]
    distances = np.einsum("qri,ij,qrj->qr", V, M, V).min(axis=1)
    got = fitted.decision_function(X[60:])
    np.testing.assert_allclose(got, threshold - distances, rtol=0, atol=1e-9 * np.abs(distances).max())
    np.testing.assert_array_equal(fitted.predict(X[60:]), threshold > distances)


@given(streams(), st.sampled_from([2.0**12, 2.0**24]))
def test_where_the_origin_lies_does_not_matter(stream, shift):
    # The differences of these documents are exact, so that all that follows is the same to the last bit.
    X, relevant = stream
    here, there = (NearestFilter(mahala.POLA()).fit(rows, relevant) for rows in (X, X + shift))
    np.testing.assert_array_equal(here.predictions_, there.predictions_)
    np.testing.assert_array_equal(here.decision_function(X), there.decision_function(X + shift))


def test_before_there_is_anything_to_compare_with_all_is_irrelevant():
    X = np.eye(3)
    for learner in (None, mahala.POLA()):
        fitted = NearestFilter(learner)
        assert not fitted.learn_one(X[0], False)
        np.testing.assert_array_equal(fitted.decision_function(X), -np.inf)
        assert not fitted.learn_one(X[1], True)
    # One relevant document, but the learner has not seen a pair yet.
    assert not fitted.predict(X).any()
    assert not hasattr(fitted.learner_, "n_steps_")
    fitted.learn_one(X[1], True)
    assert fitted.learner_.n_steps_ == 1
    assert fitted.predict(X[1:2]).all()


def test_the_learner_given_is_left_alone(labelled):
    X, y = labelled
    learner = mahala.POLA()
    fitted = NearestFilter(learner).fit(X, y == 0)
    assert fitted.learner is learner
    assert not hasattr(learner, "n_steps_")
    # A pair for each document after the first relevant one.
    assert fitted.learner_.n_steps_ == 90 - 1 - np.argmax(y == 0)


def test_predicting_changes_nothing(labelled):
    X, y = labelled
    one, other = (NearestFilter(mahala.POLA()).fit(X[:50], y[:50] == 0) for _ in range(2))
    one.predict(X)
    one.partial_fit(X[50:], y[50:] == 0)
    other.partial_fit(X[50:], y[50:] == 0)
    np.testing.assert_array_equal(one.predictions_, other.predictions_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize(
    ("learner", "error", "message"),
    [
        (mahala.OASIS(), ValueError, "learner must be None or an online learner from pairs, such as mahala.POLA"),
        ("POLA", ValueError, "learner must be None or an online learner from pairs"),
        (mahala.POLA, ValueError, "learner must be None or an online learner from pairs"),
        (mahala.POLA(kernel="rbf"), ValueError, "learner must have kernel=None, got kernel='rbf'"),
        (mahala.POLA(gamma=-1.0), ValueError, "gamma must be a number from 0 to"),
    ],
)
def test_learners_that_cannot_serve_are_refused_at_once(learner, error, message):
    fresh = NearestFilter(learner)
    with pytest.raises(error, match=message):
        fresh.learn_one([1.0, 0.0], False)
    assert not hasattr(fresh, "n_features_in_")
    good = NearestFilter().fit(np.eye(2), [False, True])
    with pytest.raises(error, match=message):
        good.set_params(learner=learner).fit(np.eye(3)[:2], [True, False])
    assert good.n_features_in_ == 2
    assert good.predict(np.eye(2)).tolist() == [False, True]
