"""ITML against the paper's projections in plain NumPy, other solvers, and input that is out to break it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from mahala import ITML, BilinearMetric, MahalanobisMetric, Pairs
from mahala.batch.logdet import SHORTEST
from mahala.support.model_files import ModelFileError, read_model, write_model
from reference.itml import best_slack, divergence, itml, objective
from strategies import streams

TARGETS = st.sampled_from([(0.5, 2.0), (0.05, 5.0), (3.0, 4.0)])
GAMMA = st.sampled_from([1e-3, 0.1, 1.0, 30.0])


def as_pairs(V, y, dtype=np.float64):
    """Pairs with these differences."""
    X = np.vstack([V, np.zeros((1, V.shape[1]))]).astype(dtype)
    return Pairs(X, np.arange(len(V)), np.full(len(V), len(V)), y)


def drawn(labelled, n=40, seed=0):
    X, y = labelled
    return Pairs.from_labels(X, y, n, balance=0.5, random_state=seed)


@pytest.mark.filterwarnings("ignore:ITML learned nothing")
@settings(deadline=None)
@given(
    stream=streams(max_n=30, max_d=4), targets=TARGETS, gamma=GAMMA,
    dtype=st.sampled_from([np.float64, np.float32]), exponent=st.sampled_from([-7, 0, 9]),
)  # fmt: skip
def test_it_ends_where_the_projections_of_the_paper_end(stream, targets, gamma, dtype, exponent):
    V, y = stream
    V = (V * 2.0**exponent).astype(dtype).astype(np.float64)
    low, high = targets = tuple(value * 4.0**exponent for value in targets)
    learner = ITML(gamma, similar_target=low, dissimilar_target=high, tol=1e-9).fit(as_pairs(V, y, dtype))
    prior, xi0 = np.eye(V.shape[1]), np.where(y > 0, *targets)
    M, _, xi = itml(V, y > 0, targets, gamma, 60, prior)
    # Whatever the projections have come to, their duals are a lower bound, and their M an upper one.
    rounding = 1e-7 * (1.0 + abs(learner.objective_))
    assert learner.objective_ >= np.linalg.slogdet(np.linalg.inv(M))[1] - gamma * np.log(xi / xi0).sum() - rounding
    assert learner.objective_ <= objective(M, prior, best_slack(V, M, y > 0, xi0), xi0, gamma) + rounding
    matrix = learner.metric_.matrix
    value = objective(matrix, prior, best_slack(V, matrix, y > 0, xi0), xi0, gamma)
    assert learner.objective_ == pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.filterwarnings("ignore:ITML learned nothing")
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
    assert values[0] > 0.9 * SHORTEST**2 * values[-1] > 0
    assert np.isfinite(learner.objectives_).all()
    assert (np.diff(learner.objectives_) <= 1e-9 * np.abs(learner.objectives_[:-1])).all()


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
    learner = ITML(gamma, similar_target=0.7, dissimilar_target=6.0, prior=MahalanobisMetric(prior), tol=1e-10).fit(
        pairs
    )
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


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
def test_it_converges_within_the_tolerance(labelled, gamma):
    pairs = drawn(labelled, 200)
    exact = ITML(gamma, tol=1e-10).fit(pairs)
    assert exact.stop_reason_ == "converged"
    for tol in (1e-1, 1e-3, 1e-5):
        learner = ITML(gamma, tol=tol).fit(pairs)
        assert learner.stop_reason_ == "converged"
        assert exact.objective_ <= learner.objective_ * (1 + 1e-9)
        assert learner.objective_ - exact.objective_ <= tol * learner.objective_
    assert ITML(gamma, tol=1e-1).fit(pairs).n_iter_ < exact.n_iter_


def test_any_prior_is_the_identity_in_other_coordinates(labelled):
    pairs = drawn(labelled, 200)
    A = np.random.default_rng(1).normal(size=(5, 5)) + 3 * np.eye(5)
    mapped = pairs.over(pairs.X @ A.T)
    plain = ITML(tol=1e-12).fit(mapped)
    learner = ITML(prior=MahalanobisMetric(A.T @ A), tol=1e-12).fit(pairs)
    np.testing.assert_allclose(learner.metric_.matrix, A.T @ plain.metric_.matrix @ A, rtol=1e-5, atol=1e-5)
    assert learner.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    assert learner.similar_target_ == pytest.approx(plain.similar_target_, rel=1e-12)
    xi0 = np.where(pairs.similar, learner.similar_target_, learner.dissimilar_target_)
    xi = best_slack(pairs.differences(), learner.metric_.matrix, pairs.similar, xi0)
    assert learner.objective_ == pytest.approx(objective(learner.metric_.matrix, A.T @ A, xi, xi0, 1.0), rel=1e-9)


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


@pytest.mark.parametrize("n_rows", [1, 2])
@pytest.mark.parametrize("n_features", [1, 3])
def test_rows_that_are_all_equal_leave_the_prior(n_rows, n_features):
    pairs = Pairs(np.ones((n_rows, n_features)), [0, 0], [n_rows - 1, 0], [1, -1])
    with pytest.warns(ConvergenceWarning, match="all rows are equal"):
        learner = ITML(similar_target=1.0, dissimilar_target=2.0).fit(pairs)
    np.testing.assert_allclose(learner.metric_.matrix, np.eye(n_features), atol=1e-9)


@pytest.mark.parametrize("prior", [False, True])
def test_fewer_rows_than_features(prior):
    """Outside the span of the rows M is M₀, and within it what the same rows have in coordinates of the span."""
    rng = np.random.default_rng(4)
    X, left, right = rng.normal(size=(8, 12)), *rng.integers(0, 8, size=(2, 40))
    y = np.where(rng.random(40) < 0.5, 1, -1)
    A = rng.normal(size=(12, 12)) if prior else np.eye(12)
    targets = {"similar_target": 1.0, "dissimilar_target": 20.0, "tol": 1e-12}
    few = Pairs(X, left, right, y)
    learner = ITML(prior=MahalanobisMetric(A.T @ A) if prior else "identity", **targets).fit(few)
    padded = Pairs(np.vstack([X, np.zeros((20, 12))]), left, right, y)  # as many rows as features
    same = ITML(prior=MahalanobisMetric(A.T @ A) if prior else "identity", **targets).fit(padded)
    np.testing.assert_allclose(
        learner.metric_.matrix, same.metric_.matrix, atol=1e-4 * np.abs(same.metric_.matrix).max()
    )
    assert learner.objective_ == pytest.approx(same.objective_, rel=1e-9)
    outside = np.linalg.svd((X - X.mean(axis=0)) @ A.T)[2][7:] @ A  # v with vᵀM₀(x - mean) = 0 for all rows, times M₀
    directions = np.linalg.solve(A.T @ A, outside.T)
    np.testing.assert_allclose(learner.metric_.matrix @ directions, outside.T, atol=1e-8)
    again = ITML(prior=learner.prior, warm_start=True, **targets)
    again.fit(few)
    n_iter = again.n_iter_
    assert again.fit(few).n_iter_ < n_iter / 2


def test_a_singular_prior_keeps_its_null_space(labelled):
    pairs = drawn(labelled, 100)
    learner = ITML(prior=MahalanobisMetric(np.diag([1.0, 2.0, 0.0, 0.0, 0.0]))).fit(pairs)
    assert learner.metric_.n_components == 2
    np.testing.assert_array_equal(learner.metric_.matrix[2:], 0.0)
    assert divergence(learner.metric_.matrix[:2, :2], np.diag([1.0, 2.0])) > 0.1


def test_labels_draw_pairs_and_targets_are_percentiles(labelled):
    X, y = labelled
    learner = ITML(random_state=3, n_pairs=150).fit(X, y)
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
    one, other = (ITML(tol=1e-11).fit(*given).metric_.matrix for given in ((array, pairs.y), (pairs,)))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)  # they do not share rows, so the path is another one


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


def test_ctrl_c_leaves_the_last_iteration(labelled):
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


@pytest.mark.parametrize("prior", ["identity", "covariance", MahalanobisMetric(np.diag([1.0, 2.0, 0.0, 0.0, 3.0]))])
def test_a_warm_start_resumes_from_the_metric(labelled, prior):
    first, second = drawn(labelled, 60), drawn(labelled, 60, seed=1)
    learner = ITML(prior=prior, warm_start=True).fit(first)
    objective = learner.objective_
    learner.fit(first)
    assert learner.n_iter_ <= 2
    assert learner.objective_ == pytest.approx(objective, rel=1e-4)
    fresh = ITML(prior=prior, tol=1e-10).fit(second)
    np.testing.assert_allclose(
        learner.set_params(tol=1e-10).fit(second).metric_.matrix, fresh.metric_.matrix, rtol=1e-3, atol=1e-3
    )


@pytest.mark.filterwarnings("ignore:ITML learned nothing")
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
    header, arrays = read_model(path, "learner")
    write_model(path, "learner", {**arrays, "model.duals": np.zeros(7)}, header)  # as files of earlier versions
    loaded = ITML.load(path)
    assert (loaded.similar_target_, loaded.dissimilar_target_) == (learner.similar_target_, learner.dissimilar_target_)
    np.testing.assert_array_equal(loaded.fit(X, y).metric_.matrix, learner.fit(X, y).metric_.matrix)
    write_model(path, "learner", {**arrays, "model.targets": np.array([-1.0, 1.0])}, header)
    with pytest.raises(ModelFileError, match="targets"):
        ITML.load(path)
