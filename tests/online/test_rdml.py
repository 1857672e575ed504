"""RDML against the paper's algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mahala
from contract.learners import rewritten
from mahala import Pairs
from mahala.compiled.pairs.rank_one import BORDER, FLOOR, LARGEST_CONDITION, MOST_CORRECTIONS, SHARE
from mahala.online import RDML
from mahala.online.rdml import RDMLState
from mahala.support import limits
from mahala.support.model_files import ModelFileError
from reference.lego_rdml import rdml
from strategies import streams

LAM = st.sampled_from([1e-3, 0.1, 0.7, 20.0])


def as_pairs(V, y):
    """Pairs with these differences."""
    X = np.vstack([V, np.zeros((1, V.shape[1]))])
    return Pairs(X, np.arange(len(V)), np.full(len(V), len(V)), y)


def inverse_error(learner):
    return np.abs(learner._model.M @ learner._model.R - np.eye(len(learner._model.M))).max()


@given(stream=streams(), eta=LAM)
def test_a_stream_follows_the_paper(stream, eta):
    V, y = stream
    learner = RDML(eta).partial_fit(as_pairs(V, y))
    M, steps = rdml(V, y, eta, SHARE, FLOOR, BORDER, LARGEST_CONDITION)
    predicted, p, tau = map(np.array, zip(*steps, strict=True))
    got, history = learner.metric_.matrix, learner.history_
    np.testing.assert_allclose(got, M, rtol=0, atol=1e-9 * np.abs(M).max())
    np.testing.assert_allclose(history.p, p, rtol=1e-7, atol=1e-8 * max(1.0, np.abs(p).max()))
    np.testing.assert_allclose(history.tau, tau, rtol=1e-6, atol=1e-9)
    clear = np.abs(p) > 1e-8
    np.testing.assert_array_equal(history.predicted[clear], predicted[clear])
    assert np.linalg.eigvalsh(got)[0] > 0


@given(stream=streams(), eta=LAM, cuts=st.lists(st.integers(0, 60), max_size=5))
def test_chunks_do_not_matter(stream, eta, cuts):
    pairs = as_pairs(*stream)
    whole, parts, single = (RDML(eta) for _ in range(3))
    whole.fit(pairs)
    for part in np.split(np.arange(len(pairs)), sorted(cuts)):
        if len(part):
            parts.partial_fit(pairs[part])
    for i in range(len(pairs)):
        single.learn_one(pairs.X[i], pairs.X[-1], pairs.similar[i])
    M = whole.metric_.matrix
    for other in (parts, single):
        np.testing.assert_array_equal(other._model.M, other._model.M.T)
        np.testing.assert_allclose(other.metric_.matrix, M, rtol=0, atol=1e-10 * np.abs(M).max())
        np.testing.assert_allclose(other.history_.tau, whole.history_.tau, rtol=1e-6, atol=1e-9)


def test_without_the_limits_it_is_the_papers_rule():
    """λ_t = min(λ, 1 / vᵀM⁻¹v), where that is so far from singular that ours is the same."""
    rng = np.random.default_rng(0)
    V = rng.normal(size=(400, 6)) / 3
    y = np.where(np.abs(V[:, 0]) < 0.3, 1, -1).astype(np.int8)
    M = np.eye(6)
    for v, label in zip(V, y, strict=True):
        if label * (1 - v @ M @ v) <= 0:
            lam = 0.05 if label < 0 else min(0.05, 1 / (v @ np.linalg.inv(M) @ v))
            M = M - lam * label * np.outer(v, v)
    learner = RDML(0.05).fit(as_pairs(V, y))
    assert 0 < learner.n_updates_ < 400
    np.testing.assert_allclose(learner.metric_.matrix, M, rtol=0, atol=1e-13)
    assert learner.loss_ == pytest.approx(np.maximum(learner.history_.p, 0).sum())


def test_a_step_takes_half_of_what_is_above_the_floor():
    v = np.array([3.0, 4.0])
    learner = RDML(eta=1.0).partial_fit(as_pairs(v[None], [True]))
    # From I along v: eigenvalue 1, floor 1e-3.
    expected = 1 - 0.5 * (1 - 1e-3)
    np.testing.assert_allclose(np.linalg.eigvalsh(learner.metric_.matrix), [expected, 1.0], rtol=1e-14)
    for _ in range(200):
        learner.learn_one(v, 0 * v, True)
    values = np.linalg.eigvalsh(learner.metric_.matrix)
    assert values[0] * 25 <= 1.0 or values[0] == pytest.approx(1e-3 * values.mean(), rel=1e-6)
    learner.learn_one(100 * v, 0 * v, True)  # far beyond the border, with nothing left to take but down to the floor
    assert np.linalg.eigvalsh(learner.metric_.matrix)[0] >= 0.9e-3 * values.mean()


def test_rounding_does_not_decide_at_the_border(monkeypatch):
    """Rows of few values: distances come back to 1 up to rounding, where a step is a whole λ."""
    monkeypatch.setattr(limits, "FEW_STEPS_WORK", 0)
    rng = np.random.default_rng(0)
    directions = np.kron(np.eye(4), [[0.6, 0.8], [0.8, -0.6]])
    V = directions[rng.integers(0, 8, size=3000)]
    pairs = as_pairs(V, rng.random(3000) < 0.5)
    whole, single = RDML(0.1).fit(pairs), RDML(0.1)
    for v, similar in zip(V, pairs.similar, strict=True):
        single.learn_one(v, 0 * v, similar)
    p = whole.history_.p
    assert np.count_nonzero((p < 0) & (p > -1e-12)) > 20  # rightly by rounding alone
    np.testing.assert_allclose(single.metric_.matrix, whole.metric_.matrix, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("d", [3, 33])
def test_no_drift_over_a_long_stream(monkeypatch, scale, d):
    invert, made = RDMLState._invert, []
    monkeypatch.setattr(RDMLState, "_invert", lambda self: made.append(1) or invert(self))
    rng = np.random.default_rng(1)
    V = scale * rng.normal(size=(15_000, d))
    y = np.where(np.square(V[:, 0]) + 0.3 * np.square(V).mean(axis=1) < scale**2, 1, -1).astype(np.int8)
    learner = RDML(0.1).fit(as_pairs(V, y))
    assert learner.n_updates_ > 100
    assert inverse_error(learner) < 1e-9
    assert np.linalg.eigvalsh(learner.metric_.matrix)[0] > 0
    for matrix in (learner._model.M, learner._model.R):
        np.testing.assert_array_equal(matrix, matrix.T)
    assert len(made) >= learner.n_updates_ // (MOST_CORRECTIONS + 64)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("d", "scale"), [(2, 10.0), (3, 2.0), (5, 1.0)])
def test_the_inverse_stays_accurate_where_m_grows_and_shrinks(d, scale, seed):
    rng = np.random.default_rng(seed)
    V = scale * rng.normal(size=(1500, d))
    y = np.where(np.square(V[:, 0]) + 0.3 * np.square(V).mean(axis=1) < scale**2, 1, -1).astype(np.int8)
    M, _ = rdml(V, y, 0.1, SHARE, FLOOR, BORDER)
    got = RDML(0.1).fit(as_pairs(V, y)).metric_.matrix
    np.testing.assert_allclose(got, M, rtol=0, atol=1e-10 * np.abs(M).max())


@pytest.mark.parametrize("eta", [1e-9, 0.1, 1e9, 1e100])
@pytest.mark.parametrize("scales", [[1e-150], [1e-30], [1e-5, 1.0, 1e5], [1e5], [1e30], [1e-20, 1e20], [1e44]])
def test_any_scale_stays_definite(eta, scales):
    rng = np.random.default_rng(3)
    V = rng.choice(scales, size=(400, 1)) * rng.normal(size=(400, 5))
    pairs = as_pairs(V, rng.random(400) < 0.5)
    learner = RDML(eta).fit(pairs)
    assert np.isfinite(learner.metric_.matrix).all()
    assert learner.metric_.is_psd
    values = np.linalg.eigvalsh(learner.metric_.matrix)
    assert values[0] > 0
    assert values.sum() * (1 / values).sum() < 1.001 * 5 * LARGEST_CONDITION
    assert np.isfinite(learner.margins(pairs)).all()


def test_coinciding_points_leave_m_as_it_is():
    learner = RDML().fit(Pairs(np.ones((2, 3)), [0, 0], [1, 0], [True, False]))
    np.testing.assert_array_equal(learner.metric_.matrix, np.eye(3))
    np.testing.assert_array_equal(learner.history_.p, [-1.0, 1.0])
    assert (learner.n_updates_, learner.n_mistakes_, learner.threshold_) == (0, 1, 1.0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"eta": 0.0}, "eta must be"),
        ({"eta": -1.0}, "eta must be"),
        ({"eta": np.nan}, "eta must be"),
        ({"eta": "auto"}, "eta must be"),
        ({"eta": True}, "eta must be"),
        ({"n_steps": 1.5}, "n_steps must be"),
        ({"n_pairs": -1}, "n_pairs must be"),
        ({"balance": "half"}, "balance must be"),
    ],
)
def test_bad_parameters(labelled, params, message):
    with pytest.raises(ValueError, match=message):
        RDML(**params).fit(*labelled)


@pytest.mark.parametrize("M", [np.diag([1.0, 1.0, 1.0, 1.0, -1e-3]), np.eye(5) + 0.1 * np.eye(5, k=1)])
def test_hostile_files(tmp_path, labelled, M):
    path = tmp_path / "model.safetensors"
    RDML(random_state=0).fit(*labelled).save(path)
    with pytest.raises(ModelFileError, match="model"):
        mahala.load(rewritten(path, arrays={"model.M": M}))


def test_a_file_with_a_matrix_that_rounding_left_indefinite_is_made_definite_again(tmp_path, labelled):
    X, y = labelled
    path = tmp_path / "model.safetensors"
    RDML(random_state=0).fit(X, y).save(path)
    arrays = {"model.M": np.diag([1.0, 1.0, 1.0, 1.0, -1e-12]), "model.R": np.eye(5)}
    learner = mahala.load(rewritten(path, {"n_corrections": 10**6}, arrays))
    learner.partial_fit(X, y)
    assert learner.metric_.is_psd
    assert np.linalg.eigvalsh(learner.metric_.matrix)[0] > 0
