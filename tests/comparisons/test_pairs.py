"""Pairs against brute force: labels, arrays and differences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from comparisons.cases import X, moderate, untidy_csr
from mahala.comparisons import Pairs, Triplets


def test_a_memory_map_stays_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    pairs = Pairs(mapped, [0, 1], [2, 3])
    assert np.shares_memory(pairs.X, mapped)
    np.testing.assert_array_equal(pairs.differences(), X[[0, 1]] - X[[2, 3]])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame: Any) -> None:
    rows = frame({"a": np.array([1, 2, 250], dtype=np.uint8), "b": np.array([5, 6, 7], dtype=np.uint8)})
    pairs = Pairs(rows, pd.Series([0, 2]), pl.Series([2, 1]), pd.Series([True, False]))
    assert pairs.X.dtype == np.uint8
    np.testing.assert_array_equal(pairs.differences(), [[-249, -2], [248, 1]])


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
    found = pairs[start:stop].differences()
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    assert found.flags.writeable
    np.testing.assert_array_equal(found, np.array(expected[start:stop]).reshape(-1, dense.shape[1]))


def test_differences_never_wrap_around() -> None:
    for dtype in (np.bool_, np.uint8, np.uint64):
        rows = np.array([[0], [1]], dtype=dtype)
        for held in (rows, sp.csr_array(rows)):
            np.testing.assert_array_equal(Pairs(held, [0, 1], [1, 0]).differences(), [[-1.0], [1.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Pairs([[np.nan]], [0], [0]), "X contains NaN"),
        (lambda: Pairs(X, [4], [0]), "left must hold row numbers from 0 to 3, got 4"),
        (lambda: Pairs(X, [0], [-1]), "right must hold row numbers"),
        (lambda: Pairs(X, [0], [0.5]), "right must hold integer"),
        (lambda: Pairs(X, [0, 1], [0]), r"left, right must have the same length, got \[2, 1\]"),
        (lambda: Pairs(X, [0], [1], [0]), "similar must hold booleans"),
        (lambda: Pairs(X, [0], [1], [True, False]), "similar must be 1-D"),
        (lambda: Pairs.from_array(np.zeros((2, 2, 1)), [True]), "similar must be 1-D"),
        (lambda: Pairs.from_array(np.full((2, 2, 1), np.inf)), "array contains infinity"),
    ],
)
def test_errors_name_the_argument(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
