"""Weights of rows: as if each row were repeated so many times."""

from __future__ import annotations

import numpy as np
import pytest

from mahala import GML, LDA, NCA, PA, RCA, AutoMetric, LogisticMetric, Pairs, config_context
from reference.pair_objectives import gml, unordered_pairs

LEARNERS = [LDA(), LDA(n_components=1, shrinkage=0.2), RCA(), RCA(n_components=2)]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_weight_is_a_repetition(learner, dtype, labelled):
    X, y = labelled[0].astype(dtype), labelled[1]
    weights = np.random.default_rng(0).integers(0, 4, size=len(X))
    weighted = learner.fit(X, y, sample_weight=weights)
    M, objective = weighted.metric_.matrix, weighted.objective_
    repeated = learner.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    rtol = 1e-9 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(M, repeated.metric_.matrix, rtol=0, atol=rtol * np.abs(M).max())
    assert objective == pytest.approx(repeated.objective_, rel=rtol)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_weights_need_not_be_integers(learner, labelled):
    X, y = labelled
    weights = np.random.default_rng(0).uniform(0.1, 2.0, size=len(X))
    M = learner.fit(X, y, sample_weight=weights).metric_.matrix
    other = learner.fit(X, y, sample_weight=10.0 * weights).metric_.matrix
    np.testing.assert_allclose(M, other, rtol=0, atol=1e-9 * np.abs(M).max())
    plain = learner.fit(X, y).metric_.matrix
    assert np.abs(M - plain).max() > 1e-3 * np.abs(plain).max()
    np.testing.assert_allclose(learner.fit(X, y, sample_weight=np.ones(len(X))).metric_.matrix, plain, rtol=1e-9)


@pytest.mark.parametrize("engine", ["cpu", "torch-cpu"])
@pytest.mark.parametrize("diagonal", [False, True])
def test_gml_weighs_a_pair_by_both_rows(diagonal, engine, labelled):
    if engine == "torch-cpu":
        pytest.importorskip("torch")
    X, y = labelled
    weights = np.random.default_rng(0).integers(0, 4, size=len(X))
    learner = GML(diagonal=diagonal, tol=1e-12)
    with config_context(engine=engine):
        learner.fit(X, y, sample_weight=weights)
    M = learner.metric_.matrix
    left, right, similar = unordered_pairs(y)
    w = weights
    L = np.linalg.cholesky(M).T
    terms = [
        w[i] * w[j] * gml(L, X, [i], [j], np.array([s]), 0.9) for i, j, s in zip(left, right, similar, strict=True)
    ]
    assert learner.objective_ == pytest.approx(sum(terms), rel=1e-6)
    repeated = GML(diagonal=diagonal, tol=1e-12).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert learner.objective_ == pytest.approx(repeated.objective_, rel=1e-9)
    np.testing.assert_allclose(M, repeated.metric_.matrix, rtol=0, atol=1e-3 * np.abs(M).max())
    plain = GML(diagonal=diagonal, tol=1e-12).fit(X, y).metric_.matrix
    assert np.abs(M - plain).max() > 1e-2 * np.abs(plain).max()


@pytest.mark.parametrize("params", [{}, {"n_components": 2}, {"diagonal": True}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gml_gives_repeated_and_weighted_rows_in_any_order_the_same_bits(params, dtype, labelled):
    X, y = labelled[0].astype(dtype), labelled[1]
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, size=len(X))
    weighted = GML(**params).fit(X, y, sample_weight=weights)
    order = rng.permutation(weights.sum())
    repeated = GML(**params).fit(np.repeat(X, weights, axis=0)[order], np.repeat(y, weights)[order])
    np.testing.assert_array_equal(repeated.metric_.matrix, weighted.metric_.matrix)
    assert repeated.objective_ == weighted.objective_


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gml_knows_ratios_of_weights_only(dtype, labelled):
    X, y = labelled[0].astype(dtype), labelled[1]
    weights = np.random.default_rng(0).integers(1, 4, size=len(X)).astype(float)
    M = GML().fit(X, y, sample_weight=weights).metric_.matrix
    np.testing.assert_array_equal(GML().fit(X, y, sample_weight=2.0**90 * weights).metric_.matrix, M)
    np.testing.assert_array_equal(
        GML().fit(X, y, sample_weight=np.full(len(X), 4.0)).components_, GML().fit(X, y).components_
    )
    light = np.where(y == 0, 1e-60, 1.0)
    assert np.isfinite(GML().fit(X, y, sample_weight=light).metric_.matrix).all()


def test_what_becomes_of_single_rows():
    """A single row of weight 3 is three rows, which count in the covariance within classes."""
    X = np.random.default_rng(0).normal(size=(11, 2))
    y, weights = np.r_[np.zeros(5), np.ones(5), 2], np.r_[np.ones(10), 3]
    for learner in (LDA(), RCA()):
        M = learner.fit(X, y, sample_weight=weights).metric_.matrix
        repeated = learner.fit(np.vstack([X, X[10:], X[10:]]), np.r_[y, 2, 2]).metric_.matrix
        np.testing.assert_allclose(M, repeated, atol=1e-9 * np.abs(M).max())
    small = LDA().fit(X, y, sample_weight=1e-6 * weights).metric_.matrix
    np.testing.assert_allclose(small, LDA().fit(X, y, sample_weight=weights).metric_.matrix, rtol=1e-9)
    with pytest.raises(ValueError, match="sample_weight counts rows"):
        RCA().fit(X, y, sample_weight=1e-6 * weights)


def test_a_class_without_weight_is_not_there(labelled):
    X, y = labelled
    M = LDA().fit(X, y, sample_weight=(y != 1).astype(float)).metric_.matrix
    np.testing.assert_allclose(M, LDA().fit(X[y != 1], y[y != 1]).metric_.matrix, atol=1e-9 * np.abs(M).max())


def test_what_is_refused(labelled):
    X, y = labelled
    for wrong, message in (
        (-np.ones(90), "sample_weight must hold numbers"),
        (np.full(90, np.nan), "NaN"),
        (np.ones(89), "sample_weight"),
        (np.zeros(90), "non-zero|at least two classes"),
        ((y == 1).astype(float), "at least two classes"),
    ):
        with pytest.raises(ValueError, match=message):
            RCA().fit(X, y, sample_weight=wrong)
    with pytest.raises(ValueError, match="sample_weight must be None with comparisons"):
        RCA().fit(Pairs.from_labels(X, y, 50, random_state=0), sample_weight=np.ones(50))
    with pytest.raises(ValueError, match="shrinkage must be a number"):
        LDA(shrinkage="auto").fit(X, y, sample_weight=np.ones(90))
    for learner in (GML(solver="vsgd"), GML(n_pairs=50)):
        with pytest.raises(ValueError, match="it weights all pairs"):
            learner.fit(X, y, sample_weight=np.ones(90))
    takers = "NeighborClassifier, NeighborRegressor, GML, RCA and LDA"
    for kind in (NCA, PA, LogisticMetric, AutoMetric):
        with pytest.raises(TypeError) as error:
            kind().fit(X, y, sample_weight=np.ones(90))
        assert str(error.value) == f"{kind.__name__}.fit does not take sample_weight; {takers} take it"
    with pytest.raises(TypeError, match=r"GML\.fit does not take samples$"):
        GML().fit(X, y, samples=3)
