"""LEGO against the paper's formulas and the problem that each of its steps solves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize

import mahala
from contract.learners import rewritten
from mahala import LEGO, Pairs
from mahala.compiled.pairs.rank_one import LARGEST_CONDITION, LEAST_SHARE, lego_step
from mahala.support.model_files import ModelFileError
from reference.lego_rdml import lego, lego_tau
from strategies import streams

# Further apart, as no metric can have them, steps magnify rounding errors.
TARGETS = st.sampled_from([(0.5, 2.0), (0.05, 5.0), (3.0, 4.0)])
ETA = st.sampled_from([1e-4, 0.1, 1.0, 30.0])
NUMBER = st.builds(lambda m, e: m * 10.0**e, st.floats(1.0, 10.0), st.integers(-12, 12))


def as_pairs(V, y):
    """Pairs with these differences."""
    X = np.vstack([V, np.zeros((1, V.shape[1]))])
    return Pairs(X, np.arange(len(V)), np.full(len(V), len(V)), y)


@given(distance=NUMBER, target=NUMBER, eta=NUMBER)
def test_a_step_is_as_long_as_the_paper_says(distance, target, eta):
    expected = lego_tau(distance, target, eta)
    # Where η y ŷ is nearly 1 and outweighs the rest, its rounding error does too.
    assume(abs(eta * target * distance - 1) > 1e-3 or eta * distance**2 > 1e-6)
    assert lego_step(distance, target, eta) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("distance", [1e-200, 1e-20, 1.0, 1e20, 1e150])
@pytest.mark.parametrize("target", [1e-120, 1.0, 1e120])
@pytest.mark.parametrize("eta", [1e-30, 1.0, 1e30])
def test_steps_of_any_size_are_right(distance, target, eta):
    step = lego_step(distance, target, eta)
    assert step == pytest.approx(lego_tau(distance, target, eta), rel=1e-11, abs=0.0)


@pytest.mark.parametrize("similar", [True, False])
@pytest.mark.parametrize("eta", [0.05, 1.0, 20.0])
def test_a_step_minimises_divergence_and_loss(similar, eta):
    rng = np.random.default_rng(0)
    learner = LEGO(eta=eta, similar_target=0.8, dissimilar_target=6.0)
    before = learner.fit(as_pairs(rng.normal(size=(20, 3)), rng.random(20) < 0.5)).metric_.matrix
    v = rng.normal(size=3)
    after = learner.partial_fit(as_pairs(v[None], [similar])).metric_.matrix
    target = 0.8 if similar else 6.0

    def objective(factor):
        L = np.zeros((3, 3))
        L[np.tril_indices(3)] = factor
        M = L @ L.T
        product = np.linalg.solve(before, M)
        divergence = np.trace(product) - np.linalg.slogdet(product)[1] - 3
        return divergence + eta / 2 * (v @ M @ v - target) ** 2

    best = minimize(objective, np.linalg.cholesky(before)[np.tril_indices(3)], method="BFGS", options={"gtol": 1e-9})
    assert objective(np.linalg.cholesky(after)[np.tril_indices(3)]) <= best.fun + 1e-12
    # The gradient is zero: M'⁻¹ = M⁻¹ + η(ȳ - y) v vᵀ.
    gradient = np.linalg.inv(before) - np.linalg.inv(after) + eta * (v @ after @ v - target) * np.outer(v, v)
    assert np.abs(gradient).max() < 1e-10 * np.abs(np.linalg.inv(before)).max()


@given(stream=streams(), eta=ETA, targets=TARGETS)
def test_a_stream_follows_the_paper(stream, eta, targets):
    V, y = stream
    learner = LEGO(eta, similar_target=targets[0], dissimilar_target=targets[1]).partial_fit(as_pairs(V, y))
    M, steps = lego(V, y, eta, targets, LEAST_SHARE, LARGEST_CONDITION)
    predicted, p, tau = map(np.array, zip(*steps, strict=True))
    history = learner.history_
    got = learner.metric_.matrix
    np.testing.assert_allclose(got, M, rtol=0, atol=1e-9 * np.abs(M).max())
    np.testing.assert_allclose(history.p, p, rtol=1e-8, atol=1e-8 * targets[0])
    np.testing.assert_allclose(history.tau, tau, rtol=1e-6, atol=1e-9 * max(1.0, np.abs(tau).max()))
    clear = np.abs(np.where(y > 0, targets[0], targets[1]) - np.mean(targets)) - p > 1e-8
    np.testing.assert_array_equal(history.predicted[clear], predicted[clear])
    assert np.linalg.eigvalsh(got)[0] > 0
    np.testing.assert_array_equal(learner.n_updates_, np.count_nonzero(history.tau))


@given(stream=streams(), eta=ETA, targets=TARGETS, cuts=st.lists(st.integers(0, 60), max_size=5))
def test_chunks_do_not_matter(stream, eta, targets, cuts):
    pairs = as_pairs(*stream)
    whole, parts, single = (LEGO(eta, similar_target=targets[0], dissimilar_target=targets[1]) for _ in range(3))
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


def test_the_condition_of_m_has_a_limit():
    rng = np.random.default_rng(4)
    V = rng.normal(size=(3000, 4)) * 10.0 ** rng.integers(-4, 5, size=(3000, 4))
    learner = LEGO(1e3, similar_target=1e-3, dissimilar_target=1e3)
    conditions = []
    for part in np.split(np.arange(3000), 100):
        M = learner.partial_fit(as_pairs(V[part], rng.random(30) < 0.5)).metric_.matrix
        conditions.append(np.trace(M) * np.trace(np.linalg.inv(M)) / 4)
        assert learner._model.inverse_trace == pytest.approx(np.trace(np.linalg.inv(M)), rel=1e-3)
        assert np.linalg.eigvalsh(M)[0] > 0
    assert 0.5 * LARGEST_CONDITION < max(conditions) < 1.001 * LARGEST_CONDITION


def test_no_direction_shrinks_beyond_the_limit():
    v = np.array([0.6, 0.8])
    M = (
        LEGO(1e30, similar_target=1e-12, dissimilar_target=1.0)
        .fit(as_pairs(np.tile(v, (20, 1)), np.ones(20, dtype=bool)))
        .metric_.matrix
    )
    # (1 + ε)(1 + 1/ε) / 2 is at the limit.
    np.testing.assert_allclose(np.linalg.eigvalsh(M), [0.5 / LARGEST_CONDITION, 1.0], rtol=1e-6)


def test_a_step_leaves_a_share_of_the_distance():
    v = np.array([3e6, 4e6, 0.0])
    learner = LEGO(1.0, similar_target=1.0, dissimilar_target=2.0).partial_fit(as_pairs(v[None], [True]))
    assert v @ learner.metric_.matrix @ v == pytest.approx(LEAST_SHARE * 25e12, rel=1e-10)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e-5, 1e5, 1e30, 1e44])
@pytest.mark.parametrize("targets", [("auto", "auto"), (0.5, 2.0), (1e-9, 1e9)])
@pytest.mark.parametrize("d", [1, 4, 33])
def test_any_scale_stays_definite_and_a_stream(scale, targets, d):
    rng = np.random.default_rng(1)
    pairs = as_pairs(scale * rng.normal(size=(150, d)), rng.random(150) < 0.5)
    whole = LEGO(1.0, similar_target=targets[0], dissimilar_target=targets[1]).fit(pairs)
    M = whole.metric_.matrix
    assert np.isfinite(M).all()
    assert whole.metric_.is_psd
    assert np.linalg.eigvalsh(M)[0] > 0
    np.testing.assert_array_equal(whole._model.M, whole._model.M.T)
    assert np.isfinite(whole.margins(pairs)).all()
    if targets == (1e-9, 1e9):
        return  # no metric has such distances: at the limit of the condition rounding decides where M ends
    single = LEGO(1.0, similar_target=whole.similar_target_, dissimilar_target=whole.dissimilar_target_)
    for i in range(len(pairs)):
        single.learn_one(pairs.X[i], pairs.X[-1], pairs.similar[i])
    np.testing.assert_allclose(single.metric_.matrix, M, rtol=0, atol=1e-10 * np.abs(M).max())


def test_it_finds_the_feature_that_counts_whatever_its_scale():
    rng = np.random.default_rng(2)
    V = rng.normal(size=(4000, 5)) * [0.1, 0.2, 1.0, 5.0, 10.0]
    similar = np.abs(V[:, 1]) < 0.2
    history = LEGO(0.01, similar_target=1.0, dissimilar_target=9.0).fit(as_pairs(V, similar)).history_
    right = history.predicted == history.y
    assert right[3000:].mean() > 0.85 > right[:300].mean() + 0.1
    assert history.p[3000:].mean() < 0.3 * history.p[:100].mean()


def test_targets_are_percentiles_of_the_first_pairs(labelled):
    X, y = labelled
    pairs = Pairs.from_labels(X, y, 300, random_state=0)
    distances = np.sum((X[pairs.left] - X[pairs.right]) ** 2, axis=1)
    learner = LEGO().fit(pairs)
    expected = np.percentile(distances, [5, 95])
    np.testing.assert_allclose([learner.similar_target_, learner.dissimilar_target_], expected, rtol=1e-12)
    assert learner.threshold_ == pytest.approx(expected.mean())
    learned = learner.metric_.distance(X[pairs.left], X[pairs.right], squared=True)
    np.testing.assert_array_equal(learner.predict_comparisons(pairs), np.where(learned <= expected.mean(), 1, -1))
    given = LEGO(similar_target=learner.similar_target_, dissimilar_target=learner.dissimilar_target_).fit(pairs)
    np.testing.assert_array_equal(given.metric_.matrix, learner.metric_.matrix)
    # A stream keeps those of its first chunk.
    stream = LEGO().partial_fit(pairs[:50]).partial_fit(pairs[50:])
    np.testing.assert_allclose(stream.similar_target_, np.percentile(distances[:50], 5), rtol=1e-12)
    assert stream.fit(pairs).similar_target_ == learner.similar_target_


def test_auto_targets_of_sparse_rows(labelled):
    X, y = labelled
    dense, sparse = (LEGO(random_state=0).fit(rows, y) for rows in (X, sp.csr_array(X)))
    assert sparse.similar_target_ == pytest.approx(dense.similar_target_, rel=1e-14)


def test_a_stream_may_start_with_one_pair(labelled):
    X, _ = labelled
    distance = np.sum((X[0] - X[1]) ** 2)
    learner = LEGO()
    learner.learn_one(X[0], X[1], True)
    assert (learner.similar_target_, learner.dissimilar_target_) == pytest.approx((0.5 * distance, 1.5 * distance))
    for one in ({"similar_target": 1.0}, {"dissimilar_target": 1.0}):
        learner = LEGO(**one)
        learner.learn_one(X[0], X[1], True)
        assert 0.0 < learner.similar_target_ < learner.dissimilar_target_
        assert learner.learn_one(X[2], X[3], False) in (True, False)
        assert learner.n_steps_ == 2


@pytest.mark.parametrize(
    ("X", "params", "expected"),
    [
        (np.zeros((6, 3)), {}, (0.5, 1.5)),  # all coincide
        (np.eye(6), {}, (1.0, 3.0)),  # all are equally far apart
        (np.vstack([np.zeros((5, 3)), np.ones((1, 3))]), {}, (1.5, 4.5)),  # all that do not coincide
        (np.eye(6), {"similar_target": 5.0}, (5.0, 15.0)),
        (np.eye(6), {"similar_target": 0.3}, (0.3, 3.0)),
        (np.eye(6), {"dissimilar_target": 0.6}, (0.2, 0.6)),
        (np.eye(6), {"dissimilar_target": 7.0}, (1.0, 7.0)),
    ],
)
def test_targets_are_positive_and_apart_whatever_the_data(X, params, expected):
    left, right = np.triu_indices(6, k=1)
    learner = LEGO(**params).fit(Pairs(X, left, right, left % 2 == 0))
    assert (learner.similar_target_, learner.dissimilar_target_) == pytest.approx(expected)
    assert np.isfinite(learner.metric_.matrix).all()


def test_coinciding_points_leave_m_as_it_is():
    pairs = Pairs(np.ones((2, 3)), [0, 0], [1, 0], [True, False])
    learner = LEGO(1.0, similar_target=1.0, dissimilar_target=2.0).fit(pairs)
    np.testing.assert_array_equal(learner.metric_.matrix, np.eye(3))
    np.testing.assert_array_equal(learner.history_.p, [1.0, 2.0])
    assert learner.n_updates_ == 0
    assert (learner.loss_, learner.squared_loss_) == (3.0, 5.0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"eta": 0.0}, "eta must be"),
        ({"eta": np.inf}, "eta must be"),
        ({"eta": "auto"}, "eta must be"),
        ({"similar_target": -1.0}, "similar_target must be 'auto'"),
        ({"dissimilar_target": np.nan}, "dissimilar_target must be 'auto'"),
        ({"dissimilar_target": "far"}, "dissimilar_target must be 'auto'"),
        ({"similar_target": 2.0, "dissimilar_target": 2.0}, "similar_target must be below dissimilar_target"),
        ({"n_steps": 0}, "n_steps must be"),
        ({"n_pairs": 0}, "n_pairs must be"),
        ({"balance": 2.0}, "balance must be"),
    ],
)
def test_bad_parameters(labelled, params, message):
    with pytest.raises(ValueError, match=message):
        LEGO(**params).fit(*labelled)


def test_what_a_stream_cannot_change(labelled):
    learner = LEGO(random_state=0).partial_fit(*labelled)
    slower = learner.set_params(eta=1e-12).partial_fit(*labelled)
    assert np.abs(slower.history_.tau[240:]).max() < 1e-9
    with pytest.raises(ValueError, match="similar_target cannot change"):
        learner.set_params(similar_target=1.0).partial_fit(*labelled)


@pytest.mark.parametrize("target", [0.0, 1e9])
def test_hostile_files(tmp_path, labelled, target):
    path = tmp_path / "model.safetensors"
    LEGO(random_state=0).fit(*labelled).save(path)
    with pytest.raises(ModelFileError, match="model"):
        mahala.load(rewritten(path, {"similar_target": target}))
