"""RCA against its definition, its criterion, and covariances that have no inverse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigh
from scipy.optimize import minimize

from mahala import RCA, Pairs
from reference.rca import connected, criterion, within_covariance


@pytest.fixture
def chunked(labelled):
    """Rows in so many chunklets that their means differ in every direction."""
    X, y = labelled
    return X, 5 * y + np.arange(len(y)) % 5


def total_covariance(X):
    return np.cov(X.T, bias=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_metric_is_the_inverse_of_the_covariance_within(labelled, dtype):
    X, y = labelled
    X = X.astype(dtype)
    learner = RCA().fit(X, y)
    X = X.astype(np.float64)
    C, T = within_covariance(X, y), total_covariance(X)
    np.testing.assert_allclose(learner.metric_.matrix, np.linalg.inv(C), rtol=1e-10, atol=1e-10)
    assert learner.objective_ == pytest.approx(criterion(learner.components_, C, T), rel=1e-10)
    assert learner.transform(X.astype(dtype)).dtype == dtype
    assert (learner.n_iter_, learner.stop_reason_) == (1, "converged")


@pytest.mark.parametrize("m", [1, 2, 4, 5])
def test_components_are_those_of_the_generalised_eigenproblem(chunked, m):
    X, y = chunked
    learner = RCA(n_components=m).fit(X, y)
    C, T = within_covariance(X, y), total_covariance(X)
    values, vectors = eigh(T, C)  # vectorsᵀ C vectors = I
    leading = vectors[:, ::-1][:, :m]
    np.testing.assert_allclose(learner.metric_.matrix, leading @ leading.T, rtol=1e-9, atol=1e-9)
    assert learner.objective_ == pytest.approx(m - np.log(values[::-1][:m]).sum(), rel=1e-10)
    L = learner.components_
    assert L.shape == (m, 5)
    np.testing.assert_allclose(L @ C @ L.T, np.eye(m), atol=1e-9)


@pytest.mark.parametrize("m", [2, 5])
def test_no_map_has_a_lower_criterion(chunked, m):
    X, y = chunked
    learner = RCA(n_components=m).fit(X, y)
    C, T = within_covariance(X, y), total_covariance(X)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        start = learner.components_ + size * rng.normal(size=(m, 5))
        assert criterion(start, C, T) > learner.objective_
        found = minimize(lambda z: criterion(z.reshape(m, 5), C, T), start.ravel(), options={"gtol": 1e-7})
        assert found.fun == pytest.approx(learner.objective_, abs=1e-6)
        assert found.fun > learner.objective_ - 1e-9


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(4, 30), n_pairs=st.integers(1, 25))
def test_pairs_connect_rows_to_chunklets(seed, n, n_pairs):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    left, right = rng.integers(0, n, size=(2, n_pairs))
    similar = rng.random(n_pairs) < 0.7
    pairs = Pairs(X, left, right, similar)
    groups = connected(n, left[similar], right[similar])
    if len(np.unique(groups)) == n:
        with pytest.raises(ValueError, match="similar pairs connect"):
            RCA().fit(pairs)
        return
    learner = RCA(regularization=1e-9).fit(pairs)
    C = within_covariance(X, groups)
    L = learner.components_
    # In the directions that the chunklets have, C becomes I; where C is nearly singular, its floor does.
    scatter = np.linalg.eigvalsh(L @ C @ L.T)
    rank = np.linalg.matrix_rank(C)
    np.testing.assert_allclose(scatter[3 - rank :], 1.0, atol=1e-4)
    np.testing.assert_allclose(scatter[: 3 - rank], 0.0, atol=1e-4)
    if rank == 3 and np.linalg.cond(C) < 1e6:
        inverse = np.linalg.inv(C)
        np.testing.assert_allclose(learner.metric_.matrix, inverse, rtol=0, atol=1e-8 * np.abs(inverse).max())


def test_units_of_features_do_not_matter(chunked):
    X, y = chunked
    units = 10.0 ** np.array([-40, 40, 0, 3, -9])
    expected = RCA(n_components=3).fit(X, y)
    learner = RCA(n_components=3).fit(X * units, y)
    np.testing.assert_allclose(
        learner.metric_.matrix * np.outer(units, units), expected.metric_.matrix, rtol=1e-9, atol=1e-9
    )
    assert learner.objective_ == pytest.approx(expected.objective_, rel=1e-10)


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1.0, 1e30, 1e34])
def test_rows_far_from_the_origin_keep_their_digits(labelled, scale):
    X, y = labelled
    X = np.round(X * 2**20) / 2**20  # so that the shift rounds nothing
    expected = RCA().fit(X, y)
    learner = RCA().fit((X + 2.0**30) * scale, y)
    np.testing.assert_allclose(learner.metric_.matrix * scale**2, expected.metric_.matrix, rtol=1e-4, atol=1e-5)


def test_singular_covariances_are_inverted_where_they_can_be(labelled):
    X, y = labelled
    wide = np.hstack([X, X[:, :2] + X[:, 2:4], np.full((len(X), 1), 0.1), np.zeros((len(X), 1))])
    C = within_covariance(wide, y)
    plain = np.linalg.pinv(C, hermitian=True)
    assert np.linalg.matrix_rank(C) == 5
    learner = RCA().fit(wide, y)
    np.testing.assert_allclose(learner.metric_.matrix[-2:], 0.0)
    # On the rows, which lie in the range of C, the distances are those of the pseudo-inverse.
    V = wide[:-1] - wide[1:]
    expected = np.einsum("ij,jk,ik->i", V, plain, V)
    np.testing.assert_allclose(learner.metric_.distance(wide[:-1], wide[1:], squared=True), expected, rtol=1e-7)
    assert learner.metric_.n_components == 5


def test_fewer_rows_than_features_where_the_plain_inverse_fails():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 6)
    X = rng.normal(size=(18, 40)) + 3.0 * np.eye(40)[y]
    values = np.linalg.eigvalsh(within_covariance(X, y))
    with np.errstate(invalid="ignore"):
        assert not (1 / np.sqrt(values) < 1e6).all()  # what a plain inverse root would multiply rows by
    learner = RCA().fit(X, y)
    assert learner.metric_.n_components == 17  # the directions in which 18 rows differ
    assert np.isfinite(learner.objective_)
    assert learner.score(X, y) == 1.0
    stiff, loose = (RCA(regularization=share).fit(X, y).metric_.spectrum for share in (1e-1, 1e-3))
    assert stiff[0] < 100 * stiff[16]
    assert loose[0] > 10 * stiff[0]


def test_eigenvalues_are_raised_to_the_floor():
    # Two uncorrelated features of variance 1; within chunklets the second varies a hundredth as much.
    X = np.array([[1, 1 + 0.1], [-1, 1 - 0.1], [1, -1 - 0.1], [-1, -1 + 0.1]]) / np.sqrt([1.0, 1.01])
    pairs = Pairs(X, [0, 2], [1, 3], [True, True])
    np.testing.assert_allclose(RCA(regularization=1e-6).fit(pairs).metric_.matrix, np.linalg.inv(
        within_covariance(X, np.array([0, 0, 1, 1]))), rtol=1e-9, atol=1e-9)  # fmt: skip
    raised = RCA(regularization=0.25).fit(pairs).metric_.matrix
    C = within_covariance(X, np.array([0, 0, 1, 1]))
    values, vectors = np.linalg.eigh(C)
    expected = (vectors / np.maximum(values, 0.25 * values[-1])) @ vectors.T
    np.testing.assert_allclose(raised, expected, rtol=1e-9, atol=1e-9)


def test_chunklets_of_equal_rows_give_a_metric():
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 3)), 2, axis=0) + 0.1
    learner = RCA().fit(X, np.repeat(np.arange(5), 2))
    assert np.isfinite(learner.metric_.matrix).all()
    assert learner.metric_.n_components == 3
    assert learner.score(X, np.repeat([0, 1], 5)) >= 0.0


@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(2, 20), d=st.integers(1, 8),
    scale=st.sampled_from([1e-40, 1e-9, 1.0, 1e30]), dtype=st.sampled_from([np.float64, np.float32]),
)  # fmt: skip
def test_no_data_breaks_it(seed, n, d, scale, dtype):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(n, d)) @ rng.integers(-1, 2, size=(d, d)).astype(float)
    X = ((X + rng.integers(0, 1000)) * scale).astype(dtype if 1e-30 < scale < 1e20 else np.float64)
    y = rng.integers(0, max(2, n // 2), size=n)
    y[:2] = 0
    y[-1] = y[:-1].max() + 1
    if n == 2 or len(np.unique(X, axis=0)) == 1:
        with pytest.raises(ValueError, match=r"one kind|rows that differ"):
            RCA().fit(X, y)
        return
    learner = RCA().fit(X, y)
    assert np.isfinite(learner.metric_.matrix).all()
    assert np.isfinite(learner.objective_)
    assert learner.metric_.n_components <= np.linalg.matrix_rank(X.astype(float) / scale - X[0].astype(float) / scale)
    for m in range(1, d + 1):
        assert RCA(n_components=m).fit(X, y).metric_.n_components <= m


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 6}, "n_components"),
        ({"n_components": 1.5}, "n_components"),
        ({"regularization": -1e-3}, "regularization"),
        ({"regularization": 2.0}, "regularization"),
        ({"regularization": "auto"}, "regularization"),
    ],
)
def test_nonsense_is_refused_by_name(labelled, params, name):
    with pytest.raises(ValueError, match=name):
        RCA(**params).fit(*labelled)


def test_rows_each_of_their_own_class_teach_nothing(labelled):
    X, _ = labelled
    with pytest.raises(ValueError, match="one class"):
        RCA().fit(X[:10], np.arange(10))


def test_a_file_holds_it(labelled, tmp_path):
    learner = RCA(n_components=2).fit(*labelled)
    learner.save(tmp_path / "rca.safetensors")
    loaded = RCA.load(tmp_path / "rca.safetensors")
    np.testing.assert_array_equal(loaded.metric_.matrix, learner.metric_.matrix)
    assert (loaded.objective_, loaded.get_params()) == (learner.objective_, learner.get_params())
