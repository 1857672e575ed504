"""GML against its definition, other minimisers and the paper's claims."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from mahala import GML, MahalanobisMetric, Pairs
from mahala.compiled.sums.vsgd import N_MEANS, vsgd
from reference.pair_objectives import gml, gml_pair_gradient, unordered_pairs, vsgd_step
from strategies import labelled_rows


def root(learner):
    """L as it acts on the features."""
    return np.diag(np.sqrt(learner.feature_importances_)) if learner.diagonal else learner.components_


@pytest.mark.parametrize("diagonal", [False, True])
@given(case=labelled_rows(), alpha=st.sampled_from([0.1, 0.5, 0.9]))
def test_the_objective_is_the_papers(diagonal, case, alpha):
    X, codes = case
    learner = GML(alpha, diagonal=diagonal, max_iter=5).fit(X, codes)
    expected = gml(root(learner), X, *unordered_pairs(codes), alpha)
    assert learner.objective_ == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert np.isfinite(learner.metric_.matrix).all()
    nothing = gml(np.zeros((1, X.shape[1])), X, *unordered_pairs(codes), alpha)
    assert learner.objective_ <= nothing + 1e-9


@pytest.mark.parametrize("diagonal", [False, True])
def test_no_other_minimiser_goes_lower(labelled, diagonal):
    X, y = labelled[0][:40, :3], labelled[1][:40]
    pairs = unordered_pairs(y)
    learner = GML(diagonal=diagonal, tol=1e-13).fit(X, y)

    def objective(vector):
        return gml(np.diag(vector) if diagonal else vector.reshape(3, 3), X, *pairs, 0.9)

    rng = np.random.default_rng(0)
    for _ in range(3):  # one minimum only, from wherever it starts
        start = rng.normal(size=3 if diagonal else 9)
        found = minimize(objective, start, method="BFGS")
        assert learner.objective_ <= found.fun * (1 + 1e-6)
        assert found.fun == pytest.approx(learner.objective_, rel=1e-3)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("name", ["wine", "parkinsons"])
def test_invariant_to_the_scale_of_features(dataset, name, diagonal):
    """The paper's claim, up to convergence; here even the way there is the same, up to rounding."""
    X, y = dataset(name)
    scales = 10.0 ** np.random.default_rng(0).uniform(-4, 4, size=X.shape[1])
    one = GML(diagonal=diagonal).fit(X, y)
    other = GML(diagonal=diagonal).fit(X * scales, y)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-5)
    np.testing.assert_allclose(
        other.metric_.pairwise(X[:50] * scales), one.metric_.pairwise(X[:50]), rtol=1e-2, atol=1e-2
    )


def test_both_solvers_find_the_minimum(labelled):
    X, y = labelled
    for diagonal in (False, True):
        exact = GML(diagonal=diagonal, tol=1e-10).fit(X, y)
        stochastic = GML(diagonal=diagonal, solver="vsgd", random_state=0).fit(X, y)
        assert exact.objective_ <= stochastic.objective_
        assert stochastic.objective_ < 1.02 * exact.objective_
        assert stochastic.stop_reason_ in ("converged", "max_iter")
    again = GML(diagonal=True, solver="vsgd", random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.metric_.matrix, stochastic.metric_.matrix)


