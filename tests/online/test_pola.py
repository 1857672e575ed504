"""POLA: its loss bound, its batch conversion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mahala import PA, POLA, MahalanobisMetric, Pairs
from reference.online_pairs import passive_aggressive
from strategies import examples


@pytest.fixture
def pairs(labelled):
    return Pairs.from_labels(*labelled, 200, random_state=3)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 10.0])
def test_pola_is_the_papers_algorithm(pairs, gamma):
    M, b, _ = passive_aggressive(pairs.differences(), pairs.y, (gamma, 0.0, np.inf), 1)
    learner = POLA(gamma).fit(pairs)
    np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-9 * np.abs(M).max())
    assert learner.threshold_ == pytest.approx(b)


def test_separable_pola_is_hard_pa(pairs):
    np.testing.assert_array_equal(POLA().fit(pairs).metric_.matrix, PA("hard").fit(pairs).metric_.matrix)


def separable(seed, n=150, d=4):
    """Pairs that M* = 4 e₁e₁ᵀ, b* = 2 separates with zero hinge loss."""
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(n, d))
    similar = rng.random(n) < 0.5
    V[:, 0] = np.where(similar, rng.uniform(0, 0.5, n), rng.uniform(np.sqrt(0.75), 2.0, n)) * rng.choice([-1, 1], n)
    M = np.zeros((d, d))
    M[0, 0] = 4.0
    X = np.vstack([V, np.zeros((1, d))])
    return Pairs(X, np.arange(n), np.full(n, n), similar), MahalanobisMetric(M, 2.0)


@examples(15)
@given(seed=st.integers(0, 10**6), gamma=st.sampled_from([0.0, 0.3, 5.0]), passes=st.integers(1, 4))
def test_loss_stays_below_its_bound(seed, gamma, passes):
    pairs, comparator = separable(seed)
    learner = POLA(gamma)
    for _ in range(passes):
        learner.partial_fit(pairs)
    assert learner.radius_ == pytest.approx(np.max(np.sum(pairs.differences() ** 2, axis=1) ** 2) + 1)
    assert learner.squared_loss_ == pytest.approx(learner.history_.cumulated_loss(squared=True)[-1])
    assert learner.squared_loss_ <= learner.loss_bound(comparator)
    assert learner.n_mistakes_ <= learner.loss_bound(comparator)  # a mistake costs at least 1
    assert learner.loss_bound(MahalanobisMetric(comparator.matrix), threshold=2.0) == learner.loss_bound(comparator)
    with pytest.raises(ValueError, match="threshold"):
        learner.loss_bound(MahalanobisMetric(comparator.matrix))


@examples(15)
@given(seed=st.integers(0, 10**6), gamma=st.sampled_from([0.1, 1.0, 20.0]))
def test_loss_stays_below_its_bound_where_nothing_separates(seed, gamma):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    left, right = rng.integers(0, 40, size=(2, 200))
    pairs = Pairs(X, left, right, rng.random(200) < 0.5)
    learner = POLA(gamma).fit(pairs)
    A = rng.normal(size=(3, 2)) * rng.choice([0.1, 1.0])
    comparator = MahalanobisMetric(A @ A.T, 1.0 + rng.random())
    distances = comparator.distance(X[left], X[right], squared=True)
    losses = np.maximum(0.0, 1.0 - pairs.y * (comparator.threshold - distances))
    assert learner.squared_loss_ <= learner.loss_bound(comparator, squared_loss=np.sum(losses**2))
    with pytest.raises(ValueError, match="squared_loss"):
        POLA().fit(pairs).loss_bound(comparator, squared_loss=1.0)
    with pytest.raises(ValueError, match="3 features"):
        learner.loss_bound(MahalanobisMetric(np.eye(9), 1.0))


def test_a_saved_batch_conversion_knows_how_it_ended(tmp_path):
    pairs, _ = separable(0)
    learner = POLA(max_loss=0.5, max_passes=500).fit(pairs)
    learner.save(tmp_path / "pola.safetensors")
    loaded = POLA.load(tmp_path / "pola.safetensors")
    assert (loaded.n_passes_, loaded.converged_) == (learner.n_passes_, True)


def test_batch_conversion_ends_with_small_losses():
    pairs, comparator = separable(0)
    learner = POLA(max_loss=0.05, max_passes=2000).fit(pairs)
    losses = 1 - pairs.y * learner.margins(pairs)
    assert learner.converged_
    assert 1 < learner.n_passes_ <= learner.loss_bound(comparator) / 0.05**2
    assert losses.max() <= 0.05 + 1e-9
    shorter = POLA(max_loss=0.05, max_passes=learner.n_passes_ - 1)
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        shorter.fit(pairs)
    assert not shorter.converged_


def test_batch_conversion_with_a_kernel():
    pairs, _ = separable(1)
    plain = POLA(max_loss=0.2, max_passes=500).fit(pairs)
    kernel = POLA(max_loss=0.2, max_passes=500, kernel="linear").fit(pairs)
    assert kernel.n_passes_ == plain.n_passes_
    np.testing.assert_allclose(kernel.margins(pairs), plain.margins(pairs), atol=1e-8)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"gamma": -1}, "gamma"),
        ({"max_loss": 0}, "max_loss"),
        ({"max_passes": 0}, "max_passes"),
        ({"rank_every": -1}, "rank"),
    ],
)
def test_bad_parameters(pairs, setting, message):
    with pytest.raises(ValueError, match=message):
        POLA(**setting).fit(pairs)


def test_the_model_of_a_first_similar_pair_is_symmetric():
    """The projection of -s v vᵀ leaves rounding errors only, as asymmetric as they are."""
    rng = np.random.default_rng(0)
    for gamma in (0.0, 1.0):
        for _ in range(20):
            learner = POLA(gamma=gamma)
            learner.learn_one(rng.normal(size=3), rng.normal(size=3), True)
            assert np.abs(learner.raw_metric_.matrix).max() < 1e-12


def test_parameters_of_a_kernel_need_a_kernel():
    with pytest.raises(ValueError, match="need a kernel, but kernel is None"):
        POLA(kernel_params={"gamma": 1.0}).fit(np.eye(4), [0, 0, 1, 1])


def test_converged_is_a_bool_whatever_the_number_that_tol_is(tmp_path):
    pola = POLA(max_loss=np.float32(0.5), n_pairs=20, random_state=0, max_passes=100)
    pola.fit(np.random.default_rng(0).normal(size=(12, 3)) + 9.0 * np.eye(3)[np.arange(12) % 3], np.arange(12) % 3)
    assert pola.converged_ is True


@pytest.mark.parametrize("scale", [1e-44, 1.0, 1e44])
@pytest.mark.parametrize(
    "learner", [POLA(gamma=1e50), PA("II", C=1e-50), PA("LS", C=1e-50), PA("I", C=1e-50)], ids=repr
)
def test_the_shortest_steps_leave_a_model_that_can_be_saved(learner, scale, tmp_path):
    X = scale * np.random.default_rng(0).normal(size=(20, 3))
    clone(learner).set_params(n_pairs=60, random_state=0).fit(X, np.arange(20) % 2).save(tmp_path / "model")


def test_steps_too_short_for_the_arithmetic_are_refused():
    with pytest.raises(ValueError, match=r"gamma must be a number from 0 to 1e\+50, got 1e\+300"):
        POLA(gamma=1e300).fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="C must be 'auto' or a number of at least 1e-50, got 1e-300"):
        PA("LS", C=1e-300).fit(np.eye(4), [0, 0, 1, 1])
