"""Pairs on a page against loops, and exponential weights: their definition and the bound on their regret."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.support.model_files import ModelFileError
from mahala_search.adapter.trust.trust import Hedge, mixtures, page_losses, page_pairs
from strategies import examples


def adversarial(hedge, rng):
    """The expert that leads loses, and its rivals do not."""
    losses = np.zeros(len(hedge.losses))
    losses[hedge.weights().argmax()] = 1.0
    return losses


def against_the_learned(hedge, rng):
    """Whatever is trusted beside the first expert is wrong, until it is trusted no more."""
    losses = np.zeros(len(hedge.losses))
    losses[1:] = hedge.weights()[0] < 0.7
    losses[0] = 1.0 - losses[1]
    return losses


def random(hedge, rng):
    return rng.random(len(hedge.losses))


def coins(hedge, rng):
    return rng.integers(0, 2, len(hedge.losses)).astype(float)


def drifting(hedge, rng):
    """Another expert is right every fifty updates."""
    losses = np.ones(len(hedge.losses))
    losses[int(hedge.n) // 50 % len(losses)] = 0.0
    return losses


@pytest.mark.parametrize("stream", [adversarial, against_the_learned, random, coins, drifting])
@pytest.mark.parametrize("n_experts", [2, 3, 17])
@examples(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_regret_against_every_expert_is_below_the_bound(stream, n_experts, seed):
    rng, hedge = np.random.default_rng(seed), Hedge(n_experts)
    suffered = 0.0
    for _ in range(250):
        losses = stream(hedge, rng)
        suffered += hedge.weights() @ losses
        hedge.update(losses)
        if hedge.n % 20 == 0:
            regrets = suffered - hedge.losses
            assert (regrets <= [hedge.bound(expert) + 1e-9 for expert in range(n_experts)]).all()


def test_weights_by_their_definition():
    hedge = Hedge(3)
    for losses in ([0.2, 0.9, 0.0], [1.0, 0.1, 0.5]):
        hedge.update(np.array(losses))
    eta = np.sqrt(8 * -np.log(0.25) / 3)
    want = np.array([0.5, 0.25, 0.25]) * np.exp(-eta * np.array([1.2, 1.0, 0.5]))
    np.testing.assert_allclose(hedge.weights(), want / want.sum(), rtol=1e-12)


def test_mixtures():
    experts = mixtures(1.0)
    assert experts.shape == (17, 3)
    np.testing.assert_allclose(experts.sum(axis=1), 1.0)
    np.testing.assert_array_equal(mixtures(0.0), [[1.0, 0.0, 0.0]])
    assert (1.0 - mixtures(0.3)[:, 0]).max() == pytest.approx(0.3)
    assert Hedge(1).weights().tolist() == [1.0]
    assert Hedge(1).bound(0) == 0.0


@pytest.mark.parametrize(
    ("losses", "message"), [([1.0, -2.0, 0.0], "from 0 to"), ([1.0, 2.0, 0.0], "at most the number of updates")]
)
def test_hostile_states_are_refused(losses, message):
    hedge = Hedge(3)
    header, arrays = hedge.get_state()
    with pytest.raises(ModelFileError, match=message):
        hedge.set_state(header, arrays | {"losses": np.array(losses)})


REACTIONS = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=8).map(np.array)


@given(REACTIONS)
def test_every_pair_has_its_weight(values):
    better, worse, weights = page_pairs(values)
    result = dict(zip(zip(better.tolist(), worse.tolist(), strict=True), weights, strict=True))
    span = values.max() - values.min()
    pairs = [(i, j) for i, j in np.ndindex(len(values), len(values)) if values[i] > values[j]]
    assert result == pytest.approx({(i, j): (values[i] - values[j]) / span for i, j in pairs}, rel=1e-12)


def test_losses_of_pairs_count_ties_half():
    scores = np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 1.0]])
    np.testing.assert_allclose(page_losses(scores, page_pairs(np.array([0.0, 0.0, 1.0]))), [1.0, 0.5])
    np.testing.assert_allclose(page_losses(scores, page_pairs(np.array([0.0, 1.0, 0.0]))), [0.25, 0.0])


def test_largest_numbers_do_not_overflow():
    better, worse, weights = page_pairs(np.array([-1e308, 1.7e308]))
    assert (better.tolist(), worse.tolist()) == ([1], [0])
    np.testing.assert_allclose(weights, 1.0, rtol=1e-12)
