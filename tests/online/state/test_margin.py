"""The compiled streams against the papers' pseudo-code."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mahala.compiled.pairs import cholesky
from mahala.compiled.pairs.psd import RTOL
from mahala.online.state.margin import MarginRule, MarginState, PairChunk, dual_is_cheaper, sparse_is_cheaper
from mahala.support import limits
from reference.online_pairs import RULES, passive_aggressive
from strategies import streams


@pytest.fixture(scope="module", params=["few features", "many features", "NumPy"])
def _each_kernel(request):
    """The kernel for few features, for as many the one that keeps an inverse, and NumPy, which takes few steps."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "NumPy":
            patch.setattr(limits, "FEW_STEPS_WORK", 0)
        if request.param == "many features":
            patch.setattr(cholesky, "MOST_FEATURES", 0)
        yield


each_kernel = pytest.mark.usefixtures("_each_kernel")
RULE = st.builds(lambda name, C: RULES[name](C), st.sampled_from(list(RULES)), st.sampled_from([1e-3, 0.1, 1.0, 50.0]))


def feed(model, V, y, rule, min_step=0.0):
    n = len(y)
    steps = np.empty(n), np.empty(n), np.empty(n, dtype=np.int8)
    model.feed(PairChunk(V, y), MarginRule(*rule, min_step), steps)
    return steps


def gap(M, expected):
    """Distance of two matrices relative to the larger, in the Frobenius norm."""
    return np.linalg.norm(M - expected) / max(np.linalg.norm(expected), np.finfo(float).tiny)


def mass(V, M, taus):
    """The largest matrix that took part: where M cancels to zero, rounding is relative to that."""
    return max(np.linalg.norm(M), np.max(np.abs(taus) * np.sum(V**2, axis=1)), 1e-300)


def assert_same_stream(V, model, steps, expected, rtol):
    M, b, expected_steps = expected
    assert np.isfinite(model.M).all()
    assert np.linalg.norm(model.M - M) <= rtol * mass(V, M, steps[1])
    assert model.b == pytest.approx(b, rel=rtol, abs=rtol)
    p, tau, predicted = steps
    expected_predicted, expected_p, expected_tau = map(np.array, zip(*expected_steps, strict=True))
    np.testing.assert_allclose(p, expected_p, rtol=1e-7, atol=1e-7 * max(1, np.abs(expected_p).max()))
    np.testing.assert_allclose(tau, expected_tau, rtol=1e-6, atol=1e-7 * max(1, np.abs(expected_tau).max()))
    clear = np.abs(expected_p - 1) > 1e-6  # at p = 1 the distance equals b: rounding decides
    np.testing.assert_array_equal(predicted[clear], expected_predicted[clear])


@each_kernel
@pytest.mark.parametrize("psd", [0, 1, 2, 7])
@given(stream=streams(), rule=RULE)
def test_feed_follows_the_paper(psd, stream, rule):
    V, y = stream
    model = MarginState(np.zeros((V.shape[1],) * 2), 0.0, psd)
    steps = feed(model, V, y, rule)
    assert_same_stream(V, model, steps, passive_aggressive(V, y, rule, psd), rtol=1e-9)


