from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mahala
from mahala import Pairs
from mahala.batch.mdm import MDM
from mahala.compiled.sums import weighting
from mahala.compiled.sums.weighting import extreme_pairs
from reference.weighting import largest_within, mdm, pairs_of


@st.composite
def labelled_rows(draw):
    """Rows, perhaps on a grid with equal rows in different classes, constant features, or of rank one."""
    n, d, c = draw(st.integers(3, 25)), draw(st.integers(1, 6)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["normal", "grid", "rank one"]))
    X = rng.normal(size=(n, d))
    if kind == "grid":
        X = rng.integers(0, 3, size=(n, d)).astype(float)
    elif kind == "rank one":
        X = X[:, :1] @ rng.normal(size=(1, d))
    X[2] = X[:2].max(axis=0) + 1.0  # the first three rows differ
    if d > 1 and draw(st.booleans()):
        X[:, 0] = 5.0
    return X, np.r_[0, 0, 1, rng.integers(0, c, size=n - 3)]


@given(labelled_rows(), st.sampled_from([1e-44, 1.0, 1e44]))
def test_solves_the_whole_linear_program(data, scale):
    X, y = data
    learner = MDM(tol=1e-6).fit(X * scale, y)
    i, j, similar = pairs_of(y)
    V = (X[i] - X[j]) / np.ptp(X)
    equal = ~V.any(axis=1)
    dropped = equal & ~similar
    assert learner.n_dropped_ == dropped.sum()
    assert learner.stop_reason_ == "converged"
    w = learner.feature_importances_ * scale**2
    assert w.min() >= 0.0
    largest, smallest = largest_within(X, y, w)
    assert smallest == pytest.approx(1.0, rel=1e-9)
    assert learner.objective_ == pytest.approx(largest, rel=1e-9)
    if (V[~similar & ~equal] ** 2).max(axis=1).min() > 1e-5:  # the plain program is well scaled
        assert learner.objective_ == pytest.approx(mdm(V[~dropped], similar[~dropped]), rel=1e-4, abs=1e-4)
    assert (np.diff(learner.objectives_) <= 0.0).all()


@given(labelled_rows(), st.sampled_from([np.float64, np.float32]), st.integers(0, 2**32 - 1))
def test_extreme_pairs_over_blocks(data, dtype, seed):
    X, y = data
    X = X.astype(dtype)
    n, d = X.shape
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 4.0], size=d)
    block = weighting.BLOCK_BYTES
    weighting.BLOCK_BYTES = 8 * 7**2 * 2  # blocks of 9 rows or fewer
    try:
        far, far_rows, near, near_rows, n_close = extreme_pairs(X, y, weights, 1e-12)
    finally:
        weighting.BLOCK_BYTES = block
    squares = (X[:, None, :].astype(float) - X[None]) ** 2
    distances, close = squares @ weights, squares.sum(axis=2) <= 1e-12
    later = np.triu(np.ones((n, n), dtype=bool), 1)
    same = y[:, None] == y
    np.testing.assert_allclose(far, np.where(later & same, distances, -1.0).max(axis=1), rtol=1e-9, atol=1e-12)
    apart = later & ~same & ~close
    np.testing.assert_allclose(near, np.where(apart, distances, np.inf).min(axis=1), rtol=1e-9, atol=1e-12)
    assert n_close == (later & ~same & close).sum()
    for row in np.flatnonzero(far >= 0.0):
        assert distances[row, far_rows[row]] == pytest.approx(far[row], rel=1e-9, abs=1e-12)
    for row in np.flatnonzero(near < np.inf):
        assert distances[row, near_rows[row]] == pytest.approx(near[row], rel=1e-9, abs=1e-12)


@given(labelled_rows(), st.integers(0, 2**32 - 1))
def test_learns_from_pairs(data, seed):
    X, y = data
    i, j, similar = pairs_of(y)
    some = np.random.default_rng(seed).random(len(i)) < 0.5
    some[[0, 1]] = True  # one similar pair, and one dissimilar pair of different rows
    i, j, similar = i[some], j[some], similar[some]
    learner = MDM(tol=1e-6).fit(Pairs(X, i, j, similar))
    V = X[i] - X[j]
    dropped = ~V.any(axis=1) & ~similar
    assert learner.n_dropped_ == dropped.sum()
    distances = V**2 @ learner.feature_importances_
    assert distances[~similar & ~dropped].min() == pytest.approx(1.0, rel=1e-9)
    assert learner.objective_ == pytest.approx(distances[similar].max(), rel=1e-9)
    V = V / np.ptp(X)
    if (V[~similar & ~dropped] ** 2).max(axis=1).min() > 1e-5:  # the plain program is well scaled
        assert learner.objective_ == pytest.approx(mdm(V[~dropped], similar[~dropped]), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("new_pairs", [1, 5, 64])
def test_a_few_pairs_at_a_time_solve_the_whole_linear_program(new_pairs, monkeypatch):
    monkeypatch.setattr(mahala.batch.mdm, "NEW_PAIRS", new_pairs)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(50, 8)), rng.integers(0, 3, size=50)
        i, j, similar = pairs_of(y)
        learner = MDM(tol=1e-7).fit(X, y)
        assert learner.stop_reason_ == "converged"
        assert learner.objective_ == pytest.approx(mdm(X[i] - X[j], similar), rel=1e-6)


