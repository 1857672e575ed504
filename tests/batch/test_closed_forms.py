"""GMML, KISSME, XQDA, DMLMJ and ANMM against their formulas in plain NumPy, on rows that are kind and unkind."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from mahala import Pairs
from mahala.batch import ANMM, DMLMJ, GMML, KISSME, XQDA
from mahala.engine.neighbors import class_neighbors
from reference.closed_forms import (
    all_pairs,
    average_margins,
    covariance,
    dmlmj,
    gmml,
    jeffrey_divergence,
    kissme,
    learned,
    near_pairs,
    power,
    xqda,
)
from strategies import examples

OF_PAIRS = [
    (GMML, {}, gmml(0.25)),
    (GMML, {"t": 0.5}, gmml(0.5)),
    (GMML, {"t": 1.0}, gmml(1.0)),
    (KISSME, {}, kissme),
    (XQDA, {}, xqda()),
    (XQDA, {"n_components": 1}, xqda(1)),
]
OF_LABELS = [(DMLMJ, {}, dmlmj()), (DMLMJ, {"embedding": "plain"}, dmlmj(weighted=False))]


@st.composite
def tables(draw):
    """Rows and classes: ties, duplicates, dependent and constant features, more features than rows, float32."""
    n, d, c = draw(st.integers(6, 30)), draw(st.integers(1, 8)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = np.r_[np.arange(c), np.arange(2), rng.integers(0, c, size=n - c - 2)] if n > c + 2 else np.arange(n) % 2
    X = rng.normal(size=(n, d)) + rng.normal(size=(c, d))[y]
    kind = draw(st.sampled_from(["normal", "integers", "duplicates", "dependent", "constant", "scales", "wide"]))
    if kind == "integers":
        X = rng.integers(-1, 2, size=(n, d)).astype(float)
    elif kind == "duplicates":
        X = np.concatenate([X[: n // 2], X[: n - n // 2]])
    elif kind == "dependent":
        X = np.column_stack([X, X @ rng.integers(-1, 2, size=(d, 2))])
    elif kind == "constant":
        X[:, 0] = 0.1
    elif kind == "scales":
        X = X * 2.0 ** rng.integers(-3, 4, size=d)
    elif kind == "wide":
        X = np.column_stack([X, rng.normal(size=(n, 2 * n))])
    if draw(st.booleans()):
        X = X.astype(np.float32)
    return X, y


def check(learner, data, X, pairs, formula, *, near=1e-7):
    """Compare the matrix with the formula; rows that do not differ where they should are refused."""
    X = X.astype(np.float64)
    left, right, similar = pairs
    if not all((X[left[kind]] != X[right[kind]]).any() for kind in (similar, ~similar)):
        with pytest.raises(ValueError, match=r"pairs of both kinds must have rows that differ|one class"):
            learner.fit(*data)
        return
    expected = learned(X, pairs, learner.shrinkage, formula, scale=not isinstance(learner, GMML))
    if np.abs(expected).max() < 1e-9:
        with pytest.raises(ValueError, match="dissimilar pairs of rows must differ more"):
            learner.fit(*data)
        return
    M = learner.fit(*data).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, expected, rtol=0, atol=near * np.abs(expected).max())
    assert np.isfinite(learner.objective_)


@pytest.mark.parametrize(("kind", "params", "formula"), OF_PAIRS)
@given(table=tables())
@examples(20)
def test_all_pairs_of_labelled_rows_give_the_formula(kind, params, formula, table):
    X, y = table
    check(kind(**params), (X, y), X, all_pairs(y), formula)


@pytest.mark.parametrize(("kind", "params", "formula"), OF_PAIRS)
@given(table=tables(), seed=st.integers(0, 2**32 - 1))
@examples(15)
def test_given_pairs_give_the_formula(kind, params, formula, table, seed):
    X, _ = table
    rng = np.random.default_rng(seed)
    left = rng.integers(0, len(X), size=40)
    right = (left + rng.integers(1, len(X), size=40)) % len(X)
    similar = np.r_[True, False, rng.random(38) < 0.4]
    check(kind(**params), (Pairs(X, left, right, similar),), X, (left, right, similar), formula)


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize(("kind", "params", "formula"), OF_LABELS)
@given(table=tables())
@examples(12)
def test_near_rows_give_the_formula(kind, params, formula, k, table):
    X, y = table
    rows = X.astype(np.float64)
    distances = np.square(rows[:, None] - rows).sum(axis=2)
    # Which of equally near rows count is open, so the pairs are those that the learner takes, and are checked.
    left, right, similar = near_pairs(rows, y, k)
    near = class_neighbors(rows - rows[0], y, k, k)
    for own, table in zip((True, False), near, strict=True):
        i, j = np.nonzero(table < len(y))
        expected, found = (distances[left[similar == own], right[similar == own]], distances[i, table[i, j]])
        np.testing.assert_allclose(np.sort(found), np.sort(expected), atol=1e-5 * distances.max())
    if len(np.unique(distances)) < len(y) * (len(y) - 1) / 2:
        return
    check(kind(n_neighbors=k, **params), (X, y), X, (left, right, similar), formula)


@pytest.mark.parametrize(
    ("learner", "formula"),
    [
        (GMML(0.5, shrinkage=0.0), gmml(0.5)),
        (GMML(0.0, shrinkage=0.0), gmml(0.0)),
        (KISSME(0.0), kissme),
        (XQDA(shrinkage=0.0), xqda()),
        (XQDA(2, shrinkage=0.0), xqda(2)),
        (DMLMJ(shrinkage=0.0), dmlmj()),
        (DMLMJ(2, shrinkage=0.0, n_neighbors=3, embedding="plain"), dmlmj(2, weighted=False)),
    ],
    ids=repr,
)
def test_without_shrinkage_it_is_the_formula_of_the_paper(labelled, learner, formula):
    X, y = labelled
    pairs = near_pairs(X, y, learner.n_neighbors) if isinstance(learner, DMLMJ) else all_pairs(y)
    check(learner, (X, y), X, pairs, formula, near=1e-9)


def test_gmml_minimises_its_objectives(labelled):
    X, y = labelled
    left, right, similar = all_pairs(y)
    V = X[left] - X[right]
    A, B = covariance(V[similar]), covariance(V[~similar])

    def squared_distance(P, Q):
        root = power(P, -0.5)
        return np.square(np.log(np.linalg.eigvalsh(root @ Q @ root))).sum()

    for t in (0.25, 0.5, 0.9):
        learner = GMML(t, shrinkage=0.0).fit(X, y)
        M = learner.get_mahalanobis_matrix()

        def geodesic(M, t=t):
            return (1 - t) * squared_distance(M, np.linalg.inv(A)) + t * squared_distance(M, B)

        assert geodesic(M) == pytest.approx(learner.objective_, rel=1e-9)
        rng = np.random.default_rng(0)
        for _ in range(20):
            D = 1e-3 * rng.normal(size=M.shape)
            moved = M + D @ M + M @ D.T + D @ M @ D.T
            assert geodesic(moved) > learner.objective_
            if t == 0.5:
                costs = [np.trace(N @ A) + np.trace(np.linalg.solve(N, B)) for N in (M, moved)]
                assert costs[0] < costs[1]


def test_no_map_has_a_larger_divergence_than_that_of_dmlmj(labelled):
    X, y = labelled
    left, right, similar = near_pairs(X, y, 5)
    V = X[left] - X[right]
    A, B = covariance(V[similar]), covariance(V[~similar])
    learner = DMLMJ(2, shrinkage=0.0).fit(X, y)
    assert jeffrey_divergence(learner.components_, A, B) == pytest.approx(-learner.objective_, rel=1e-9)
    best = min(
        minimize(lambda z: -jeffrey_divergence(z.reshape(2, -1), A, B), np.random.default_rng(seed).normal(size=10)).fun
        for seed in range(4)
    )
    assert best == pytest.approx(learner.objective_, rel=1e-5)


@pytest.mark.parametrize(
    "learner", [GMML(shrinkage=0.0), KISSME(0.0), XQDA(shrinkage=0.0), DMLMJ(shrinkage=0.0)], ids=repr
)
def test_fewer_rows_than_features_give_a_finite_metric_of_the_rows(learner):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 6)
    X = rng.normal(size=(18, 40)) + 3.0 * np.eye(40)[y]
    metric = learner.fit(X, y).metric_
    assert np.isfinite(metric.matrix).all()
    assert metric.n_components <= 17  # the directions in which 18 rows differ


@pytest.mark.parametrize("learner", [KISSME(), XQDA()], ids=repr)
def test_pairs_that_say_nothing_are_refused(learner):
    X = np.random.default_rng(0).normal(size=(40, 3))
    rows = np.concatenate([X, X[::-1] * 0.5])
    left, right = np.arange(0, 80, 2), np.arange(1, 80, 2)
    with pytest.raises(ValueError, match="dissimilar pairs of rows must differ more than similar ones"):
        learner.fit(Pairs(rows, left, right, left < 40))
    for similar, kind in ((True, "dissimilar"), (False, "similar")):
        with pytest.raises(ValueError, match=f"pairs of both kinds must have rows that differ, but no {kind} pair has"):
            learner.fit(Pairs(rows, left, right, np.full(40, similar)))


@pytest.mark.parametrize("learner", [GMML(), KISSME(), XQDA(), DMLMJ()], ids=repr)
def test_one_class_is_refused_and_wine_takes_milliseconds(learner):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    with pytest.raises(ValueError, match="one class"):
        learner.fit(X, np.zeros(len(X)))
    seconds = []
    for _ in range(5):
        start = time.process_time()
        learner.fit(X, y)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.05  # 2 to 9 ms on a machine without other work


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (GMML(1.5), "t must be a number from 0 to 1"),
        (KISSME(-0.1), "shrinkage must be a number from 0 to 1"),
        (XQDA(6), "n_components must be at most 5"),
        (DMLMJ(6), "n_components must be at most 5"),
        (DMLMJ(embedding="other"), "embedding must be 'weighted' or 'plain'"),
    ],
    ids=repr,
)
def test_nonsense_is_refused_by_name(labelled, learner, message):
    with pytest.raises(ValueError, match=message):
        learner.fit(*labelled)


@pytest.mark.parametrize("k", [1, 4, 50])
@given(table=tables())
@examples(12)
def test_anmm_has_the_directions_of_the_largest_margins(k, table):
    X, y = table
    rows = X.astype(np.float64)
    distances = np.square(rows[:, None] - rows).sum(axis=2)
    if len(np.unique(distances)) <= len(y) * (len(y) - 1) / 2:  # of equally near rows any may count
        return
    left, right, similar = near_pairs(rows, y, k)
    V = rows[left] - rows[right]
    if not all(V[kind].any() for kind in (similar, ~similar)):
        with pytest.raises(ValueError, match="pairs of both kinds must have rows that differ"):
            ANMM(n_neighbors=k).fit(X, y)
        return
    _, lengths, Q = np.linalg.svd(V, full_matrices=False)
    Q = Q[lengths > 1e-7 * lengths[0]]
    margins, axes = np.linalg.eigh(Q @ average_margins(rows, y, k) @ Q.T)
    axes, positive = Q.T @ axes, margins > 1e-9 * np.abs(margins).max()
    positive[-1] = True
    learner = ANMM(n_neighbors=k).fit(X, y)
    L = learner.components_
    np.testing.assert_allclose(L @ L.T, np.eye(len(L)), atol=1e-9)
    np.testing.assert_allclose(L.T @ L, axes[:, positive] @ axes[:, positive].T, atol=1e-6)
    assert learner.objective_ == pytest.approx(-margins[positive].sum(), rel=1e-7)
    best = ANMM(1, n_neighbors=k).fit(X, y)
    assert best.objective_ == pytest.approx(-margins[-1], rel=1e-7)
