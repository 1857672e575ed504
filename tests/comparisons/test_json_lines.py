"""Comparisons read from lines of JSON. What is wrong with a line is in tests/stream, with the whole stream."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mahala.comparisons import Pairs, Triplets
from mahala.comparisons.json_lines import LineError, PairReader, TripletReader

NUMBERS = st.floats(-1e45, 1e45) | st.integers(-(10**9), 10**9)
TEXTS = st.text('aé☃😀"\\/\n\x00 ', max_size=5)
OTHERS = st.dictionaries(TEXTS.map("my ".__add__), st.none() | st.booleans() | NUMBERS | TEXTS)


def line(**entries):
    return json.dumps(entries).encode() + b"\n"


@given(points=st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=2, max_size=2), others=OTHERS)
def test_a_pair_and_the_other_entries_are_read_exactly(points, others):
    comparison, rest = PairReader(widths=(3, 3)).read(line(x=points[0], x2=points[1], similar=False, **others))
    assert isinstance(comparison, Pairs)
    np.testing.assert_array_equal(comparison.X[[comparison.left[0], comparison.right[0]]], np.array(points, float))
    assert comparison.similar.tolist() == [False]
    assert rest == others


@given(points=st.lists(st.dictionaries(st.integers(0, 6), NUMBERS), min_size=3, max_size=3))
def test_objects_are_sparse_rows(points):
    given_points = dict(
        zip(TripletReader.keys, ({str(key): value for key, value in p.items()} for p in points), strict=True)
    )
    comparison, _ = TripletReader(widths=(7, 7)).read(line(**given_points))
    assert isinstance(comparison, Triplets)
    assert sp.issparse(comparison.X)
    assert comparison.X.has_canonical_format
    expected = [[float(p.get(column, 0.0)) for column in range(7)] for p in points]
    np.testing.assert_array_equal(comparison.X.toarray(), expected)


def test_queries_and_items_may_differ_in_width():
    comparison, _ = TripletReader().read(line(query=[1], positive=[1, 2], negative=[3, 4]))
    np.testing.assert_array_equal(comparison.X, [[1.0]])
    np.testing.assert_array_equal(comparison.items[[comparison.positive[0], comparison.negative[0]]], [[1, 2], [3, 4]])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_row_numbers_stand_for_rows_of_items(form):
    items = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    reader = PairReader(widths=(2, 2), items=form(items))
    comparison, _ = reader.read(line(x=2, x2=0, similar=True))
    rows = comparison.X.toarray() if sp.issparse(comparison.X) else comparison.X
    np.testing.assert_array_equal(rows, items[[2, 0]])
    with pytest.raises(LineError, match="x must be a row number from 0 to 2, got 3"):
        reader.read(line(x=3, x2=0, similar=True))


def test_features_by_name():
    reader = PairReader(widths=(2, 2), names=["age", "dose"])
    comparison, _ = reader.read(line(x={"dose": 5}, x2={"0": 1}, similar=True))
    np.testing.assert_array_equal(comparison.X.toarray(), [[0.0, 5.0], [1.0, 0.0]])
    numbered = PairReader(widths=(2, 2), names=["1", "0"])
    comparison, _ = numbered.read(line(x={"0": 5}, x2={}, similar=True))
    np.testing.assert_array_equal(comparison.X.toarray(), [[0.0, 5.0], [0.0, 0.0]])


def test_errors_name_arguments_of_the_library():
    with pytest.raises(LineError, match="x is an object, so the number of features must be known: give n_features"):
        PairReader().read(line(x={}, x2={}, similar=True))
    with pytest.raises(LineError, match=r"or \(if items are given\) a row number, got 7"):
        PairReader().read(line(x=7, x2=[1], similar=True))
    with pytest.raises(LineError, match="the key margin is reserved for the answer"):
        PairReader().read(line(x=[1], x2=[1], similar=True, margin=1))
    with pytest.raises(ValueError, match="items must be rows of numbers"):
        PairReader(items=np.array(["a"]))
