"""Pairs on a page against loops, and exponential weights: their definition and the bound on their regret."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.support.model_files import ModelFileError
from mahala_search.adapter.memory.click_memory import ClickMemory, RankRates
from mahala_search.adapter.trust.trust import Hedge, Repeats, Trust, mixtures, page_pairs, prior
from strategies import examples


def adversarial(hedge, rng):
    """The expert that leads loses, and its rivals do not."""
    losses = np.zeros(len(hedge.prior))
    losses[hedge.weights().argmax()] = 1.0
    return losses


def against_the_learned(hedge, rng):
    """Whatever is trusted beside the first expert is wrong, until it is trusted no more."""
    losses = np.zeros(len(hedge.prior))
    losses[1:] = hedge.weights()[0] < 0.7
    losses[0] = 1.0 - losses[1]
    return losses


def random(hedge, rng):
    return rng.random(len(hedge.prior))


def coins(hedge, rng):
    return rng.integers(0, 2, len(hedge.prior)).astype(float)


def drifting(hedge, rng):
    """Another expert is right every fifty updates."""
    losses = np.ones(len(hedge.prior))
    losses[int(hedge.n) // 50 % len(losses)] = 0.0
    return losses


@pytest.mark.parametrize("stream", [adversarial, against_the_learned, random, coins, drifting])
@pytest.mark.parametrize("rate", [0.5, 1.0])
@pytest.mark.parametrize("start", [prior(17), prior(17, 3, 0.999), prior(3)])
@examples(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_regret_against_every_expert_is_below_the_bound(stream, rate, start, seed):
    rng, hedge = np.random.default_rng(seed), Hedge(start, rate)
    suffered = 0.0
    for _ in range(250):
        losses = stream(hedge, rng)
        suffered += hedge.weights() @ losses
        hedge.update(losses)
        if hedge.n % 20 == 0:
            regrets = suffered - hedge.losses
            assert (regrets <= [hedge.bound(expert) + 1e-9 for expert in range(len(start))]).all()


def test_the_constants_of_the_docstring():
    bounds = {}
    for name, hedge in Trust(1.0, None).hedge.items():
        hedge.n = 10_000.0
        bounds[name] = hedge.bound(0) / 100
    # The two sets of weights for new queries share T impressions: a sqrt(t) + b sqrt(T - t) has its maximum here.
    new = np.hypot(bounds["new"], bounds["supported"])
    assert 0.98 * 0.86 < new <= 0.86
    assert 0.98 * 1.5 < bounds["known"] <= 1.5


def test_weights_by_their_definition():
    hedge = Hedge(np.array([0.5, 0.3, 0.2]), 0.7)
    for losses in ([0.2, 0.9, 0.0], [1.0, 0.1, 0.5]):
        hedge.update(np.array(losses))
    eta = 0.7 * np.sqrt(8 * -np.log(0.2) / 3)
    want = np.array([0.5, 0.3, 0.2]) * np.exp(-eta * np.array([1.2, 1.0, 0.5]))
    np.testing.assert_allclose(hedge.weights(), want / want.sum(), rtol=1e-12)


def test_a_half_life_halves_what_was():
    hedge = Hedge(prior(3), 1.0, half_life=10.0)
    hedge.update(np.array([0.0, 1.0, 1.0]))
    for _ in range(10):
        hedge.update(np.zeros(3))
    np.testing.assert_allclose(hedge.losses, [0.0, 0.5, 0.5])


def test_mixtures_and_priors():
    experts = mixtures(1.0)
    assert experts.shape == (17, 3)
    np.testing.assert_allclose(experts.sum(axis=1), 1.0)
    np.testing.assert_array_equal(mixtures(0.0), [[1.0, 0.0, 0.0]])
    assert (1.0 - mixtures(0.3)[:, 0]).max() == pytest.approx(0.3)
    assert prior(17).sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(prior(1), [1.0])
    assert Hedge(prior(1), 1.0).weights().tolist() == [1.0]
    assert Hedge(prior(1), 1.0).bound(0) == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"losses": np.array([1.0, -2.0, 0.0])}, "at least 0"),
        ({"losses": np.array([1.0, 2.0, 0.0])}, "at most the number of updates"),
        ({"prior": np.array([0.5, 0.0, 0.5])}, "positive weights"),
    ],
)
def test_hostile_states_are_refused(change, message):
    hedge = Hedge(prior(3), 1.0)
    header, arrays = hedge.get_state()
    for name, value in change.items():
        (arrays if name in arrays else header)[name] = value
    with pytest.raises(ModelFileError, match=message):
        hedge.set_state(header, arrays)


REACTIONS = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=8).map(np.array)


def reference(values, bias):
    pairs = {}
    for i, j in np.ndindex(len(values), len(values)):
        if values[i] > values[j] and not (bias == "skip-above" and j > i):
            weight = (values[i] - values[j]) / (values.max() - values.min())
            if isinstance(bias, float):
                weight *= ((i + 1) / len(values)) ** bias
            pairs[i, j] = weight
    return pairs


@given(REACTIONS, st.sampled_from([None, "skip-above", 0.0, 0.5, 2.0]))
def test_every_pair_has_its_weight(values, bias):
    better, worse, weights = page_pairs(values, bias)
    result = dict(zip(zip(better.tolist(), worse.tolist(), strict=True), weights, strict=True))
    assert result == pytest.approx(reference(values, bias), rel=1e-12)


def test_largest_numbers_do_not_overflow():
    better, worse, weights = page_pairs(np.array([-1e308, 1.7e308]), None)
    assert (better.tolist(), worse.tolist()) == ([1], [0])
    np.testing.assert_allclose(weights, 1.0, rtol=1e-12)


@pytest.mark.parametrize("half_life", [None, 100.0])
def test_remembered_clicks_count_as_far_as_clicks_repeat(half_life):
    """They count fully where the same items are clicked again, and not where any are, at any rates of the ranks."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        memory, rates, repeats = ClickMemory(), RankRates(), Repeats(half_life)
        examined, good = rng.uniform(0.1, 0.9, size=10), rng.random((10, 16)) < 0.3
        for at in range(600):
            query, items = at % 10, rng.permutation(16)[:10]
            follows = np.where(good[query, items], 0.9, 0.1) if at >= 300 else 0.3
            clicked = (rng.random(10) < examined * follows).astype(float)
            clicks, expected = rates.see(clicked)
            repeats.add(memory.learn(query, items.astype(np.uint64), clicks, expected))
            if at == 299:
                assert repeats.click_weight < 0.35
        assert repeats.click_weight == 0.8 if half_life is None else repeats.click_weight > 0.5