def test_all_pairs_given_are_the_same_as_labels(labelled):
    X, y = labelled
    assert MDM().fit(Pairs(X, *pairs_of(y))).objective_ == pytest.approx(MDM().fit(X, y).objective_, rel=1e-4)


def test_the_units_of_the_features_do_not_matter(labelled):
    X, y = labelled
    units = np.array([1e-3, 1.0, 7.0, 1e5, 30.0])
    assert MDM().fit(X * units, y).objective_ == pytest.approx(MDM().fit(X, y).objective_, rel=1e-4)


def test_rows_of_different_classes_that_nearly_coincide(labelled):
    X, y = labelled
    for gap in (1e-3, 1e-5, 1e-6, 1e-12):
        near = X.copy()
        near[1] = near[0] + gap
        learner = MDM().fit(near, np.r_[0, 1, y[2:]])
        assert learner.n_dropped_ == (gap < 2e-6)
        assert learner.stop_reason_ == "converged"
        assert np.isfinite(learner.get_mahalanobis_matrix()).all()
        largest, smallest = largest_within(near[1:], np.r_[1, y[2:]], learner.feature_importances_)
        assert smallest > 1.0 - 1e-6
        assert largest <= learner.objective_ * (1 + 1e-6)


def test_an_outlier_does_not_spoil_the_linear_program(labelled):
    X, y = labelled
    X = np.vstack([X[y == 1], X[y == 2], 1e5 * X[:1]])
    y = np.repeat([1, 2, 3], [(y == 1).sum(), (y == 2).sum(), 1])
    learner = MDM().fit(X, y)
    # No similar pair holds the outlier, so the optimum is that of the other rows.
    assert learner.stop_reason_ == "converged"
    assert learner.objective_ == pytest.approx(MDM().fit(X[:-1], y[:-1]).objective_, rel=1e-4)


def test_stop_reasons_and_warm_start(labelled):
    X, y = labelled
    learner = MDM().fit(X, y)
    assert learner.stop_reason_ == "converged"
    assert learner.n_iter_ > 2
    short = MDM(max_iter=2, warm_start=True).fit(X, y)
    assert short.stop_reason_ == "max_iter"
    assert short.objective_ > learner.objective_
    first = short.objective_
    short.set_params(max_iter=100).fit(X, y)
    assert short.objectives_[0] == pytest.approx(first)
    assert short.objective_ == pytest.approx(learner.objective_, rel=1e-4)
    # On other rows, which its weights cannot set apart, it starts anew.
    narrow = MDM(warm_start=True).fit(np.c_[y, X[:, 1]], y)
    assert narrow.fit(np.c_[0 * y, X[:, 1]], y).feature_importances_[1] > 0.0
    assert MDM(callback=lambda it: it.number == 2).fit(X, y).stop_reason_ == "callback"


def test_float32(labelled):
    X, y = labelled
    single = MDM().fit(X.astype(np.float32), y)
    assert single.objective_ == pytest.approx(MDM().fit(X, y).objective_, rel=1e-3)
    assert single.transform(X.astype(np.float32)).dtype == np.float32


def test_file_round_trip(labelled, tmp_path):
    X, y = labelled
    learner = MDM().fit(np.vstack([X, X[:1]]), np.r_[y, (y[0] + 1) % 3])
    learner.save(tmp_path / "mdm")
    loaded = MDM.load(tmp_path / "mdm")
    assert loaded.n_dropped_ == learner.n_dropped_ == 1
    np.testing.assert_array_equal(loaded.transform(X), learner.transform(X))


def test_refuses_what_holds_nothing_to_learn(labelled):
    X, _ = labelled
    with pytest.raises(ValueError, match="at least one class needs two rows"):
        MDM().fit(X[:5], range(5))
    with pytest.raises(ValueError, match="no two dissimilar rows of X differ"):
        MDM().fit(np.ones((4, 2)), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="similar and dissimilar"):
        MDM().fit(Pairs(X, [0, 1], [2, 3], [True, True]))