@pytest.mark.parametrize("diagonal", [False, True])
def test_vsgd_is_the_papers(diagonal):
    rng = np.random.default_rng(0)
    X, n, batch = rng.normal(size=(20, 3)), 60, 5
    left = rng.integers(20, size=n)
    right = (left + rng.integers(1, 20, size=n)) % 20
    similar = rng.random(n) < 0.3
    variables = rng.normal(size=(1 if diagonal else 2, 3)) * 0.4
    expected, state = variables.copy(), None
    memory = np.zeros((N_MEANS, *variables.shape))

    def gradient(theta, v, same):
        full = gml_pair_gradient(np.diag(theta[0]) if diagonal else theta, v, same, 0.8)
        return np.diag(full)[None] if diagonal else full

    for first in range(0, n, batch):
        mean = np.zeros_like(expected) if state is None else state["g"]
        step = np.where(np.abs(mean) < 1e-5, np.where(mean >= 0, 1e-5, -1e-5), mean)
        chosen = [(X[left[t]] - X[right[t]], similar[t]) for t in range(first, first + batch)]
        here = [gradient(expected, *pair) for pair in chosen]
        there = [gradient(expected + step, *pair) for pair in chosen]
        expected, state = vsgd_step(expected, here, there, step, state)
    vsgd(X, left, right, similar, 0.8, batch, diagonal, variables, memory)
    np.testing.assert_allclose(variables, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(memory[4], state["tau"], rtol=1e-6)


def test_all_pairs_given_are_the_labelled_rows(labelled):
    X, y = labelled
    rows = GML().fit(X, y)
    pairs = GML().fit(Pairs(X, *unordered_pairs(y)))
    assert pairs.objective_ == pytest.approx(rows.objective_, rel=1e-6)
    np.testing.assert_allclose(pairs.metric_.matrix, rows.metric_.matrix, atol=1e-2 * rows.metric_.matrix.max())
    few = GML(n_pairs=300, random_state=0).fit(X, y)
    assert few.objective_ < 0.2 * rows.objective_  # a sum over fewer pairs
    assert few.score(X, y) > 0.75
    assert 0.8 < rows.score(Pairs(X, *unordered_pairs(y))) < 1.0


def test_weights(labelled):
    X, y = labelled
    learner = GML(diagonal=True).fit(X, y)
    weights = learner.feature_importances_
    assert (weights >= 0).all()
    assert weights[:3].min() > weights[3:].max()  # the last two features are noise
    np.testing.assert_allclose(learner.transform(X), X * np.sqrt(weights))
    assert list(learner.get_feature_names_out()) == [f"x{i}" for i in range(5)]
    with pytest.raises(AttributeError, match="its matrix M is not diagonal"):
        _ = GML().fit(X, y).feature_importances_


def test_fewer_directions(labelled):
    X, y = labelled
    learners = [GML(n_components=m, random_state=0, tol=1e-9).fit(X, y) for m in (1, 2, 5)]
    assert [learner.metric_.n_components for learner in learners][:2] == [1, 2]
    objectives = [learner.objective_ for learner in learners]
    assert objectives == sorted(objectives, reverse=True)


def test_a_metric_is_a_start(labelled):
    X, y = labelled
    for diagonal in (False, True):
        first = GML(diagonal=diagonal, tol=1e-12).fit(X, y)
        again = GML(diagonal=diagonal, init=first.metric_, max_iter=1).fit(X, y)
        assert again.objective_ == pytest.approx(first.objective_, rel=1e-9)
    with pytest.raises(ValueError, match="init must be a MahalanobisMetric of 5 features"):
        GML(diagonal=True, init=MahalanobisMetric.euclidean(3)).fit(X, y)


def test_classes_that_coincide():
    """Rows of two classes at one point have no gradient there, and no distance can be learned."""
    learner = GML().fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    assert learner.objective_ == pytest.approx(0.9 * 9)
    assert np.isfinite(learner.metric_.matrix).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 1.0}, "alpha must be a number between 0 and 1"),
        ({"alpha": "high"}, "alpha must be a number between 0 and 1"),
        ({"solver": "newton"}, "solver must be 'lbfgs' or 'vsgd'"),
        ({"diagonal": True, "n_components": 2}, "n_components must be None if diagonal=True"),
        ({"n_pairs": 0}, "n_pairs must be 'auto' or an integer of at least 1"),
    ],
)
def test_bad_parameters(labelled, params, message):
    with pytest.raises(ValueError, match=message):
        GML(**params).fit(*labelled)


@pytest.mark.parametrize("diagonal", [False, True])
def test_a_constant_feature_has_no_weight(labelled, diagonal):
    """Although the mean of many 0.1 differs from 0.1 by rounding."""
    X, y = labelled
    learner = GML(diagonal=diagonal).fit(np.c_[X, np.full(len(X), 0.1)], y)
    assert not learner.metric_.matrix[5].any()
