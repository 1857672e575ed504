"""Reranking by signals: the rule, what it gains and cannot lose, its state, and missing values."""

from __future__ import annotations

import numpy as np
import pytest

import mahala
from mahala.support.model_files import ModelFileError
from mahala_search import QueryAdapter
from mahala_search.adapter.trust.pairs import page_pairs
from mahala_search.adapter.trust.signal_ranker import STEP, WEIGHT, SignalRanker
from mahala_search.adapter.trust.signals import CLIP

N = 10


def make_page(rng, decisive):
    """A page of candidates in the engine's order, their signals, and a few relevant ones by the decisive signal."""
    score = np.sort(rng.normal(size=N))[::-1]
    signals = {"score": score, "freshness": 1e3 * rng.normal(size=N) + 50.0, "noise": rng.normal(size=N)}
    relevant = np.argsort(np.argsort(signals[decisive])) >= N - 3
    return rng.normal(size=4), rng.normal(size=(N, 4)), signals, relevant


def clicks_of(rng, relevant, kind):
    seen = rng.random(N) < 1.0 / np.arange(1, N + 1) ** 0.7
    return seen & (rng.random(N) < (0.3 if kind == "random" else np.where(relevant, 0.8, 0.05)))


def mean_ndcg(ranker, pages):
    discounts = 1.0 / np.log2(np.arange(N) + 2.0)
    return np.mean([discounts @ relevant[ranker(page)] / discounts[:3].sum() for *page, relevant in pages])


def learned(kind, seed, n=200):
    rng, adapter = np.random.default_rng(seed), QueryAdapter(random_state=0)
    decisive = "freshness" if kind == "signal" else "score"
    for _ in range(n):
        query, items, signals, relevant = make_page(rng, decisive)
        order, _ = adapter.rerank(query, items, signals)
        shown = {name: values[order] for name, values in signals.items()}
        adapter.learn_one(query, items[order], clicks_of(rng, relevant[order], kind), signals=shown)
    pages = [make_page(rng, decisive) for _ in range(200)]
    gain = mean_ndcg(lambda page: adapter.rerank(*page)[0], pages) - mean_ndcg(lambda page: np.arange(N), pages)
    return adapter, gain


@pytest.fixture(scope="module")
def adapter():
    return learned("signal", 0)


def test_a_signal_that_decides_is_learned(adapter):
    model, gain = adapter
    assert gain > 0.2
    weights = model.signal_weights_
    assert list(weights) == ["score", "similarity", "freshness", "noise"]
    assert weights["freshness"] > 3.0 * max(abs(weights["noise"]), abs(weights["similarity"]))


@pytest.mark.parametrize(("kind", "seed"), [("random", 0), ("engine", 1)])
def test_the_order_of_the_engine_is_kept_where_it_is_not_improved(kind, seed):
    assert learned(kind, seed)[1] >= -0.005


def test_vectors_help_by_their_similarity():
    rng, adapter = np.random.default_rng(0), QueryAdapter(random_state=0)
    for _ in range(150):
        query, items, signals, _ = make_page(rng, "score")
        adapter.learn_one(query, items, np.argsort(np.argsort(items @ query)) >= N - 3, signals=signals)
    query, items, signals, _ = make_page(rng, "score")
    assert adapter.signal_weights_["similarity"] > 0.3
    order = adapter.rerank(query, items, signals)[0]
    assert np.corrcoef(items[order] @ query, -np.arange(N))[0, 1] > 0.5


def reference_step(weights, squares, spreads, page, pairs):
    """One step, in loops: standardise, then AdaGrad on the mean logistic loss of the pairs."""
    names = list(page)
    rows = [[(page[name][i] - np.mean(page[name])) / spreads[name] for name in names] for i in range(N)]
    gradient = np.zeros(len(names))
    for better, worse, weight in zip(*pairs, strict=True):
        gaps = np.clip(rows[better], -CLIP, CLIP) - np.clip(rows[worse], -CLIP, CLIP)
        margin = rows[better][0] - rows[worse][0] + weights @ gaps
        gradient += weight / (1.0 + np.exp(margin)) * gaps / len(pairs[0])
    squares = squares + gradient**2
    return weights + STEP * gradient / np.sqrt(squares), squares


def test_steps_are_those_of_the_reference():
    rng, ranker = np.random.default_rng(3), SignalRanker(1.0)
    weights, squares, variances = np.zeros(3), np.zeros(3), []
    for _ in range(5):
        page = {"score": rng.normal(size=N), "similarity": rng.normal(size=N), "price": rng.exponential(50.0, size=N)}
        page["price"][0] = 1e4  # which is clipped
        variances.append([page[name].var() for name in page])
        spreads = dict(zip(page, np.sqrt(np.mean(variances, axis=0)), strict=True))
        pairs = page_pairs(rng.integers(0, 3, size=N).astype(float))
        ranker.learn(page, pairs)
        weights, squares = reference_step(weights, squares, spreads, page, pairs)
    np.testing.assert_allclose(ranker.table[:, WEIGHT], weights, rtol=1e-9)


