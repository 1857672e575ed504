"""ITML against its sweeps in plain NumPy, the problem that it solves, and input that is out to break it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from mahala import ITML, BilinearMetric, MahalanobisMetric, Pairs
from mahala.compiled.rank_one import LARGEST_CONDITION, LEAST_SHARE
from mahala.support.model_files import ModelFileError, read_model, write_model
from reference.itml import divergence, itml, objective
from strategies import streams

TARGETS = st.sampled_from([(0.5, 2.0), (0.05, 5.0), (3.0, 4.0)])
GAMMA = st.sampled_from([1e-3, 0.1, 1.0, 30.0])


def as_pairs(V, y, dtype=np.float64):
    """Pairs with these differences."""
    X = np.vstack([V, np.zeros((1, V.shape[1]))]).astype(dtype)
    return Pairs(X, np.arange(len(V)), np.full(len(V), len(V)), y)


def slack_targets(learner, pairs):
    """ξ and ξ₀ of each pair, as the duals have them."""
    xi0 = np.where(pairs.similar, learner.similar_target_, learner.dissimilar_target_)
    return 1 / (1 / xi0 - pairs.y * learner._model["duals"] / learner.gamma), xi0


def drawn(labelled, n=40, seed=0):
    X, y = labelled
    return Pairs.from_labels(X, y, n, balance=0.5, random_state=seed)


@given(
    stream=streams(max_n=60), targets=TARGETS, gamma=GAMMA, n_sweeps=st.integers(1, 4),
    dtype=st.sampled_from([np.float64, np.float32]), exponent=st.sampled_from([-7, 0, 9]),
)  # fmt: skip
def test_sweeps_follow_the_plain_algorithm(stream, targets, gamma, n_sweeps, dtype, exponent):
    V, y = stream
    V = (V * 2.0**exponent).astype(dtype).astype(np.float64)
    targets = tuple(value * 4.0**exponent for value in targets)
    low, high = targets
    learner = ITML(gamma, similar_target=low, dissimilar_target=high, max_iter=n_sweeps, tol=0.0)
    learner.fit(as_pairs(V, y, dtype))
    expected = itml(V, y > 0, targets, gamma, learner.n_iter_, np.eye(V.shape[1]), LEAST_SHARE, LARGEST_CONDITION)
    M, lam, xi = expected
    # Constraints that contradict each other magnify rounding errors, and the oracle inverts M.
    rtol = 1e-9 * max(1.0, np.linalg.cond(M) * 1e-4)
    np.testing.assert_allclose(learner.metric_.matrix, M, rtol=0, atol=rtol * np.abs(M).max())
    np.testing.assert_allclose(learner._model["duals"], lam, rtol=0, atol=rtol * max(lam.max(), 1e-300))
    xi0 = np.where(y > 0, *targets)
    value = objective(learner.metric_.matrix, np.eye(len(M)), xi, xi0, gamma)
    assert learner.objective_ == pytest.approx(value, rel=max(rtol, 1e-8), abs=1e-8)


@given(
    stream=streams(max_n=60, max_d=6), gamma=GAMMA | st.just(1e6),
    scale=st.sampled_from([1e-43, 1e-20, 1.0, 1e30, 1e42]),
    low=st.sampled_from([1e-30, 1e-4, 0.5]), high=st.sampled_from([0.6, 1e3, 1e30]),
)  # fmt: skip
def test_the_metric_stays_definite_whatever_is_asked_for(stream, gamma, scale, low, high):
    V, y = stream
    V[: len(V) // 3] = V[0]  # the same pair, now similar, now dissimilar
    learner = ITML(gamma, similar_target=low * scale**2, dissimilar_target=high * scale**2, max_iter=30).fit(
        as_pairs(V * scale, y)
    )
    values = np.linalg.eigvalsh(learner.metric_.matrix)
    assert values[0] > 0
    assert values.sum() * (1 / values).sum() <= 1.01 * LARGEST_CONDITION * len(values)
    assert np.isfinite(learner.objectives_).all()


def test_nothing_drifts_over_many_sweeps(labelled):
    pairs = drawn(labelled, 300)
    learner = ITML(max_iter=3000, tol=0.0).fit(pairs)
    assert learner.n_iter_ == 3000
    V = pairs.differences()
    inverse = np.eye(5) + (V.T * (pairs.y * learner._model["duals"])) @ V  # the one that the duals make
    np.testing.assert_allclose(inverse @ learner.metric_.matrix, np.eye(5), rtol=0, atol=1e-10)


def test_precision_is_the_reason_where_the_condition_holds_it_back():
    V = np.eye(3)[[0, 0, 1]]
    learner = ITML(similar_target=1e-30, dissimilar_target=1e30).fit(as_pairs(V, np.array([1, 1, -1])))
    assert learner.stop_reason_ == "precision"
    kinder = ITML(similar_target=1e-2, dissimilar_target=1e1).fit(as_pairs(V, np.array([1, 1, -1])))
    assert kinder.stop_reason_ == "converged"


@pytest.mark.parametrize("gamma", [0.3, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_converges_to_what_another_solver_finds(gamma, seed):
    rng = np.random.default_rng(seed)
    d, r = 3, 7
    V, similar = rng.normal(size=(r, d)), np.arange(r) % 2 == 0
    xi0 = np.where(similar, 0.7, 6.0)
    prior = np.diag([0.5, 1.0, 2.0]) + 0.2
    pairs = as_pairs(V, similar)
    learner = ITML(
        gamma, similar_target=0.7, dissimilar_target=6.0, prior=MahalanobisMetric(prior), max_iter=100_000, tol=1e-12
    ).fit(pairs)
    rows, columns = np.tril_indices(d)

    def split(z):
        L = np.zeros((d, d))
        L[rows, columns] = z[: len(rows)]
        return L @ L.T, np.exp(z[len(rows) :])

    def value(z):
        M, xi = split(z)
        return objective(M, prior, xi, xi0, gamma)

    def room(z):
        M, xi = split(z)
        return np.where(similar, 1.0, -1.0) * (xi - np.einsum("ij,jk,ik->i", V, M, V))

    start = np.concatenate([np.linalg.cholesky(prior)[rows, columns], np.log(xi0)])
    best = minimize(value, start, constraints={"type": "ineq", "fun": room}, method="SLSQP",
                    options={"maxiter": 2000, "ftol": 1e-13})  # fmt: skip
    assert room(best.x).min() > -1e-6
    assert learner.stop_reason_ == "converged"
    assert learner.objective_ == pytest.approx(best.fun, rel=1e-6)
    np.testing.assert_allclose(learner.metric_.matrix, split(best.x)[0], rtol=0, atol=1e-4 * prior.max())
    # The constraints hold, with equality where a dual is not zero.
    xi, _ = slack_targets(learner, pairs)
    slack = pairs.y * (xi - np.einsum("ij,jk,ik->i", V, learner.metric_.matrix, V))
    duals = learner._model["duals"]
    assert slack.min() > -1e-7
    np.testing.assert_allclose(duals * slack, 0.0, atol=1e-7)
    assert (duals >= 0).all()
    assert duals.max() > 0


def test_any_prior_is_the_identity_in_other_coordinates(labelled):
    pairs = drawn(labelled, 200)
    A = np.random.default_rng(1).normal(size=(5, 5)) + 3 * np.eye(5)
    mapped = pairs.over(pairs.X @ A.T)
    plain = ITML(max_iter=30, tol=0.0).fit(mapped)
    learner = ITML(prior=MahalanobisMetric(A.T @ A), max_iter=30, tol=0.0).fit(pairs)
    np.testing.assert_allclose(learner.metric_.matrix, A.T @ plain.metric_.matrix @ A, rtol=1e-9, atol=1e-9)
    assert learner.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    assert learner.similar_target_ == pytest.approx(plain.similar_target_, rel=1e-12)
    np.testing.assert_allclose(
        learner.objective_,
        objective(learner.metric_.matrix, A.T @ A, *slack_targets(learner, pairs), learner.gamma),
        rtol=1e-9,
    )


def test_the_covariance_is_a_prior(labelled):
    X, y = labelled
    prior = MahalanobisMetric(np.linalg.inv(np.cov(X.T, bias=True)))
    expected = ITML(prior=prior, random_state=0).fit(X, y)
    learner = ITML(prior="covariance", random_state=0).fit(X, y)
    np.testing.assert_allclose(learner.metric_.matrix, expected.metric_.matrix, rtol=1e-8, atol=1e-8)
    # Units of features do not matter then, constant and repeated features do not break it.
    units = 10.0 ** np.array([-40, 3, 0, 25, -2])
    scaled = ITML(prior="covariance", random_state=0).fit(X * units, y)
    np.testing.assert_allclose(
        scaled.metric_.matrix * np.outer(units, units), learner.metric_.matrix, rtol=1e-6, atol=1e-6
    )
    singular = ITML(prior="covariance", random_state=0).fit(np.hstack([X, X[:, :2], np.full((len(X), 1), 0.1)]), y)
    assert singular.metric_.n_components == 5
    assert singular.objective_ == pytest.approx(learner.objective_, rel=1e-6)


def test_a_singular_prior_keeps_its_null_space(labelled):
    pairs = drawn(labelled, 100)
    learner = ITML(prior=MahalanobisMetric(np.diag([1.0, 2.0, 0.0, 0.0, 0.0]))).fit(pairs)
    assert learner.metric_.n_components == 2
    np.testing.assert_array_equal(learner.metric_.matrix[2:], 0.0)
    assert divergence(learner.metric_.matrix[:2, :2], np.diag([1.0, 2.0])) > 0.1


def test_labels_draw_pairs_and_targets_are_percentiles(labelled):
    X, y = labelled
    learner = ITML(random_state=3, n_pairs=150).fit(X, y)
    assert learner._model["duals"].shape == (150,)
    np.testing.assert_array_equal(ITML(random_state=3, n_pairs=150).fit(X, y).metric_.matrix, learner.metric_.matrix)
    pairs = drawn(labelled, 150)
    distances = np.square(pairs.differences()).sum(axis=1)
    learner.fit(pairs)
    found = learner.similar_target_, learner.dissimilar_target_
    np.testing.assert_allclose(found, np.percentile(distances, [5, 95]), rtol=1e-12)
    assert learner.score(pairs) > 0.75
    mask = ITML(similar_target=1.0).fit(pairs)
    assert mask.similar_target_ == 1.0
    assert mask.dissimilar_target_ == found[1]


def test_arrays_of_pairs_are_pairs(labelled):
    pairs = drawn(labelled)
    array = np.stack([pairs.X[pairs.left], pairs.X[pairs.right]], axis=1)
    np.testing.assert_array_equal(ITML().fit(array, pairs.y).metric_.matrix, ITML().fit(pairs).metric_.matrix)


def test_float32_rows_are_the_same_rows(labelled):
    X, y = labelled
    X = X.astype(np.float32)
    single, double = (ITML(random_state=0, max_iter=50).fit(rows, y) for rows in (X, X.astype(np.float64)))
    np.testing.assert_array_equal(single.metric_.matrix, double.metric_.matrix)
    assert single.transform(X).dtype == np.float32


def test_stop_reasons_and_callbacks(labelled):
    X, y = labelled
    assert ITML(max_iter=3, tol=0.0, random_state=0).fit(X, y).stop_reason_ == "max_iter"
    assert ITML(max_iter=10_000, tol=1e-2, random_state=0).fit(X, y).stop_reason_ == "converged"
    seen = []
    learner = ITML(callback=lambda it: seen.append(it.metric.matrix) or it.number == 4, random_state=0).fit(X, y)
    assert (learner.stop_reason_, learner.n_iter_, len(seen)) == ("callback", 4, 4)
    np.testing.assert_array_equal(seen[-1], learner.metric_.matrix)
    assert np.abs(seen[0] - seen[1]).max() > 1e-6  # what was seen before is not written to


def test_ctrl_c_leaves_the_last_sweep(labelled):
    X, y = labelled

    def interrupt(iteration):
        if iteration.number == 3:
            raise KeyboardInterrupt

    learner = ITML(callback=interrupt, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(X, y)
    assert (learner.stop_reason_, learner.n_iter_) == ("interrupted", 3)
    np.testing.assert_array_equal(
        learner.metric_.matrix, ITML(max_iter=3, tol=0.0, random_state=0).fit(X, y).metric_.matrix
    )


@pytest.mark.parametrize("prior", ["identity", "covariance"])
@pytest.mark.parametrize("source", ["pairs", "labels"])
def test_a_warm_start_goes_on_with_the_duals(labelled, source, prior):
    data = (drawn(labelled, 200),) if source == "pairs" else labelled
    whole = ITML(prior=prior, max_iter=40, tol=0.0, random_state=0).fit(*data)
    parts = ITML(prior=prior, max_iter=25, tol=0.0, random_state=0, warm_start=True).fit(*data)
    parts.set_params(max_iter=15).fit(*data)
    np.testing.assert_allclose(parts.objectives_, whole.objectives_[25:], rtol=1e-9)
    np.testing.assert_allclose(parts.metric_.matrix, whole.metric_.matrix, rtol=1e-8, atol=1e-10)


def test_a_warm_start_on_other_pairs_takes_the_metric_as_prior(labelled):
    first, second = drawn(labelled, 60), drawn(labelled, 60, seed=1)
    for other in (second, second[:30]):
        learner = ITML(warm_start=True).fit(first)
        before = learner.metric_
        learner.fit(other)
        fresh = ITML(prior=before).fit(other)
        np.testing.assert_allclose(learner.metric_.matrix, fresh.metric_.matrix, rtol=1e-9, atol=1e-12)
        assert learner.objective_ == pytest.approx(fresh.objective_, rel=1e-9)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[0.0, 1.0], [1.0, 1.0]], [0, 1]),
        ([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]], [0, 0, 1]),
        ([[2.0, 3.0]] * 4, [0, 0, 1, 1]),
        (np.eye(4), [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("prior", ["identity", "covariance"])
def test_little_data_gives_a_metric(X, y, prior):
    learner = ITML(prior=prior).fit(X, y)
    assert np.isfinite(learner.metric_.matrix).all()
    assert np.isfinite(learner.objective_)


def test_equal_rows_are_left_out(labelled):
    pairs = drawn(labelled)
    order = np.random.default_rng(0).permutation(50)
    left, right = (np.concatenate([rows, np.arange(10)])[order] for rows in (pairs.left, pairs.right))
    similar = np.concatenate([pairs.similar, np.arange(10) % 2 == 0])[order]
    more = Pairs(pairs.X, left, right, similar)
    without = more[left != right]
    np.testing.assert_allclose(ITML().fit(more).metric_.matrix, ITML().fit(without).metric_.matrix, rtol=1e-12)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": np.inf}, "gamma"),
        ({"similar_target": -1.0}, "similar_target"),
        ({"similar_target": 3.0, "dissimilar_target": 2.0}, "similar_target"),
        ({"dissimilar_target": "far"}, "dissimilar_target"),
        ({"similar_target": 1e-200, "dissimilar_target": 1.0}, "similar_target"),
        ({"n_pairs": 0}, "n_pairs"),
        ({"n_pairs": 10**9}, "n_pairs"),
        ({"prior": "random"}, "prior"),
        ({"prior": MahalanobisMetric(np.eye(4))}, "prior"),
        ({"prior": MahalanobisMetric(np.zeros((5, 5)))}, "prior"),
        ({"prior": MahalanobisMetric(-np.eye(5))}, "prior"),
        ({"prior": BilinearMetric(np.eye(5))}, "prior"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
    ],
)
def test_nonsense_is_refused_by_name(labelled, params, name):
    with pytest.raises(ValueError, match=name):
        ITML(**params).fit(*labelled)


def test_a_file_holds_what_a_warm_start_needs(labelled, tmp_path):
    X, y = labelled
    path = tmp_path / "itml.safetensors"
    prior = MahalanobisMetric(2 * np.eye(5))
    learner = ITML(prior=prior, max_iter=10, tol=0.0, warm_start=True, random_state=0).fit(X, y)
    learner.save(path)
    loaded = ITML.load(path)
    assert (loaded.similar_target_, loaded.dissimilar_target_) == (learner.similar_target_, learner.dissimilar_target_)
    np.testing.assert_array_equal(loaded.fit(X, y).metric_.matrix, learner.fit(X, y).metric_.matrix)
    header, arrays = read_model(path, "learner")
    write_model(path, "learner", {**arrays, "model.targets": np.array([2.0, 1.0])}, header)
    with pytest.raises(ModelFileError, match="targets"):
        ITML.load(path)
