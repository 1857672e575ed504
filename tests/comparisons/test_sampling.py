"""Pairs and triplets that are drawn from classes, against all that there are."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from comparisons.cases import X, every_pair, moderate, similarity_of
from mahala.comparisons import Pairs, Triplets
from mahala.comparisons.pairs import draw_pairs
from mahala.comparisons.triplets import draw_triplets


def assert_uniform(counts: Counter[Any], choices: set[Any]) -> None:
    assert set(counts) == choices
    expected = sum(counts.values()) / len(choices)
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < chi2.ppf(1 - 1e-4, len(choices) - 1)


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


@pytest.mark.parametrize("n", [2, 9])  # by rejection, and by permutation
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


def test_labels_of_mixed_types() -> None:
    with pytest.raises(TypeError, match="y must hold labels of one type"):
        Pairs.from_labels(X, ["a", 1, "a", 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Pairs.from_labels(X, [0, 1]), "y must be 1-D with a label for each of the 4 rows"),
        (lambda: Pairs.from_labels(X, [[0]] * 4), r"y must be 1-D .* got shape \(4, 1\)"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], 7), "n=7 asks for 7 pairs, but only 6 are available"),
        (lambda: Pairs.from_labels(X, [0, 0, 1, 1], 0), "n must be 'auto' or an integer of at least 1, got 0"),
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
        (lambda: Triplets.from_labels(X, [0, 0, 1, 1], "auto"), "n must be an integer of at least 1"),
        (lambda: Triplets.from_labels(X, [0, 0, 1]), "y must be 1-D"),
    ],
)
def test_errors_name_the_argument(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_huge_numbers_of_pairs_are_cut_down_and_of_triplets_refused():
    codes = np.array([0, 0, 1, 1])
    assert len(draw_pairs(codes, 10**30, None, 0, at_most=True)[0]) == 6
    assert len(draw_pairs(codes, 10**30, 0.5, 0, at_most=True)[0]) == 5
    with pytest.raises(MemoryError, match=r"n_triplets=10+ takes .* draw fewer"):
        draw_triplets(codes, 10**30, 0, name="n_triplets")


def test_near_rows_are_compared() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.repeat(["a", "b", "c"], [2, 8, 20])
    distances = np.square(X[:, None] - X).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    expected: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
    for similar, chosen in expected.items():
        masked = np.where((y[:, None] == y) == similar, distances, np.inf)
        for row, column in np.argwhere(np.argsort(np.argsort(masked, axis=1), axis=1) < 3):
            if masked[row, column] < np.inf:
                chosen.add((int(row), int(column)))
    pairs = Pairs.from_neighbors(X, y, n_neighbors=3)
    for similar, chosen in expected.items():
        own = pairs[pairs.similar == similar]
        assert set(zip(own.left.tolist(), own.right.tolist(), strict=True)) == chosen
        assert len(own) == len(chosen)
    triplets = Triplets.from_neighbors(X, y, n_neighbors=3)
    assert set(zip(triplets.anchor.tolist(), triplets.positive.tolist(), strict=True)) == expected[True]
    assert len(triplets) == 3 * len(expected[True])
    with pytest.raises(ValueError, match="X must be dense"):
        Pairs.from_neighbors(sp.csr_array(X), y)