def test_a_missing_value_is_neutral(adapter):
    model, rng = adapter[0], np.random.default_rng(5)
    query, items, signals, _ = make_page(rng, "score")
    values = signals["freshness"].copy()
    values[4] = np.delete(values, 4).mean()
    same = model.rerank(query, items, signals | {"freshness": values})
    for missing in (np.nan, None):
        given = [missing if at == 4 else value for at, value in enumerate(values)]
        order, scores = model.rerank(query, items, signals | {"freshness": given})
        np.testing.assert_array_equal(order, same[0])
        np.testing.assert_allclose(scores, same[1], atol=1e-12)
    only = {"score": signals["score"]}
    absent = model.rerank(query, items, only)
    np.testing.assert_array_equal(absent[0], model.rerank(query, items, only | {"freshness": [None] * N})[0])


def learned_without_signals(query, items):
    adapter = QueryAdapter(random_state=0)
    adapter.learn_one(query, items, np.arange(N) == 3)
    return adapter


def test_nothing_learned_keeps_the_order_of_the_engine():
    query, items, signals, _ = make_page(np.random.default_rng(0), "score")
    for model in (QueryAdapter(), learned_without_signals(query, items)):
        np.testing.assert_array_equal(model.rerank(query, items, signals)[0], np.arange(N))
        np.testing.assert_array_equal(model.rerank(query, items, {"score": np.zeros(N)})[0], np.arange(N))


def test_a_saved_state_resumes_exactly(adapter, tmp_path):
    model, rng = adapter[0], np.random.default_rng(7)
    model.save(tmp_path / "adapter.safetensors")
    again = mahala.load(tmp_path / "adapter.safetensors")
    for _ in range(3):
        query, items, signals, relevant = make_page(rng, "freshness")
        for one in (model, again):
            one.learn_one(query, items, relevant, signals=signals)
    for one, other in zip(model.rerank(query, items, signals), again.rerank(query, items, signals), strict=True):
        np.testing.assert_array_equal(one, other)
    assert model.signal_weights_ == again.signal_weights_


@pytest.mark.parametrize(
    ("signals", "error", "message"),
    [
        ([1.0], TypeError, "signals must be a mapping from names to numbers, got list"),
        ({"bm25": np.ones(N)}, ValueError, "signals must have 'score'"),
        ({"score": np.ones(N), "similarity": np.ones(N)}, ValueError, "signals must not have 'similarity'"),
        ({"score": np.ones(3)}, ValueError, r"signals\['score'\] must have one number for each of 10 results"),
        ({"score": [None] * N}, ValueError, r"signals\['score'\] must be numbers from -1e100 to 1e100, got"),
        ({"score": np.ones(N), "p": [np.inf] * N}, ValueError, r"signals\['p'\] must be .*, or None where missing"),
        ({"score": np.ones(N), "p": ["cheap"] * N}, ValueError, r"signals\['p'\] must be numbers or None"),
        ({"score": np.ones(N), 3: np.ones(N)}, TypeError, "signals must have names that are strings, got 3"),
        ({"score": np.ones(N)} | {f"s{i}": np.ones(N) for i in range(32)}, ValueError, "at most 32 names, got 33"),
    ],
)
def test_bad_signals_are_refused(signals, error, message):
    query, items, *_ = make_page(np.random.default_rng(0), "score")
    with pytest.raises(error, match=message):
        QueryAdapter().rerank(query, items, signals)
    with pytest.raises(error, match=message):
        QueryAdapter().learn_one(query, items, np.arange(N) == 1, signals=signals)


def test_signals_of_all_impressions_are_at_most_32():
    query, items, *_ = make_page(np.random.default_rng(0), "score")
    adapter = QueryAdapter()
    clicked, score = np.arange(N) == 1, {"score": np.ones(N)}
    adapter.learn_one(query, items, clicked, signals=score | {f"s{i}": np.arange(N) for i in range(31)})
    with pytest.raises(ValueError, match="at most 32 names over all impressions, got 33"):
        adapter.learn_one(query, items, clicked, signals=score | {"another": np.arange(N)})
    assert adapter.n_impressions_ == 1


def test_damaged_states_are_refused():
    header, arrays = SignalRanker(1.0).get_state()
    with pytest.raises(ModelFileError, match="first are 'score'"):
        SignalRanker(1.0).set_state(header | {"names": ["similarity", "score"]}, arrays)
    with pytest.raises(ModelFileError, match="at least 0"):
        SignalRanker(1.0).set_state(header, arrays | {"table": arrays["table"] - 1.0})
