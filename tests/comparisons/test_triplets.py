"""Triplets, and their items."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from comparisons.cases import X, keys, moderate, untidy_csr
from mahala.comparisons import Pairs, Triplets

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


def test_triplets_from_pairs_of_rows() -> None:
    with pytest.raises(ValueError, match=r"array must have the shape \(n, 3, n_features\), got \(4, 2, 5\)"):
        Triplets.from_array(np.zeros((4, 2, 5)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Triplets(X, [4], [0], [0]), "anchor must hold row numbers"),
        (lambda: Triplets(X, [0], [4], [0]), "positive must hold row numbers"),
        (lambda: Triplets(X, [0], [0], [4]), "negative must hold row numbers"),
        (lambda: Triplets(X, [0], [0], [0, 1]), r"anchor, positive, negative must .* length, got \[1, 1, 2\]"),
    ],
)
def test_errors_name_the_argument(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
