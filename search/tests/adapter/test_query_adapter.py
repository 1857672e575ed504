"""QueryAdapter: against its reference in plain NumPy, and what it promises to those who use it."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mahala
import mahala_search
from mahala.support.model_files import ModelFileError
from mahala_search import QueryAdapter
from mahala_search.adapter.maps import judged
from mahala_search.adapter.memory.bonuses import place_values
from mahala_search.adapter.memory.click_memory import AGREED, item_keys
from mahala_search.adapter.memory.remembered import Remembered
from mahala_search.adapter.query_adapter import Page
from mahala_search.quality.gains import CrossValidation
from mahala_search.quality.judgments import ndcg
from reference.feedback import bonuses_of, counts_of, shares_of
from strategies import examples

D = 6


def impressions(seed, n=25, n_queries=8, kind="clicks"):
    """Impressions of (x, shown, reactions, id), with repeated queries, zero vectors, ties and pages without clicks."""
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(n_queries, D)) * (rng.random((n_queries, D)) < 0.8)
    items = rng.normal(size=(14, D)) / 2
    result = []
    for _ in range(n):
        at = int(rng.integers(n_queries))
        shown = items[rng.permutation(len(items))[: rng.integers(1, 7)]]
        if kind == "ties":
            shown = shown[rng.integers(0, len(shown), len(shown))]
        reactions = rng.integers(-1, 4, len(shown)) if kind == "grades" else rng.random(len(shown)) < 0.4
        result.append((queries[at], shown, reactions.astype(float), at))
    return result


def fed(adapter, stream):
    for x, shown, reactions, key in stream:
        adapter.learn_one(x, shown, reactions, query_id=key)
    return adapter


@examples(7)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["clicks", "grades", "ties"]))
def test_a_stream_equals_the_reference(seed, kind):
    stream = impressions(seed, n=60, kind=kind)
    adapter = fed(QueryAdapter(), stream)
    sums = counts_of(stream)
    assert adapter.trust_ == {"new": 0.0, "known": pytest.approx(shares_of(sums)[0])}
    for (key, item), value in bonuses_of(sums, adapter._page_scale.mean).items():
        bonus = adapter._bonus(key)
        keys = item_keys(None, np.frombuffer(item)[np.newaxis])
        assert place_values(bonus.items, bonus.values, keys)[0] == pytest.approx(value, rel=1e-4, abs=1e-6)


def tasteful(adapter, n=400, random=False, seed=0, n_queries=40, skip=0):
    """Show random items for queries of many users, of which one is clicked: by another taste, or at random."""
    rng, taste = np.random.default_rng(seed), np.array([4.0, 4.0, 4.0, 0.2, 0.2, 0.2])
    queries, items = rng.normal(size=(n_queries, D)), rng.normal(size=(60, D))
    for at in range(n):
        x = queries[at % n_queries]
        shown = items[rng.permutation(60)[:8]]
        best = rng.integers(8) if random else np.argmax(shown @ (taste * x))
        if at >= skip:
            adapter.learn_one(x, shown, np.arange(8) == best, query_id=at % n_queries, user=at % 70)
    return adapter


@functools.cache
def _taught(n):
    return pickle.dumps(tasteful(QueryAdapter(random_state=0), n))


def test_clicks_for_other_queries_decide_how_much_of_the_map_is_used(tmp_path):
    adapter = pickle.loads(_taught(400))
    assert adapter.trust_["new"] > 0.3
    change = adapter.metric_.matrix - np.eye(D)
    assert np.diag(change)[:3].min() > np.diag(change)[3:].max()
    assert tasteful(QueryAdapter(random_state=0), random=True).trust_["new"] < 0.1
    adapter.save(tmp_path / "adapter.safetensors")
    again = mahala.load(tmp_path / "adapter.safetensors")
    assert again.trust_ == adapter.trust_
    np.testing.assert_array_equal(
        tasteful(again, 600, skip=400).metric_.matrix, tasteful(adapter, 600, skip=400).metric_.matrix
    )


@pytest.mark.parametrize("n", [0, 150, 400])
def test_one_attacked_query_changes_nobody_elses_trust(n):
    adapter = pickle.loads(_taught(n))
    x, items = np.ones(D), -np.eye(D)
    if not n:
        adapter.learn_one(x, items, np.zeros(D), query_id="other")
    before = adapter.trust_
    for at in range(500):
        adapter.learn_one(x, items, np.arange(D) == 5, query_id="attacked", user=f"made up {at}")
    assert all(abs(after - before[kind]) <= 0.02 for kind, after in adapter.trust_.items())


@pytest.mark.parametrize(("n_users", "place"), [(AGREED - 1, 15), (AGREED, 0)])
def test_an_item_gains_five_places_until_enough_users_agree(n_users, place):
    items = np.column_stack([np.linspace(1.0, 0.9, 40), np.zeros(40)])
    adapter = QueryAdapter()
    for _ in range(3):
        for user in range(n_users):
            page = np.roll([*range(4), 20], user)
            adapter.learn_one([1.0, 0.0], items[page], page == 20, query_id="q", user=user, item_ids=page)
    order = adapter.rank([1.0, 0.0], items, query_id="q", item_ids=range(40)).tolist()
    assert order.index(20) == place
    maps = adapter.maps()
    bonus = maps.bonus(np.array([1.0, 0.0]), "q")
    assert bonus.order(items[:, 0], np.arange(40, dtype=np.uint64), 3).tolist() == order[:3]


def test_made_up_users_do_not_bring_an_item_from_the_end_to_the_first_page():
    items = np.column_stack([np.linspace(1.0, 0.0, 3001), np.zeros(3001)])
    adapter = QueryAdapter()
    for user in range(25):
        page = [*range(9), 3000]
        for _ in range(20):
            adapter.learn_one([1.0, 0.0], items[page], np.arange(10) == 9, query_id="q", user=user, item_ids=page)
    assert adapter.rank([1.0, 0.0], items, query_id="q", item_ids=range(3001)).tolist().index(3000) > 10


def test_pages_that_were_counted_before_add_reactions_only():
    page = Page(X, Z, np.array([0.0, 1.0, 0.0]), np.arange(3, dtype=np.uint64), "q", ranks=np.arange(3))
    shown = QueryAdapter()
    shown.learn_page(page._replace(values=np.zeros(3)))
    shown.learn_page(page._replace(first=False))
    once = QueryAdapter()
    once.learn_page(page)
    for adapter in (shown, once):
        np.testing.assert_allclose(adapter._memory.counts().clicks, [0, 1, 0])
        np.testing.assert_allclose(adapter._memory.counts().expected, 0.1)
        assert adapter._rates.shown[:3].tolist() == [1, 1, 1]


def test_items_with_ids_are_ranked_by_ids():
    adapter = QueryAdapter()
    assert adapter.rank(X, Z).tolist() == [0, 1, 2]
    rows = np.diag([1.0, 0.99, 0.9])
    for at in range(12):
        adapter.learn_one(X, np.roll(rows, at, axis=0), np.roll([0, 0, 1], at), item_ids=np.roll(list("abc"), at))
    assert adapter.rank(X, rows, item_ids="abc").tolist()[0] == 2
    for call in (lambda: adapter.rank(X, Z), lambda: adapter.rerank(X, Z, {"score": [1, 2, 3]})):
        with pytest.raises(ValueError, match="item_ids must be the ids of the items, by which learn_one remembers"):
            call()


def test_one_user_has_a_bounded_influence():
    clicks = []
    for user_cap in (1, None):
        adapter = QueryAdapter(user_cap=user_cap)
        adapter.learn_one(X, Z[:2], [0, 0], user="another")
        for _ in range(8):
            adapter.learn_one(X, Z[:2], [1, 0], user="u")
        clicks.append(adapter._memory.counts().clicks.sum())
    assert clicks == [pytest.approx(sum(1 / n for n in range(1, 9))), 8.0]


@pytest.mark.parametrize("clicked", [[1e308, -1e308, 0.0], [1e-308, 0.0, 0.0], [5e-324, 0.0, -5e-324]])
@pytest.mark.parametrize("scale", [0.0, 1e-55, 1.0, 1e40])
def test_extreme_reactions_and_scales_leave_finite_numbers(clicked, scale):
    adapter = QueryAdapter()
    for at in range(150):
        adapter.learn_one(X * scale, Z * scale, clicked, query_id=at % 30)
    assert np.isfinite(adapter.embed(X)).all()
    assert all(0.0 <= trust <= 1.0 for trust in adapter.trust_.values())


def test_some_parameters_cannot_change_in_a_stream(tmp_path):
    adapter = QueryAdapter().set_params(cap=0.7)
    adapter.learn_one(X, Z, [0, 1, 0])
    adapter.set_params(cap=0.9)
    for call in (lambda: adapter.learn_one(X, Z, [0, 1, 0]), lambda: adapter.save(tmp_path / "a.safetensors")):
        with pytest.raises(ValueError, match=r"cap cannot change while a stream runs: it was 0\.7, it is 0\.9"):
            call()


@pytest.mark.parametrize("how", ["file", "pickle"])
@pytest.mark.parametrize("params", [{}, {"user_cap": 2}])
def test_resumes_bit_for_bit(how, params, tmp_path):
    stream = impressions(5)
    adapter = QueryAdapter(random_state=0, **params)
    for at, (x, shown, reactions, key) in enumerate(stream[:20]):
        adapter.learn_one(x, shown, reactions, query_id=key, user=at % 3)
    if how == "file":
        adapter.save(tmp_path / "adapter.safetensors")
        resumed = mahala.load(tmp_path / "adapter.safetensors")
    else:
        resumed = pickle.loads(pickle.dumps(adapter))
    assert resumed.verdict_ == adapter.verdict_
    for either in adapter, resumed:
        for at, (x, shown, reactions, key) in enumerate(stream[20:]):
            either.learn_one(x, shown, reactions, query_id=key, user=at % 3)
    np.testing.assert_array_equal(resumed.metric_.matrix, adapter.metric_.matrix)
    assert resumed.trust_ == adapter.trust_
    assert resumed.n_impressions_ == len(stream)
    np.testing.assert_array_equal(resumed.embed(x, query_id=key), adapter.embed(x, query_id=key))


def collection(seed=0, n_queries=60, n_items=300, d=12, strength=4.0):
    """Queries and items whose relevance has another taste than the inner product."""
    rng = np.random.default_rng(seed)
    queries, items = rng.normal(size=(n_queries, d)), rng.normal(size=(n_items, d))
    queries, items = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, items))
    taste = np.where(np.arange(d) < d // 2, strength, 1.0)
    scores = (queries * taste) @ items.T + 0.02 * rng.normal(size=(n_queries, n_items))
    order = np.argsort(-scores, axis=1)[:, :8]
    return queries, items, [(i, int(j), 3 - r // 3) for i in range(n_queries) for r, j in enumerate(order[i])]


def split(qrels, rows):
    place = {row: at for at, row in enumerate(rows)}
    return [(place[i], j, g) for i, j, g in qrels if i in place]


def test_judgments_improve_new_queries_and_the_gain_is_honest():
    queries, items, qrels = collection()
    train, test = np.arange(40), np.arange(40, 60)
    adapter = QueryAdapter(random_state=0).fit(queries[train], items, split(qrels, train))
    gain = mahala_search.evaluate_ranking(queries[test], items, split(qrels, test), adapter).gains["ndcg@10"]
    assert gain.mean > 0.05
    assert gain.mean == pytest.approx(adapter.verdict_.gain, abs=0.1)
    assert (adapter.verdict_.kind, adapter.verdict_.n) == ("shown to help", 40)
    assert adapter.trust_["new"] > 0.3


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float16])
def test_items_of_any_numbers_are_ranked_as_floats(dtype):
    rng = np.random.default_rng(0)
    items = rng.integers(0, 5, size=(300, 6)).astype(dtype)
    mapped = rng.normal(size=(4, 6))
    scores = mapped @ items.T.astype(float)
    for values, pool in zip(scores, judged.candidates(mapped, items), strict=True):
        assert len(set(pool.tolist())) == judged.POOL
        assert values[pool].min() >= np.sort(values)[-judged.POOL] - 1e-4


def test_where_there_is_nothing_to_learn_the_map_stays_the_identity():
    queries, items, _ = collection()
    rng = np.random.default_rng(1)
    nothing = [(i, int(j), 1) for i in range(60) for j in rng.choice(300, 8, replace=False)]
    adapter = QueryAdapter(random_state=0).fit(queries, items, nothing)
    assert (adapter.verdict_.kind, adapter.verdict_.n, adapter.verdict_.share) == ("does not help", 60, 0.0)
    assert adapter.verdict_.sentence.endswith("The plain ranking is served.")
    np.testing.assert_array_equal(adapter.metric_.matrix, np.eye(12))
    np.testing.assert_array_equal(adapter.rank(queries, items), np.argsort(-queries @ items.T, axis=1))


def test_gains_of_rounding_are_none():
    values = CrossValidation(np.array([4, 5, 7, 8, 9]), np.full(5, 0.5), np.array([0.5, 0.9, 0.4, 0.5 + 1e-14, 0.1]))
    np.testing.assert_allclose(values.gains, [0.0, 0.4, -0.1, 0.0, -0.4])


# The chance that an item is clicked which is looked at: an irrelevant and a relevant one.
PEOPLE = {"perfect": (0.0, 1.0), "navigational": (0.05, 0.9), "informational": (0.2, 0.7), "random": (0.5, 0.5)}


def searched(adapter, people, n=300):
    """Let people ask 40 of 60 queries and click what is shown; return the gains of their pages, and of new queries."""
    queries, items, qrels = collection()
    grades = np.zeros((len(queries), len(items)))
    grades[tuple(np.array(qrels).T[:2])] = [grade for *_, grade in qrels]
    rng, gains = np.random.default_rng(1), []
    for row in rng.integers(40, size=n).tolist():
        page = adapter.rank(queries[row], items, 10, row)
        plain = np.argsort(-items @ queries[row])[:10]
        gains.append(ndcg(np.column_stack([grades[row, page], grades[row, plain]]), grades[row], 10) @ [1.0, -1.0])
        if people == "adversarial":
            clicked = np.arange(10) == 9 - grades[row, page][::-1].argmin()
        else:
            clicked = rng.random(10) < np.where(grades[row, page] > 0.0, *PEOPLE[people][::-1])
            if people == "navigational":  # only the first one
                clicked &= np.cumsum(clicked) == 1
        adapter.learn_one(queries[row], items[page], clicked, query_id=row)
    new = split(qrels, range(40, 60))
    return np.array(gains), mahala_search.evaluate_ranking(queries[40:], items, new, adapter).gains["ndcg@10"].mean


@pytest.mark.parametrize(
    ("people", "least"), [("perfect", 0.1), ("navigational", 0.02), ("informational", 0.05), ("random", -0.02)]
)
def test_a_stream_of_clicks_improves_what_is_shown_and_noise_does_not_harm(people, least):
    shown, new = searched(QueryAdapter(), people)
    assert shown.mean() > least
    assert new > -0.02


def test_wrong_clicks_are_bounded_by_the_cap_and_forgotten():
    assert (searched(QueryAdapter(cap=0.0), "adversarial", 50)[0] == 0.0).all()
    capped, full = (QueryAdapter(cap=cap) for cap in (0.2, 1.0))
    losses = [searched(adapter, "adversarial", 200)[0].mean() for adapter in (capped, full)]
    assert losses[1] < losses[0] <= 0.0
    assert max(capped.trust_.values()) <= 0.2
    assert searched(full, "perfect", 200)[0][-100:].mean() > -0.01


def test_ranks_as_the_embedding_does():
    adapter = fed(QueryAdapter(), impressions(2))
    rng = np.random.default_rng(0)
    items, queries = rng.normal(size=(30, D)), rng.normal(size=(4, D))
    want = np.argsort(-adapter.embed(queries) @ items.T, axis=1)[:, :5]
    np.testing.assert_array_equal(adapter.rank(queries, items, k=5), want)
    np.testing.assert_array_equal(adapter.rank(queries[0], sp.csr_matrix(items), k=5), want[0])
    assert adapter.rank(queries[0], items).shape == (30,)


X, Z = np.ones(3), np.eye(3)


def state_of(adapter):
    return {name: value for name, value in vars(adapter).items() if name != "_one_at_a_time"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(2), Z, [0, 1, 0]), "shown must have the 2 features of the queries, got 3"),
        (([1.0, np.nan, 0.0], Z, [0, 1, 0]), "query contains NaN or infinity"),
        ((X, np.full((3, 3), np.inf), [0, 1, 0]), "infinity"),
        ((X, np.empty((0, 3)), []), "shown must have at least one item, got none"),
        ((X, Z, [0, 1, 0, 1]), r"clicked must have one entry for each of the 3 items shown, got shape \(4,\)"),
        ((X, Z, [0, np.nan, 1]), "clicked contains NaN"),
        ((X, Z, ["a", "b", "c"]), "clicked must hold real numbers"),
    ],
)
@pytest.mark.parametrize("fitted", [False, True])
def test_bad_impressions_are_refused_and_change_nothing(arguments, message, fitted):
    adapter = QueryAdapter()
    if fitted:
        adapter.learn_one(X, Z, [0, 1, 0])
        message = message.replace(
            "shown must have the 2 features of the queries, got 3", "query has 2 features.*with 3"
        )
    before = state_of(adapter)
    with pytest.raises(ValueError, match=message):
        adapter.learn_one(*arguments)
    assert state_of(adapter) == before


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ([(0, 9, 1), (1, 0, 1)], "item row numbers from 0 to 2"),
        ([(7, 0, 1), (1, 0, 1)], "query row numbers from 0 to 2"),
        ([(0, 0, -1), (1, 0, 1)], "grades of at least 0"),
        ([(0, 0, 1)], "at least 2 queries"),
        ([(0, 0, 0), (1, 0, 0)], "at least 2 queries"),
        ([(0, 0, 1), (0, 0, 2), (1, 0, 1)], "one grade per query and item"),
    ],
)
def test_bad_judgments_are_refused(qrels, message):
    adapter = QueryAdapter()
    with pytest.raises(ValueError, match=message):
        adapter.fit(Z, Z, qrels)
    assert not hasattr(adapter, "n_features_in_")


def test_all_items_relevant_is_nothing_to_learn_from():
    adapter = QueryAdapter(random_state=0).fit(Z, Z, [(i, j, 1) for i in range(3) for j in range(3)])
    np.testing.assert_allclose(adapter.metric_.matrix, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("params", "message"),
    [({"cap": 1.5}, "cap must be a number from 0 to 1"), ({"n_folds": 1}, "n_folds must be at least 2")],
)
def test_bad_parameters_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        QueryAdapter(**params).fit(Z, Z, [(0, 0, 1), (1, 1, 1)])


# What is unusual, but legal


def test_a_second_fit_may_have_other_features():
    queries, items, qrels = collection(n_queries=20, n_items=60)
    adapter = QueryAdapter(random_state=0, n_folds=2)
    adapter.learn_one(X, Z, [0, 1, 0])
    assert adapter.fit(queries, items, qrels).n_features_in_ == 12


def test_sparse_queries_are_single_vectors():
    adapter = fed(QueryAdapter(), impressions(2))
    x = np.arange(1.0, D + 1.0)
    np.testing.assert_array_equal(adapter.embed(sp.csr_matrix([x])), adapter.embed(np.array([x])))
    with pytest.raises(ValueError, match="query must be one vector"):
        adapter.learn_one(sp.csr_matrix(np.eye(D)), np.eye(D)[:2], [0, 1])


def test_a_raw_vector_is_a_copy():
    x = np.ones(D)
    QueryAdapter().embed(x)[:] = 0.0
    assert (x == 1.0).all()


def test_cut_offs_beyond_the_items_are_all_items():
    queries, items, qrels = collection(n_queries=20, n_items=60)
    adapter = QueryAdapter(random_state=0, n_folds=2, k=10**9).fit(queries, items, qrels)
    assert (adapter.cross_validation_.raw <= 1.0 + 1e-12).all()


def test_two_good_pages_are_not_yet_evidence():
    adapter = QueryAdapter()
    for key in range(2):
        adapter.learn_one([1.0, 2.0, 3.0], Z, [1, 0, 0], query_id=key)
    assert adapter.verdict_.low < 0.0 < adapter.verdict_.high
    assert str(adapter.verdict_).startswith("Too early to tell: 2 impressions were seen.")


@pytest.mark.parametrize("shown", [1, np.array(5.0), [], np.empty((0, D)), sp.csr_array((0, D))], ids=repr)
def test_results_that_are_no_rows_are_named(shown):
    with pytest.raises(ValueError, match="shown"):
        QueryAdapter().learn_one(np.ones(D), shown, [0, 1])


@pytest.mark.parametrize("scale", [3e38, 1e-30])
def test_items_that_are_hard_to_multiply_in_single_precision_are_ranked(scale):
    items = np.array([[0.5, 0.1], [1.0, 0.1], [0.7, 0.1]], dtype=np.float32) * np.float32(scale)
    adapter = mahala_search.QueryAdapter()
    adapter.learn_one([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [0, 0])
    for query in ([2.0, 0.0], [1e-30, 0.0], [1e30, 0.0]):
        assert adapter.rank(query, items).tolist() == [1, 2, 0]
    assert adapter.rank([0.0, 0.0], items).tolist() == [0, 1, 2]


def test_counts_of_a_file_leave_room_for_one_more():
    ids, digests = Remembered(3), np.array([1], dtype=np.uint64)
    ids.set_state({}, {"digests": digests, "counts": np.array([2**62])})
    with pytest.raises(ModelFileError, match="a count from 1 to"):
        ids.set_state({}, {"digests": digests, "counts": np.array([2**63 - 1])})


@pytest.mark.parametrize(
    "damage", [["x"], ["gain", "high"], ["shown to help", "a", 0.0, 0.0, 3, 1.0, "", "", 0, 1, 1.0, ""]]
)
def test_a_damaged_verdict_is_refused(damage):
    queries, items, qrels = collection(n_queries=20, n_items=60)
    adapter = QueryAdapter(random_state=0, n_folds=2).fit(queries, items, qrels)
    header, arrays = adapter._get_state()
    assert header["judged"] == list(adapter._judged)
    with pytest.raises(mahala.ModelFileError, match="header entry 'judged' is damaged"):
        adapter._set_state(header | {"judged": damage}, arrays)


def test_a_map_that_may_not_be_used_has_a_verdict_and_a_file(tmp_path):
    queries, items, qrels = collection(n_queries=20, n_items=60)
    adapter = QueryAdapter(cap=0.0, random_state=0, n_folds=2).fit(queries, items, qrels)
    assert (adapter.verdict_.kind, adapter.verdict_.share) == ("too early to tell", 0.0)
    adapter.save(tmp_path / "a")
    assert mahala.load(tmp_path / "a").verdict_ == adapter.verdict_
