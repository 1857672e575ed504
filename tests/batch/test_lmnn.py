"""LMNN against its definition, a lower bound of it, and other minimisers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_iris, load_wine

from mahala import MahalanobisMetric, Pairs, Triplets
from mahala.batch.lmnn import LMNN, SMOOTHINGS
from mahala.batch.triplets import target_neighbors
from reference import lmnn as reference
from strategies import labelled_rows

MUS = st.sampled_from([0.1, 0.5, 0.9])


def exact(learner, X, codes, k=3, mu=0.5):
    """The objective by its definition at what has been learned."""
    X = X.astype(float)
    pairs = reference.targets(X, codes, k)
    return reference.objective(learner.metric_.transform(X), pairs, reference.triplets(pairs, codes), mu)


@given(
    case=labelled_rows(max_n=20),
    dtype=st.sampled_from([np.float32, np.float64]),
    n_components=st.sampled_from([None, 1]),
    scale=st.sampled_from([1e-43, 1.0, 1e43]),
)
def test_whatever_the_rows_the_objective_is_that_of_the_metric(case, dtype, n_components, scale):
    X, codes = case
    X = X.astype(dtype) if dtype is np.float32 else X * (scale / max(np.abs(X).max(), 1e-3))
    learner = LMNN(n_components=n_components, max_iter=15, random_state=0)
    if np.bincount(codes).max() == 1:
        with pytest.raises(ValueError, match="every row is alone in its class"):
            learner.fit(X, codes)
    elif (X[0] == X).all():
        with pytest.raises(ValueError, match="X must have rows that differ"):
            learner.fit(X, codes)
    else:
        learner.fit(X, codes)
        assert np.isfinite(learner.metric_.matrix).all()
        tolerance = 1e-4 if dtype is np.float32 else 1e-6
        assert learner.objective_ == pytest.approx(exact(learner, X, codes), rel=tolerance, abs=1e-6)


def load_grid(return_X_y=True):
    """Which way a balance tips: integer weights and arms, so distances tie, and many triplets end on a kink."""
    X = np.indices((4, 4, 4, 4)).reshape(4, -1).T + 1.0
    X = np.random.default_rng(0).permutation(X)
    return X, np.sign(X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]).astype(int) + 1


@pytest.mark.parametrize(("load", "gap"), [(load_iris, 1e-4), (load_wine, 1e-4), (load_grid, 5e-4)])
def test_no_metric_is_much_lower(load, gap):
    """By a lower bound from the dual; wine has features of scales from 0.1 to 1000."""
    X, y = (values[::2] for values in load(return_X_y=True))
    learner = LMNN(tol=0.0, max_iter=3000).fit(X, y)
    pairs = target_neighbors(X, y, 3)[0].T
    triplets = reference.triplets(pairs, y)
    bound = reference.lower_bound(learner.metric_.matrix, X, pairs, triplets, 0.5, SMOOTHINGS[-1])
    assert bound <= learner.objective_ <= bound * (1.0 + gap)
    # The default tolerance is near.
    assert LMNN().fit(X, y).objective_ <= learner.objective_ * (1.0 + 3e-4)


def test_no_other_minimiser_goes_lower(labelled):
    X, y = labelled
    X, y = X[:40, :2], y[:40]
    learner = LMNN(tol=1e-12, max_iter=2000).fit(X, y)
    pairs = reference.targets(X, y, 3)
    triplets = reference.triplets(pairs, y)

    def objective(vector):
        Z = X @ np.array([[vector[0], 0.0], [vector[1], vector[2]]]).T
        near, far = (np.sum((Z[triplets[:, 0]] - Z[triplets[:, c]]) ** 2, axis=1) for c in (1, 2))
        return 0.5 * sum(reference.squared(Z, *pair) for pair in pairs) + 0.5 * np.maximum(0, 1 + near - far).sum()

    found = min(minimize(objective, start, method="Nelder-Mead").fun for start in np.eye(3) + 0.3)
    assert learner.objective_ == pytest.approx(found, rel=2e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_units_of_features_do_not_matter_but_to_the_targets(labelled, dtype):
    X, y = labelled
    scales = 10.0 ** np.array([-6, -3, 0, 3, 6])
    triplets = Triplets.from_labels(X, y, 2000, random_state=0)
    plain = LMNN(tol=1e-9, max_iter=2000).fit(triplets)
    scaled = LMNN(tol=1e-9, max_iter=2000).fit(triplets.over((X * scales).astype(dtype)))
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-4)


def test_small_classes():
    """A row alone in its class has no target, and is an impostor; of a small class the targets are all others."""
    X = np.array([[0.0], [1.0], [3.0], [1.5], [9.0], [9.5]])
    codes = np.array([0, 0, 0, 1, 2, 2])
    learner = LMNN().fit(X, codes)
    assert learner.objective_ == pytest.approx(exact(learner, X, codes))
    away = LMNN().fit(np.delete(X, 3, axis=0), np.delete(codes, 3))
    assert away.objective_ < learner.objective_ - 1.0
    with pytest.raises(ValueError, match="every row is alone in its class"):
        LMNN().fit(X[:3], ["a", "b", "c"])


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 50)), np.repeat([0, 1], 10)
    learner = LMNN().fit(X, y)
    assert len(learner.components_) < 20
    assert learner.objective_ == pytest.approx(exact(learner, X, y), abs=1e-8)


def test_triplets_and_labelled_rows_are_one_problem(labelled):
    X, y = labelled
    learner = LMNN(tol=1e-9).fit(X, y)
    pairs = reference.targets(X, y, 3)
    triplets = Triplets(X, *reference.triplets(pairs, y).T)
    again = LMNN(tol=1e-9).fit(triplets)
    assert again.objective_ == pytest.approx(learner.objective_, rel=1e-5)
    assert again.score(triplets) > 0.9
    as_array = np.stack([X[triplets.anchor], X[triplets.positive], X[triplets.negative]], axis=1)[::50]
    assert LMNN().fit(as_array).metric_.matrix.shape == (5, 5)
    with pytest.raises(TypeError, match="LMNN learns from triplets or labelled rows, got Pairs"):
        LMNN().fit(Pairs.from_labels(X, y, 50))


def test_starts(labelled):
    X, y = (values[:60] for values in labelled)
    best = LMNN(init="identity", tol=1e-9).fit(X, y).objective_
    for init in ("identity", "pca", "lda", "random"):
        if init != "identity":
            assert LMNN(init=init, tol=1e-9, random_state=0).fit(X, y).objective_ == pytest.approx(best, rel=1e-3)
        few = LMNN(init=init, n_components=2, random_state=0).fit(X, y)
        assert few.components_.shape == (2, 5)
        assert best <= few.objective_ < 1.8 * best


def test_a_metric_is_a_start(labelled):
    X, y = labelled
    first = LMNN(tol=1e-9).fit(X, y)
    again = LMNN(init=first.metric_).fit(X, y)
    assert again.n_iter_ <= 5
    assert again.objective_ == pytest.approx(first.objective_, rel=1e-5)


def test_stop_reasons(labelled):
    X, y = (values[:45] for values in labelled)
    assert LMNN(max_iter=2).fit(X, y).stop_reason_ == "max_iter"
    assert LMNN().fit(X, y).stop_reason_ == "converged"
    assert LMNN(tol=0.0).fit(X, y).stop_reason_ in ("converged", "precision")
    seen = []

    def watch(iteration):
        seen.append(iteration)
        return iteration.number == 3

    learner = LMNN(callback=watch).fit(X, y)
    assert (learner.stop_reason_, learner.n_iter_, len(seen)) == ("callback", 3, 3)
    assert [iteration.objective for iteration in seen] == learner.objectives_.tolist()
    pairs = reference.targets(X, y, 3)
    triplets = reference.triplets(pairs, y)
    for iteration in seen:
        Z = iteration.metric.transform(X)
        assert iteration.objective == pytest.approx(reference.objective(Z, pairs, triplets, 0.5))


def test_a_warm_start_goes_on(labelled):
    X, y = labelled
    learner = LMNN(max_iter=8, warm_start=True).fit(X, y)
    first = learner.objective_
    assert learner.fit(X, y).objectives_[0] < first
    learner.set_params(max_iter=500).fit(X, y)
    converged = learner.objective_
    assert learner.fit(X, y).n_iter_ <= 5
    assert learner.objective_ <= converged * (1 + 1e-6)
    # Rows of more dimensions than those before: the new directions are learned too.
    flat = LMNN(warm_start=True).fit(X * [1, 1, 0, 0, 0], y)
    assert flat.components_.shape == (2, 5)
    assert flat.fit(X, y).objective_ == pytest.approx(converged, rel=1e-3)


def test_float32_and_sparse_rows(labelled):
    X, y = labelled
    learner = LMNN().fit(X, y)
    assert LMNN().fit(X.astype(np.float32), y).objective_ == pytest.approx(learner.objective_, rel=1e-4)
    assert LMNN().fit(sp.csr_array(X), y).objective_ == pytest.approx(learner.objective_, rel=1e-9)


def test_the_metric_helps_neighbours():
    X, y = load_wine(return_X_y=True)
    learner = LMNN().fit(X[::2], y[::2])
    plain = LMNN(init=MahalanobisMetric.euclidean(13), max_iter=1).fit(X[::2], y[::2])
    assert learner.score(X[1::2], y[1::2]) > 0.9 > 0.8 > plain.score(X[1::2], y[1::2])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be an integer of at least 1"),
        ({"mu": 1.0}, "mu must be a number between 0 and 1"),
        ({"mu": "half"}, "mu must be a number between 0 and 1"),
        ({"init": "zero"}, "init must be 'auto', .* or a"),
        ({"n_components": 6}, "n_components must be at most 5"),
        ({"tol": -1.0}, "tol must be a number of at least 0"),
    ],
)
def test_nonsense_is_refused(labelled, params, message):
    with pytest.raises(ValueError, match=message):
        LMNN(**params).fit(*labelled)


def test_a_file_brings_it_back(labelled, tmp_path):
    X, y = labelled
    learner = LMNN(max_iter=5, warm_start=True).fit(X, y)
    learner.save(tmp_path / "model")
    loaded = LMNN.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.components_, learner.components_)
    assert loaded.fit(X, y).objective_ == learner.fit(X, y).objective_