@each_kernel
@pytest.mark.parametrize("psd", [0, 1])
@given(stream=streams(max_n=40), rule=RULE, seed=st.integers(0, 1000))
def test_feed_follows_the_paper_from_a_given_model(psd, stream, rule, seed):
    V, y = stream
    A = np.random.default_rng(seed).normal(size=(V.shape[1], max(1, V.shape[1] // 2)))
    start = A @ A.T
    model = MarginState(start, 2.0, psd)
    steps = feed(model, V, y, rule)
    assert_same_stream(V, model, steps, passive_aggressive(V, y, rule, psd, M=start, b=2.0), rtol=1e-9)


@each_kernel
@given(stream=streams(), rule=RULE, cuts=st.lists(st.integers(0, 60), max_size=5), psd=st.sampled_from([0, 1, 3]))
def test_chunks_do_not_matter(stream, rule, cuts, psd):
    V, y = stream
    whole = MarginState(np.zeros((V.shape[1],) * 2), 0.0, psd)
    expected = feed(whole, V, y, rule)
    parts = MarginState(np.zeros((V.shape[1],) * 2), 0.0, psd)
    bounds = sorted({0, len(y), *(c for c in cuts if c < len(y))})
    taus = [feed(parts, V[i:j], y[i:j], rule)[1] for i, j in pairwise(bounds)]
    assert np.linalg.norm(parts.M - whole.M) <= 1e-10 * mass(V, whole.M, expected[1])
    np.testing.assert_allclose(np.concatenate(taus), expected[1], rtol=1e-7, atol=1e-9)


@given(stream=streams(), rule=RULE, passes=st.floats(0.1, 5.0))
def test_dual_equals_primal(stream, rule, passes):
    V, y = stream
    n_steps = len(y) + max(1, int(passes * len(y)))
    order = np.arange(n_steps) % len(y)
    primal, dual = (MarginState(np.zeros((V.shape[1],) * 2), 0.0, 0) for _ in range(2))
    expected = feed(primal, V[order], y[order], rule)
    steps = feed(dual, V, y[order], rule)
    assert np.linalg.norm(dual.M - primal.M) <= 1e-9 * mass(V[order], primal.M, expected[1])
    np.testing.assert_allclose(steps[1], expected[1], rtol=1e-6, atol=1e-8 * max(1, np.abs(expected[1]).max()))


@pytest.mark.parametrize("psd", [0, 3])
@given(stream=streams(), rule=RULE)
def test_sparse_differences_follow_the_paper(psd, stream, rule):
    V, y = stream
    model = MarginState(np.zeros((V.shape[1],) * 2), 0.0, psd)
    steps = feed(model, sp.csr_array(V), y, rule)
    assert_same_stream(V, model, steps, passive_aggressive(V, y, rule, psd), rtol=1e-9)


def test_sparse_is_chosen_where_it_is_cheaper():
    rng = np.random.default_rng(0)
    assert sparse_is_cheaper(sp.random_array((50, 1000), density=0.01, format="csr", random_state=rng))
    assert not sparse_is_cheaper(sp.random_array((50, 1000), density=0.2, format="csr", random_state=rng))
    assert not sparse_is_cheaper(np.zeros((50, 1000)))


@each_kernel
def test_tolerance_skips_short_steps():
    rng = np.random.default_rng(0)
    V, y = rng.normal(size=(200, 5)), rng.choice([-1, 1], size=200).astype(np.int8)
    for psd in (0, 1):
        model = MarginState(np.zeros((5, 5)), 0.0, psd)
        _, tau, _ = feed(model, V, y, RULES["LS"](1.0), min_step=0.05)
        expected = passive_aggressive(V, y, RULES["LS"](1.0), psd, tolerance=0.05)
        assert 0 < np.count_nonzero(tau == 0) < 200
        assert gap(model.M, expected[0]) < 1e-9


@each_kernel
@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e30, 1e44])
@pytest.mark.parametrize("variant", ["hard", "I", "LS"])
@pytest.mark.parametrize("psd", [0, 1, 4])
def test_extreme_scales_stay_finite_and_right(scale, variant, psd):
    rng = np.random.default_rng(1)
    V, y = scale * rng.normal(size=(60, 6)), rng.choice([-1, 1], size=60).astype(np.int8)
    model = MarginState(np.zeros((6, 6)), 0.0, psd)
    feed(model, V, y, RULES[variant](1.0))
    M, b, _ = passive_aggressive(V, y, RULES[variant](1.0), psd)
    assert np.isfinite(model.M).all()
    assert np.abs(model.M - M).max() <= 1e-8 * np.abs(M).max()
    assert model.b == pytest.approx(b)


@each_kernel
def test_steps_of_sizes_far_apart_stay_numbers():
    """A step so much larger than σ leaves nothing but rounding errors of R along v."""
    V = np.diag([2e30, 9e5, 0.0])[[0, 1, 2, 1]]
    V[2], V[3] = [0.0, 1e38, 0.0], [1.0, 1.0, 1.0]
    y = np.array([-1, -1, 1, 1], dtype=np.int8)
    model = MarginState(np.zeros((3, 3)), 0.0, 1)
    feed(model, V, y, RULES["LS"](0.1))
    M, b, _ = passive_aggressive(V, y, RULES["LS"](0.1), 1)
    assert np.isfinite(model.tuning).all()
    assert np.abs(model.M - M).max() <= RTOL * model.mass
    assert model.b == pytest.approx(b)


@pytest.mark.parametrize("_each_kernel", ["few features", "many features"], indirect=True)
@pytest.mark.usefixtures("_each_kernel")
@pytest.mark.parametrize("variant", ["I", "LS"])
def test_no_drift_over_a_long_stream(variant):
    rng = np.random.default_rng(2)
    d, n = 12, 5_000
    centres = rng.normal(size=(6, d))
    labels = rng.integers(0, 6, size=400)
    X = centres[labels] + 0.7 * rng.normal(size=(400, d))
    i, j = rng.integers(0, 400, size=(2, n))
    V, y = X[i] - X[j], np.where(labels[i] == labels[j], 1, -1).astype(np.int8)
    model = MarginState(np.zeros((d, d)), 0.0, 1)
    feed(model, V, y, RULES[variant](0.1))
    M, b, _ = passive_aggressive(V, y, RULES[variant](0.1), 1)
    assert gap(model.M, M) < 1e-9
    assert model.b == pytest.approx(b, rel=1e-9)


@pytest.mark.parametrize("variant", ["I", "LS"])
def test_large_dimension_with_retuning_follows_the_paper(variant):
    rng = np.random.default_rng(3)
    d, n = 70, 300
    V = rng.normal(size=(n, d)) * 0.97 ** np.arange(d)
    y = np.where(np.abs(V[:, :5]).sum(axis=1) < 4, 1, -1).astype(np.int8)
    model = MarginState(np.zeros((d, d)), 0.0, 1)
    feed(model, V, y, RULES[variant](0.1))
    M, _, _ = passive_aggressive(V, y, RULES[variant](0.1), 1)
    assert gap(model.M, M) < 1e-9


def test_dual_is_chosen_where_it_is_cheaper():
    assert dual_is_cheaper(r=3600, d=784, n_steps=50_000, share=0.5)
    assert not dual_is_cheaper(r=3600, d=64, n_steps=50_000, share=0.5)
    assert not dual_is_cheaper(r=100_000, d=784, n_steps=10**6, share=0.5)  # 80 GB of inner products


def test_what_newton_does_not_solve_is_projected_by_lapack(monkeypatch):
    """M is not positive semi-definite, where v is zero."""
    monkeypatch.setattr(cholesky, "MOST_FEATURES", 3)
    M = np.diag([1.0, 1.0, -1e-3])
    model = MarginState(M, 2.0, 1)
    V, y = np.array([[1.0, 2.0, 0.0]]), np.array([1], dtype=np.int8)
    steps = feed(model, V, y, RULES["hard"](1.0))
    assert steps[1][0] > 0.0
    expected, b, _ = passive_aggressive(V, y, RULES["hard"](1.0), 1, M=M, b=2.0)
    np.testing.assert_allclose(model.M, expected, atol=1e-12)
    assert model.b == pytest.approx(b)
