from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.batch.simba import Simba
from mahala.batch.triplets import hits_and_misses
from mahala.compiled.sums.weighting import simba_pass
from reference.weighting import hit_and_miss, margin, simba


@st.composite
def labelled_rows(draw, *, grid):
    """Labelled rows of which class 0 has two or more, others perhaps one; on a grid with ties and duplicates."""
    n, d, c = draw(st.integers(3, 25)), draw(st.integers(1, 40)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(0, 3, size=(n, d)).astype(float) if grid else rng.normal(size=(n, d))
    if draw(st.booleans()):
        X[:, 0] = 5.0
    return X, np.r_[0, 0, 1, rng.integers(0, c, size=n - 3)]


@given(labelled_rows(grid=True))
def test_nearest_hits_and_misses_are_the_first_of_the_nearest(data):
    X, y = data
    rows = np.flatnonzero(np.bincount(y)[y] > 1)
    hits, misses = hits_and_misses(X, y, rows)
    expected = [hit_and_miss(X, y, row, np.ones(X.shape[1])) for row in rows]
    np.testing.assert_array_equal(np.c_[hits, misses], expected)


@given(labelled_rows(grid=False), st.sampled_from([np.float64, np.float32]))
def test_a_pass_takes_the_steps_of_the_paper(data, dtype):
    X, y = data
    X = X.astype(dtype)
    order = np.random.default_rng(0).permutation(np.flatnonzero(np.bincount(y)[y] > 1))
    w = np.ones(X.shape[1])
    simba_pass(X, y, order[:5], w)
    np.testing.assert_allclose(w, simba(X.astype(float), y, order[:5], np.ones(X.shape[1])), rtol=1e-3, atol=1e-5)
    if dtype is np.float64:
        simba_pass(X, y, order[5:], w)
        np.testing.assert_allclose(w, simba(X, y, order, np.ones(X.shape[1])), rtol=1e-6, atol=1e-9)


@given(labelled_rows(grid=True), st.data())
def test_a_step_takes_the_first_of_the_nearest(data, choice):
    X, y = data
    row = choice.draw(st.sampled_from(np.flatnonzero(np.bincount(y)[y] > 1).tolist()))
    w = np.ones(X.shape[1])
    simba_pass(X, y, np.array([row]), w)
    np.testing.assert_allclose(w, simba(X, y, [row], np.ones(X.shape[1])), rtol=1e-12)


@given(st.booleans().flatmap(lambda grid: labelled_rows(grid=grid)), st.sampled_from([1e-44, 1.0, 1e44]))
def test_objective_is_the_margin_at_the_weights(data, scale):
    X, y = data
    learner = Simba(n_starts=2, max_iter=2, random_state=0).fit(X * scale, y)
    w = learner.feature_importances_
    assert w.min() >= 0.0
    assert w.max() == 1.0
    assert -learner.objective_ / scale == pytest.approx(margin(X, y, w), rel=1e-7, abs=1e-7 * len(X))
    assert (np.diff(learner.objectives_) <= 0.0).all()


def test_a_constant_feature_changes_nothing():
    """Also where all weights fall: those of labels that do not depend on the features."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 4
    expected = Simba(n_starts=2, random_state=0).fit(X, y)
    learner = Simba(n_starts=2, random_state=0).fit(np.insert(X, 0, 7.0, axis=1), y)
    np.testing.assert_allclose(learner.feature_importances_, [0.0, *expected.feature_importances_], rtol=1e-9)
    assert learner.objective_ == pytest.approx(expected.objective_)


def test_learns_in_the_units_of_variance_one_as_the_paper(labelled):
    X, y = labelled
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    learner = Simba(n_starts=1, max_iter=1, random_state=3).fit(X, y)
    rng = np.random.default_rng(learner._seed)
    w = simba(X, y, rng.permutation(len(X)), np.ones(5)) ** 2
    np.testing.assert_allclose(learner.feature_importances_, w / w.max(), rtol=1e-8)
    other = Simba(n_starts=1, max_iter=1, random_state=3).fit(1e20 * X, y)
    np.testing.assert_allclose(other.feature_importances_, learner.feature_importances_, rtol=1e-8)


def test_ascends_and_finds_the_features_that_matter(labelled):
    X, y = labelled
    learner = Simba(random_state=0).fit(X, y)
    w = learner.feature_importances_
    assert w[:3].min() > 2 * w[3:].max()
    # Per unit of the weights' root mean square, so that the margin does not gain by larger weights alone.
    start = margin(X, y, np.ones(5))
    assert -learner.objective_ / np.sqrt(w.mean()) > start


def test_stop_reasons(labelled):
    X, y = labelled
    assert Simba(max_iter=1).fit(X, y).stop_reason_ == "max_iter"
    assert Simba(max_iter=50, tol=0.5).fit(X, y).stop_reason_ == "converged"
    seen = []
    stopped = Simba(max_iter=50, tol=0.0, callback=lambda it: seen.append(it) or it.number == 2).fit(X, y)
    assert (stopped.stop_reason_, stopped.n_iter_, len(seen)) == ("callback", 2, 2)
    assert seen[-1].objective == stopped.objective_


def test_warm_start_goes_on(labelled):
    X, y = labelled
    learner = Simba(max_iter=1, tol=0.0, warm_start=True, random_state=0).fit(X, y)
    first, starts = learner.objective_, learner._model["starts"]
    learner.fit(X, y)
    assert learner.objectives_[0] <= first
    rng = np.random.default_rng(learner._seed)
    scaled = (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0).mean())
    for before, after in zip(starts, learner._model["starts"], strict=True):
        np.testing.assert_allclose(after, simba(scaled, y, rng.permutation(len(X)), before), rtol=1e-6, atol=1e-9)


def test_warm_start_keeps_the_best(labelled):
    X, y = labelled
    learner = Simba(n_starts=1, n_samples=3, max_iter=1, warm_start=True, random_state=0)
    objectives = [learner.fit(X, y).objective_ for _ in range(20)]
    assert (np.diff(objectives) <= 1e-9).all()  # although the passes go up and down


def test_rows_drawn_and_float32(labelled):
    X, y = labelled
    few = Simba(n_starts=1, n_samples=7, max_iter=1, random_state=0).fit(X, y)
    rng = np.random.default_rng(few._seed)
    scaled = (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0).mean())
    w = simba(scaled, y, rng.permutation(len(X))[:7], np.ones(5)) ** 2
    np.testing.assert_allclose(few.feature_importances_, w / w.max(), rtol=1e-8)
    single = Simba(n_starts=1, max_iter=1, random_state=0).fit(X.astype(np.float32), y)
    double = Simba(n_starts=1, max_iter=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(single.feature_importances_, double.feature_importances_, rtol=0.01)


def test_file_round_trip_goes_on(labelled, tmp_path):
    X, y = labelled
    learner = Simba(max_iter=2, n_starts=3, warm_start=True, random_state=0).fit(X, y)
    learner.save(tmp_path / "simba")
    loaded = Simba.load(tmp_path / "simba")
    np.testing.assert_array_equal(loaded.transform(X), learner.transform(X))
    np.testing.assert_array_equal(loaded.objectives_, learner.objectives_)
    assert loaded.fit(X, y).objective_ <= learner.objective_
    assert loaded._model["starts"].shape == (3, 5)


def test_refuses_nonsense(labelled):
    X, y = labelled
    for name in ("n_starts", "n_samples", "max_iter"):
        for bad in (0, 1.5, True):
            with pytest.raises(ValueError, match=name):
                Simba(**{name: bad}).fit(X, y)
    with pytest.raises(ValueError, match="at least one class needs two rows"):
        Simba().fit(X[:5], range(5))


def test_more_starts_than_memory_holds_are_refused():
    with pytest.raises(MemoryError, match="n_starts=10"):
        Simba(n_starts=10**30).fit(np.eye(4), [0, 0, 1, 1])
