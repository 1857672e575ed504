"""Pairs and triplets against brute force: what they hold, what they cost, and what the samplers draw."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.stats import chi2
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score, train_test_split

from mahala import comparisons
from mahala.comparisons import Pairs, Triplets

X = np.arange(12, dtype=np.float64).reshape(4, 3)
moderate = settings(deadline=None, max_examples=60)


def untidy_csr(dense: NDArray[Any]) -> sp.csr_matrix:
    """The same matrix, with its entries in reverse order, every one in two parts and int64 indices."""
    rows, columns = (part[::-1] for part in np.nonzero(dense))
    values = dense[rows, columns]
    half = (values / 2).astype(dense.dtype)
    order = np.argsort(np.r_[rows, rows], kind="stable")
    data = np.r_[values - half, half][order]
    indptr = np.r_[0, np.cumsum(2 * np.bincount(rows, minlength=len(dense)))]
    matrix = sp.csr_matrix(dense.shape, dtype=dense.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, np.r_[columns, columns][order], indptr.astype(np.int64)
    assert matrix.indices.dtype == np.int64
    assert matrix.nnz == 0 or not matrix.has_canonical_format
    return matrix


def similarity_of(pairs: Pairs) -> set[tuple[int, int, bool]]:
    return {(int(i), int(j), bool(s)) for i, j, s in zip(pairs.left, pairs.right, pairs.similar, strict=True)}


def every_pair(y: Any) -> set[tuple[int, int, bool]]:
    return {(i, j, bool(y[i] == y[j])) for i, j in itertools.combinations(range(len(y)), 2)}


def assert_uniform(counts: Counter[Any], choices: set[Any]) -> None:
    assert set(counts) == choices
    expected = sum(counts.values()) / len(choices)
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < chi2.ppf(1 - 1e-4, len(choices) - 1)


# What they hold


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_x_is_kept_once_and_in_its_dtype(dtype: Any, order: Any) -> None:
    rows = np.asarray(X, dtype=dtype, order=order)
    for held in (Pairs(rows, [0], [1]), Triplets(rows, [0], [1], [2]), Pairs.from_labels(rows, [0, 0, 1, 1])):
        assert held.X.dtype == dtype
        assert np.shares_memory(held.X, rows)
        assert np.shares_memory(held[:1].X, rows)


def test_a_memory_map_stays_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    pairs = Pairs(mapped, [0, 1], [2, 3])
    assert np.shares_memory(pairs.X, mapped)
    np.testing.assert_array_equal(pairs.differences(), X[[0, 1]] - X[[2, 3]])


def test_csr_keeps_its_arrays() -> None:
    rows = sp.csr_array(X.astype(np.float32))
    held = Pairs(rows, [0], [1])
    assert held.X.dtype == np.float32
    assert np.shares_memory(held.X.data, rows.data)
    assert held[:0].X is held.X


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame: Any) -> None:
    rows = frame({"a": np.array([1, 2, 250], dtype=np.uint8), "b": np.array([5, 6, 7], dtype=np.uint8)})
    pairs = Pairs(rows, pd.Series([0, 2]), pl.Series([2, 1]), pd.Series([True, False]))
    assert pairs.X.dtype == np.uint8
    np.testing.assert_array_equal(pairs.differences(), [[-249, -2], [248, 1]])


def test_many_pairs_cost_their_index_arrays_only() -> None:
    rows = np.ones((1000, 768), dtype=np.float32)
    left, right = np.random.default_rng(0).integers(1000, size=(2, 20_000))
    similar = left < right
    tracemalloc.start()
    pairs = Pairs(rows, left, right, similar)
    _, half = train_test_split(pairs, test_size=0.5, random_state=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.shares_memory(pairs.X, rows)
    assert half.X is pairs.X
    index_arrays = sum(array.nbytes for array in (left, right, similar))
    assert peak < 3 * index_arrays < rows.nbytes / 2


def test_labels_shape_and_text() -> None:
    labelled = Pairs(X, [0, 1], [1, 2], [1, -1])
    assert labelled.similar.dtype == bool
    assert labelled.similar.tolist() == [True, False]
    assert labelled.y.dtype == np.int8
    assert labelled.y.tolist() == [1, -1]
    bare = Pairs(X, [0, 1], [1, 2])
    assert bare.similar is None
    assert bare.y is None
    assert bare[:1].similar is None
    assert (len(bare), bare.shape, bare.n_features) == (2, (2, 2, 3), 3)
    assert repr(bare) == "<Pairs: 2 over X of shape (4, 3), float64>"
    triplets = Triplets(sp.csr_array(X), [0], [1], [2])
    assert (len(triplets), triplets.shape, triplets.n_features) == (1, (1, 3, 3), 3)
    assert repr(triplets) == "<Triplets: 1 over X of shape (4, 3), float64 CSR>"


@pytest.mark.parametrize("route", [lambda p: p, lambda p: p[[1, 0]], lambda p: pickle.loads(pickle.dumps(p))])
def test_immutable_by_every_route(route: Any) -> None:
    left = np.array([0, 1])
    pairs = route(Pairs(X, left, [1, 2], [True, False]))
    left[0] = 99  # the caller's array stays the caller's
    assert sorted(pairs.left.tolist()) == [0, 1]
    for array in (pairs.left, pairs.right, pairs.similar):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    for name in ("X", "left", "similar", "anything"):
        with pytest.raises(AttributeError, match=name):
            setattr(pairs, name, left)
    with pytest.raises(AttributeError, match="left"):
        del pairs.left


def test_copies_are_equal() -> None:
    triplets = Triplets(X, [0, 1], [1, 2], [2, 3])
    for other in (pickle.loads(pickle.dumps(triplets)), copy.copy(triplets), copy.deepcopy(triplets)):
        np.testing.assert_array_equal(other.X, X)
        for name in ("anchor", "positive", "negative"):
            np.testing.assert_array_equal(getattr(other, name), getattr(triplets, name))


# Selection


def keys(n: int) -> st.SearchStrategy[Any]:
    numbers = st.integers(-n, n - 1)
    return st.one_of(
        st.slices(n),
        st.lists(numbers, max_size=2 * n),
        st.lists(numbers, max_size=2 * n).map(lambda key: np.array(key, dtype=np.int32)),
        st.lists(numbers.map(abs).filter(lambda k: k < n)).map(lambda key: np.array(key, dtype=np.uint64)),
        hnp.arrays(bool, n),
        hnp.arrays(bool, n).map(np.ndarray.tolist),
    )


@moderate
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), keys(n))), st.booleans())
def test_selection_is_that_of_arrays(n_and_key: tuple[int, Any], with_ellipsis: bool) -> None:
    n, key = n_and_key
    rng = np.random.default_rng(n)
    columns = rng.integers(4, size=(3, n))
    similar = rng.random(n) < 0.5
    expected = np.arange(n)[key if not isinstance(key, list) or key else np.array([], dtype=int)]
    pairs = Pairs(X, columns[0], columns[1], similar)
    chosen = pairs[key, ...] if with_ellipsis else pairs[key]
    assert isinstance(chosen, Pairs)
    assert chosen.X is pairs.X
    np.testing.assert_array_equal(chosen.left, columns[0][expected])
    np.testing.assert_array_equal(chosen.right, columns[1][expected])
    np.testing.assert_array_equal(chosen.similar, similar[expected])
    assert chosen.left.flags.c_contiguous
    triplets = Triplets(X, *columns)[key]
    for name, column in zip(("anchor", "positive", "negative"), columns, strict=True):
        np.testing.assert_array_equal(getattr(triplets, name), column[expected])


@pytest.mark.parametrize("key", [1, np.int64(1), -1, np.array(1)])
def test_one_number_selects_a_length_of_one(key: Any) -> None:
    one = Pairs(X, [0, 1], [2, 3], [False, True])[key]
    assert (one.left.tolist(), one.right.tolist(), one.similar.tolist()) == ([1], [3], [True])


@pytest.mark.parametrize("key", [5, [0, 2], 0.5, ["a"], None, (0, 1), [[0]], [True, False, True]])
def test_wrong_keys(key: Any) -> None:
    with pytest.raises(IndexError):
        Pairs(X, [0, 1], [2, 3])[key]


def test_selection_does_not_check_x_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = Pairs(X, [0, 1], [2, 3])
    monkeypatch.setattr(comparisons, "check_rows", None)
    assert len(pairs[:1]) == len(pairs[[1]]) == len(pickle.loads(pickle.dumps(pairs))[1]) == 1


def mean_distance() -> Any:
    """An estimator of a local class, which worker processes are sent whole: they cannot import this file."""

    class MeanDistance(BaseEstimator):
        """Calls a pair similar if it is nearer than `scale` times the mean distance of the training pairs."""

        def __init__(self, scale: float = 1.0) -> None:
            self.scale = scale

        def fit(self, pairs: Pairs, y: Any = None) -> Any:
            self.threshold_ = self.scale * np.linalg.norm(pairs.differences(), axis=1).mean()
            return self

        def score(self, pairs: Pairs, y: Any = None) -> float:
            near = np.linalg.norm(pairs.differences(), axis=1) < self.threshold_
            return float(np.mean(near == pairs.similar))

    return MeanDistance()


def separated_pairs() -> Pairs:
    y = np.repeat([0, 1], 20)
    rows = 10.0 * y[:, None] + np.random.default_rng(0).random((40, 2))
    return Pairs.from_labels(rows, y, random_state=0)


def test_scikit_learn_splits() -> None:
    pairs = separated_pairs()
    for splitter in (KFold(4), StratifiedKFold(4)):
        tests = [pairs[test] for _, test in splitter.split(pairs, pairs.y)]
        assert set().union(*map(similarity_of, tests)) == similarity_of(pairs)
        assert sum(map(len, tests)) == len(pairs) == 80
    train, test, y_train, y_test = train_test_split(pairs, pairs.y, test_size=0.25, stratify=pairs.y, random_state=0)
    assert (len(train), len(test)) == (60, 20)
    np.testing.assert_array_equal(train.y, y_train)
    np.testing.assert_array_equal(test.y, y_test)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_scikit_learn_model_selection(n_jobs: int | None) -> None:
    pairs = separated_pairs()
    assert cross_val_score(mean_distance(), pairs, n_jobs=n_jobs).tolist() == [1.0] * 5
    search = GridSearchCV(mean_distance(), {"scale": [0.01, 1.0]}, n_jobs=n_jobs).fit(pairs)
    assert search.best_params_ == {"scale": 1.0}
    assert search.best_estimator_.threshold_ == mean_distance().fit(pairs).threshold_


# Items of their own

ITEMS = np.arange(10, dtype=np.float32).reshape(5, 2)


def test_items_are_kept_beside_x() -> None:
    items = sp.csr_array(ITEMS)
    triplets = Triplets(X, [0, 3], [4, 1], [2, 4], items=items)
    assert triplets.X is not triplets.items
    assert np.shares_memory(triplets.X, X)
    assert np.shares_memory(triplets.items.data, items.data)
    assert triplets.items.dtype == np.float32
    assert (triplets.n_features, triplets.n_item_features, triplets.shape) == (3, 2, (2, 3, 3))
    assert repr(triplets) == "<Triplets: 2 over X of shape (4, 3), float64, items of shape (5, 2)>"
    without = Triplets(X, [0], [1], [2])
    assert without.items is None
    assert without.n_item_features == without.n_features == 3
    assert Pairs(X, [0], [1]).items is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_items_may_be_frames(frame: Any) -> None:
    rows = frame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    triplets = Triplets(rows, [1], [0], [2], items=frame({"c": [5.0, 6.0, 7.0]}))
    assert triplets.feature_names == ("a", "b")  # those of the anchors
    np.testing.assert_array_equal(triplets.items, [[5.0], [6.0], [7.0]])


def test_untidy_items_become_tidy() -> None:
    dense = np.array([[0.0, 2.0, 4.0], [6.0, 0.0, 0.0]])
    items = Triplets(X, [0], [0], [1], items=untidy_csr(dense)).items
    assert items.has_canonical_format
    np.testing.assert_array_equal(items.toarray(), dense)


@moderate
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), keys(n))))
def test_selection_keeps_items(n_and_key: tuple[int, Any]) -> None:
    n, key = n_and_key
    rng = np.random.default_rng(n)
    anchor, (positive, negative) = rng.integers(4, size=n), rng.integers(5, size=(2, n))
    triplets = Triplets(X, anchor, positive, negative, items=ITEMS)
    expected = np.arange(n)[key if not isinstance(key, list) or key else np.array([], dtype=int)]
    for chosen in (triplets[key], pickle.loads(pickle.dumps(triplets))[key], copy.deepcopy(triplets)[key]):
        np.testing.assert_array_equal(chosen.anchor, anchor[expected])
        np.testing.assert_array_equal(chosen.positive, positive[expected])
        np.testing.assert_array_equal(chosen.negative, negative[expected])
        np.testing.assert_array_equal(chosen.items, ITEMS)
        assert chosen.n_item_features == 2
        assert chosen.items.dtype == np.float32
        with pytest.raises(AttributeError, match="items"):
            chosen.items = X
        for column in (chosen.anchor, chosen.positive, chosen.negative):
            assert not column.flags.writeable
    assert triplets[key].items is triplets.items


def test_row_numbers_are_those_of_x_and_of_the_items() -> None:
    Triplets(X, [3], [4], [4], items=ITEMS)
    with pytest.raises(ValueError, match="anchor must hold row numbers from 0 to 3, got 4"):
        Triplets(X, [4], [4], [4], items=ITEMS)
    for column in ("positive", "negative"):
        numbers = {"anchor": [0], "positive": [0], "negative": [0]} | {column: [5]}
        with pytest.raises(ValueError, match=f"{column} must hold row numbers from 0 to 4, got 5"):
            Triplets(X, **numbers, items=ITEMS)
    for items, message in (
        (np.where(ITEMS == 3, np.nan, ITEMS), "items contains NaN"),
        (np.where(ITEMS == 3, np.inf, ITEMS), "items contains infinity"),
        (ITEMS.astype(float) * 1e60, "items has values as large as"),
        (ITEMS[0], "2D array"),
        (ITEMS[:0], "sample"),
        (ITEMS[:, :0], "feature"),
        ([["a"]], "could not convert|numeric"),
    ):
        with pytest.raises(ValueError, match=message):
            Triplets(X, [0], [0], [0], items=items)


# From one array


def test_from_array_is_a_view() -> None:
    array = np.random.default_rng(0).random((5, 2, 3)).astype(np.float32)
    pairs = Pairs.from_array(array, [1, 1, -1, -1, 1])
    assert np.shares_memory(pairs.X, array)
    assert pairs.X.dtype == np.float32
    np.testing.assert_array_equal(pairs.X[pairs.left], array[:, 0])
    np.testing.assert_array_equal(pairs.X[pairs.right], array[:, 1])
    assert pairs.y.tolist() == [1, 1, -1, -1, 1]
    assert Pairs.from_array(array).y is None
    array = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
    triplets = Triplets.from_array(array)
    assert np.shares_memory(triplets.X, array)
    for role, name in enumerate(("anchor", "positive", "negative")):
        np.testing.assert_array_equal(triplets.X[getattr(triplets, name)], array[:, role])
    np.testing.assert_array_equal(Pairs.from_array(array[:, ::2]).differences(), [[-4, -4]] * 4)


@pytest.mark.parametrize("shape", [(4,), (4, 2), (4, 3, 2), (4, 2, 2, 2)])
def test_from_array_of_a_wrong_shape(shape: tuple[int, ...]) -> None:
    message = re.escape(f"array must have the shape (n, 2, n_features), got {shape}")
    with pytest.raises(ValueError, match=message):
        Pairs.from_array(np.zeros(shape))


@pytest.mark.parametrize(("shape", "what"), [((0, 2, 3), "sample"), ((4, 2, 0), "feature")])
def test_from_an_empty_array(shape: tuple[int, ...], what: str) -> None:
    with pytest.raises(ValueError, match=f"array with 0 {what}"):
        Pairs.from_array(np.zeros(shape))


def test_triplets_from_pairs_of_rows() -> None:
    with pytest.raises(ValueError, match=r"array must have the shape \(n, 3, n_features\), got \(4, 2, 5\)"):
        Triplets.from_array(np.zeros((4, 2, 5)))


# Differences


@moderate
@given(
    hnp.arrays(
        st.sampled_from([np.uint8, np.int16, np.float32, np.float64]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.integers(0, 255),
    ),
    st.sampled_from([np.ascontiguousarray, np.asfortranarray, sp.csr_matrix, sp.csr_array, untidy_csr]),
    st.data(),
)
def test_differences_are_those_of_python_floats(dense: NDArray[Any], layout: Any, data: st.DataObject) -> None:
    if dense.dtype.kind == "f":
        dense /= np.float32(3)  # differences that float32 would round
    row = st.integers(0, len(dense) - 1)
    drawn = data.draw(st.lists(st.tuples(row, row), max_size=10))
    left, right = [i for i, _ in drawn], [j for _, j in drawn]
    start, stop = data.draw(st.integers(0, 11)), data.draw(st.none() | st.integers(0, 11))
    pairs = Pairs(layout(dense), left, right)
    rows = dense.tolist()
    expected = [[a - b for a, b in zip(rows[i], rows[j], strict=True)] for i, j in drawn]
    found = pairs.differences(start, stop)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    assert found.flags.writeable
    np.testing.assert_array_equal(found, np.array(expected[start:stop]).reshape(-1, dense.shape[1]))


def test_differences_never_wrap_around() -> None:
    for dtype in (np.bool_, np.uint8, np.uint64):
        rows = np.array([[0], [1]], dtype=dtype)
        for held in (rows, sp.csr_array(rows)):
            np.testing.assert_array_equal(Pairs(held, [0, 1], [1, 0]).differences(), [[-1.0], [1.0]])


# Pairs from classes

labels = st.one_of(
    st.lists(st.integers(-2, 2), min_size=2, max_size=14),
    st.lists(st.sampled_from(["a", "b", "éé"]), min_size=2, max_size=14),
    st.lists(st.booleans(), min_size=2, max_size=14),
)


@moderate
@given(labels, st.data())
def test_pairs_are_distinct_and_rightly_labelled(y: list[Any], data: st.DataObject) -> None:
    everything = every_pair(y)
    n = data.draw(st.integers(1, len(everything)))
    seed = data.draw(st.integers(0, 99))
    pairs = Pairs.from_labels(np.zeros((len(y), 1)), y, n, random_state=seed)
    assert len(pairs) == n
    assert (pairs.left < pairs.right).all()
    assert len(similarity_of(pairs)) == n
    assert similarity_of(pairs) <= everything


@moderate
@given(labels, st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1]), st.data())
def test_balance_is_exact(y: list[Any], balance: float, data: st.DataObject) -> None:
    everything = every_pair(y)
    same = sum(s for _, _, s in everything)
    n = data.draw(st.integers(1, len(everything)))
    similar = round(n * balance)
    arguments: dict[str, Any] = {"n": n, "balance": balance, "random_state": 0}
    if len(set(y)) == 1 and balance != 1:
        with pytest.raises(ValueError, match="y must hold at least two classes"):
            Pairs.from_labels(np.zeros((len(y), 1)), y, **arguments)
    elif similar > same or n - similar > len(everything) - same:
        kind = f"{similar} similar pairs, but only {same}"
        if similar <= same:
            kind = f"{n - similar} dissimilar pairs, but only {len(everything) - same}"
        with pytest.raises(ValueError, match=f"n={n} with balance={balance:g} asks for {kind}"):
            Pairs.from_labels(np.zeros((len(y), 1)), y, **arguments)
    else:
        pairs = Pairs.from_labels(np.zeros((len(y), 1)), y, **arguments)
        assert (len(pairs), pairs.similar.sum()) == (n, similar)
        assert len(similarity_of(pairs)) == n
        assert similarity_of(pairs) <= everything


@moderate
@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=40).filter(lambda y: len(set(y)) > 1),
    st.sampled_from([None, 0, 0.01, 0.3, 0.5, 0.95, 1]),
)
def test_auto_is_as_many_as_there_are(y: list[int], balance: float | None) -> None:
    rows = np.zeros((len(y), 1))
    everything = every_pair(y)
    same = sum(s for _, _, s in everything)
    target = 40 * len(set(y)) * (len(set(y)) - 1)
    if balance is None:
        expected = min(target, len(everything))
    elif same == 0 and balance > 0:
        with pytest.raises(ValueError, match=r"n='auto' with balance=.* similar pairs, but only 0"):
            Pairs.from_labels(rows, y, balance=balance)
        return
    else:
        enough = [
            round(n * balance) <= same and n - round(n * balance) <= len(everything) - same for n in range(target + 1)
        ]
        expected = max(n for n in range(target + 1) if enough[n])
    pairs = Pairs.from_labels(rows, y, balance=balance, random_state=0)
    assert len(pairs) == len(similarity_of(pairs)) == expected
    if balance is not None:
        assert pairs.similar.sum() == round(expected * balance)


@pytest.mark.parametrize("balance", [None, 0.1])
def test_a_draw_that_often_repeats_itself_is_still_distinct(balance: float | None) -> None:
    for seed in range(10):
        pairs = Pairs.from_labels(np.zeros((60, 1)), np.arange(60) % 3, 400, balance=balance, random_state=seed)
        assert len(similarity_of(pairs)) == len(pairs) == 400


@pytest.mark.parametrize("n", [1, 2, 9])  # the last by permutation, the others by rejection
def test_pairs_are_uniform_and_in_random_order(n: int) -> None:
    y = [0, 1, 0, 2, 0, 1]
    rng = np.random.RandomState(0)
    first, last = Counter[Any](), Counter[Any]()
    for _ in range(2000):
        pairs = Pairs.from_labels(np.zeros((6, 1)), y, n, random_state=rng)
        first[pairs.left[0], pairs.right[0]] += 1
        last[pairs.left[-1], pairs.right[-1]] += 1
    for counts in (first, last):
        assert_uniform(counts, set(itertools.combinations(range(6), 2)))


def test_balanced_pairs_are_uniform_within_their_kind() -> None:
    y = [0, 1, 0, 2, 0, 1]
    rng = np.random.RandomState(0)
    kinds: dict[bool, Counter[Any]] = {True: Counter(), False: Counter()}
    first = Counter[Any]()
    for _ in range(2000):
        pairs = Pairs.from_labels(np.zeros((6, 1)), y, 3, balance=1 / 3, random_state=rng)
        first[bool(pairs.similar[0])] += 1
        for similar, counts in kinds.items():
            where = np.flatnonzero(pairs.similar == similar)[0]
            counts[pairs.left[where], pairs.right[where], similar] += 1
    assert abs(first[True] / 2000 - 1 / 3) < 0.04
    for similar, counts in kinds.items():
        assert_uniform(counts, {pair for pair in every_pair(y) if pair[2] == similar})


@pytest.mark.parametrize("balance", [None, 0.5])
def test_more_pairs_than_32_bits_count(balance: float | None) -> None:
    n_rows = 100_000
    rows, y = np.zeros((n_rows, 1), dtype=np.uint8), np.arange(n_rows) % 2
    tracemalloc.start()
    pairs = Pairs.from_labels(rows, y, 50_000, balance=balance, random_state=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6  # bytes; there are 5e9 pairs
    assert len(similarity_of(pairs)) == 50_000
    np.testing.assert_array_equal(pairs.similar, y[pairs.left] == y[pairs.right])
    tenths = Counter((np.r_[pairs.left, pairs.right] // (n_rows // 10)).tolist())
    assert_uniform(tenths, set(range(10)))
    # Of two uniform rows the smaller lies at a third on average, with a standard deviation of 0.236.
    assert abs(pairs.left.mean() / n_rows - 1 / 3) < 5 * 0.236 / np.sqrt(50_000)


def test_all_pairs_of_one_class() -> None:
    for balance in (None, 1, np.float32(1)):
        pairs = Pairs.from_labels(X, ["a"] * 4, 6, balance=balance)
        assert similarity_of(pairs) == every_pair(["a"] * 4)


@pytest.mark.parametrize("sampler", [Pairs, Triplets])
def test_seeds(sampler: Any) -> None:
    y = np.arange(30) % 3
    rows = np.zeros((30, 1))

    def draw(seed: Any) -> list[int]:
        held = sampler.from_labels(rows, y, 50, random_state=seed)
        return np.concatenate([getattr(held, name) for name in held._names[:2]]).tolist()

    assert draw(3) == draw(3) == draw(np.random.RandomState(3)) != draw(4)
    assert draw(np.random.default_rng(3)) == draw(np.random.default_rng(3)) != draw(3)
    for state in (np.random.RandomState(3), np.random.default_rng(3), None):
        assert draw(state) != draw(state)  # it moves on


@pytest.mark.parametrize(
    "y",
    [
        ["a", "a", "b", "b"],
        np.array([1.5, 1.5, 0.0, 0.0]),
        np.array(["x", "x", "y", "y"], dtype=object),
        np.array(["x", "x", "y", "y"], dtype=np.dtypes.StringDType()),
        pd.Series([7, 7, 3, 3], index=[9, 8, 7, 6]),
        pd.Series(["u", "u", "v", "v"]),
        pd.Series(["u", "u", "v", "v"], dtype="category"),
        pl.Series(["u", "u", "v", "v"]),
    ],
    ids=lambda y: f"{type(y).__name__}-{getattr(y, 'dtype', 'str')}",
)
def test_kinds_of_labels(y: Any) -> None:
    assert similarity_of(Pairs.from_labels(X, y)) == every_pair([0, 0, 1, 1])
    triplets = Triplets.from_labels(X, y, 50)
    np.testing.assert_array_equal(triplets.positive, triplets.anchor ^ 1)


@pytest.mark.parametrize("sampler", [Pairs, Triplets])
@pytest.mark.parametrize(
    "y",
    [
        [0.0, np.nan, 1.0, 1.0],
        ["a", np.nan, "b", "b"],
        ["a", None, "b", "b"],
        [1, None, 2, 2],
        np.array(["a", np.nan, "b", "b"], dtype=object),
        np.array(["2020", "NaT", "2021", "2021"], dtype="datetime64[Y]"),
        np.array(["a", pd.NA, "b", "b"], dtype=object),
        pd.Series([1, None, 2, 2], dtype="Int64"),
        pd.Series(["a", None, "b", "b"]),
        pd.Series(["a", None, "b", "b"], dtype="category"),
        pl.Series(["a", None, "b", "b"]),
    ],
    ids=repr,
)
def test_missing_labels(sampler: Any, y: Any) -> None:
    with pytest.raises(ValueError, match=r"y must hold a class for each row, got .* for row 1"):
        sampler.from_labels(X, y)


# Triplets from classes


@moderate
@given(labels.filter(lambda y: 1 < len(set(y)) < len(y)), st.integers(0, 99))
def test_triplets_join_a_class_and_leave_it(y: list[Any], seed: int) -> None:
    triplets = Triplets.from_labels(np.zeros((len(y), 1)), y, 200, random_state=seed)
    array = np.array(y)
    assert triplets.shape == (200, 3, 1)
    assert (triplets.anchor != triplets.positive).all()
    np.testing.assert_array_equal(array[triplets.anchor], array[triplets.positive])
    assert (array[triplets.anchor] != array[triplets.negative]).all()


def test_triplets_are_uniform() -> None:
    y = [1, 0, 1, 2, 1, 0]  # the row of class 2 is no anchor, and is a negative of all others
    triplets = Triplets.from_labels(np.zeros((6, 1)), y, random_state=0)
    assert len(triplets) == 100_000
    drawn = np.stack([triplets.anchor, triplets.positive, triplets.negative], axis=1)
    assert_uniform(Counter(drawn[:, 0].tolist()), {0, 1, 2, 4, 5})
    for anchor in (0, 1, 2, 4, 5):
        choices = {
            (p, n)
            for p, n in itertools.product(range(6), repeat=2)
            if p != anchor and y[p] == y[anchor] and y[n] != y[anchor]
        }
        assert_uniform(Counter(map(tuple, drawn[drawn[:, 0] == anchor, 1:].tolist())), choices)


# Errors name the argument


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Pairs([[np.nan]], [0], [0]), "X contains NaN"),
        (lambda: Pairs(X, [4], [0]), "left must hold row numbers from 0 to 3, got 4"),
        (lambda: Pairs(X, [0], [-1]), "right must hold row numbers"),
        (lambda: Pairs(X, [0], [0.5]), "right must hold integer"),
        (lambda: Pairs(X, [0, 1], [0]), r"left, right must have the same length, got \[2, 1\]"),
        (lambda: Pairs(X, [0], [1], [0]), "similar must hold booleans"),
        (lambda: Pairs(X, [0], [1], [True, False]), "similar must be a 1-D array"),
        (lambda: Pairs.from_array(np.zeros((2, 2, 1)), [True]), "similar must be a 1-D array"),
        (lambda: Pairs.from_array(np.full((2, 2, 1), np.inf)), "array contains infinity"),
        (lambda: Triplets(X, [4], [0], [0]), "anchor must hold row numbers"),
        (lambda: Triplets(X, [0], [4], [0]), "positive must hold row numbers"),
        (lambda: Triplets(X, [0], [0], [4]), "negative must hold row numbers"),
        (
            lambda: Triplets(X, [0], [0], [0, 1]),
            r"anchor, positive, negative must .* length, got \[1, 1, 2\]",
        ),
        (lambda: Pairs.from_labels(X, [0, 1]), "y must be 1-D with a label for each of the 4 rows"),
        (lambda: Pairs.from_labels(X, [[0]] * 4), r"y must be 1-D .* got shape \(4, 1\)"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], 7), "n=7 asks for 7 pairs, but only 6 are available"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], 0), "n must be 'auto' or a positive integer, got 0"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], "all"), "n must be 'auto' or"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], True), "n must be 'auto' or"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], 2.0), "n must be 'auto' or"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], balance=1.1), r"balance must be .* got 1\.1"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], balance=np.nan), "balance must be .* got nan"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], balance="half"), "balance must be"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], random_state="x"), "random_state must be"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], random_state=-1), "random_state must be"),
        (lambda: Pairs.from_labels(X, [0, 0, 0, 0]), "y must hold at least two classes"),
        (lambda: Triplets.from_labels(X, [0, 0, 0, 0]), "y must hold at least two classes"),
        (lambda: Triplets.from_labels(X, [0, 1, 2, 3]), "y must hold a class of at least two rows"),
        (lambda: Triplets.from_labels(X, [0, 0, 1, 1], "auto"), "n must be a positive integer"),
        (lambda: Triplets.from_labels(X, [0, 0, 1]), "y must be 1-D"),
    ],
)
def test_errors_name_the_argument(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_labels_of_mixed_types() -> None:
    with pytest.raises(TypeError, match="y must hold labels of one type"):
        Pairs.from_labels(X, ["a", 1, "a", 1])
