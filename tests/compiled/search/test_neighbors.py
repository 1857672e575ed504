"""Neighbours against a brute-force search in exact integers."""

from __future__ import annotations

import tracemalloc
from functools import reduce
from operator import add

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mahala.compiled.search import neighbors
from mahala.compiled.search.neighbors import nearest


@pytest.fixture(autouse=True, scope="module", params=[0, neighbors.FEW_PAIRS], ids=["compiled", "few pairs"])
def _both_ways(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "FEW_PAIRS", request.param)
        yield


def brute_force(reference, queries, k):
    """Rows sorted by (distance, row) one query at a time; Python's integers keep integer data exact.

    Terms are added one by one: from Python 3.12 on, `sum` of floats is more exact than that.
    """
    indices, squared = [], []
    for x in queries.tolist():
        found = sorted(
            (reduce(add, ((a - b) * (a - b) for a, b in zip(x, r, strict=True)), 0), j)
            for j, r in enumerate(reference.tolist())
        )[:k]
        indices.append([j for _, j in found])
        squared.append([s for s, _ in found])
    return np.array(indices).reshape(len(queries), k), np.array(squared, dtype=float).reshape(len(queries), k)


def check(reference, queries, k):
    indices, squared = nearest(reference, queries, k)
    expected_indices, expected_squared = brute_force(reference, queries, k)
    np.testing.assert_array_equal(indices, expected_indices)
    np.testing.assert_array_equal(squared, expected_squared)
    assert indices.dtype == np.intp
    assert squared.dtype == np.float64


@st.composite
def tied_points(draw):
    """Small integer points, where ties and duplicates are the rule, and a k."""
    d, n_reference, n_queries = draw(st.integers(0, 3)), draw(st.integers(1, 25)), draw(st.integers(0, 6))
    values = st.integers(-2, 2)
    reference = draw(hnp.arrays(np.int64, (n_reference, d), elements=values))
    queries = draw(hnp.arrays(np.int64, (n_queries, d), elements=values))
    return reference, queries, draw(st.integers(1, n_reference))


@given(tied_points())
def test_ties_are_ordered_by_row(points):
    check(*points)


@given(tied_points(), st.integers(1, 4))
def test_blocks_do_not_change_the_answer(points, step):
    reference, queries, k = points
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "BLOCK_BYTES", 8 * step**2)
        check(reference, queries, k)


@given(tied_points(), st.sampled_from([10**3, 10**7]), st.integers(0, 2**32 - 1))
def test_cancellation_loses_no_neighbour(points, spread, seed):
    # Clusters that lie 10⁷ apart with points a unit apart: the products alone are wrong by more than a unit.
    reference, queries, k = points
    rng = np.random.default_rng(seed)
    check(
        reference + spread * rng.integers(-1, 2, size=(len(reference), 1)),
        queries + spread * rng.integers(-1, 2, size=(len(queries), 1)),
        k,
    )


def test_far_from_the_origin():
    rng = np.random.default_rng(0)
    check(rng.integers(-9, 10, size=(300, 4)) + 2**50, rng.integers(-9, 10, size=(40, 4)) + 2**50, k=20)


def test_an_outlier_in_the_reference():
    rng = np.random.default_rng(0)
    reference = rng.integers(-20, 20, size=(200, 3))
    reference[17] = 10**8
    check(reference, rng.integers(-20, 20, size=(30, 3)), k=150)


@pytest.mark.parametrize("scale", [1.0, 2.0**-537, 2.0**180])
def test_powers_of_two_scale_the_distances(scale):
    # 2⁻⁵³⁷ squares to the smallest subnormal number, where relative error bounds no longer hold.
    rng = np.random.default_rng(1)
    reference, queries = rng.integers(-9, 9, size=(150, 2)), rng.integers(-9, 9, size=(30, 2))
    indices, squared = nearest(reference * scale, queries * scale, 12)
    expected_indices, expected_squared = brute_force(reference, queries, 12)
    np.testing.assert_array_equal(indices, expected_indices)
    np.testing.assert_array_equal(squared, expected_squared * scale**2)


@pytest.mark.parametrize("k", [1, 7, 149])
@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
def test_continuous_data(k, order):
    rng = np.random.default_rng(2)
    reference, queries = rng.normal(size=(150, 6)), rng.normal(size=(30, 6))
    if order != "random":
        reference = reference[np.argsort(reference[:, 0])][:: 1 if order == "ascending" else -1]
    check(reference, queries, k)


def test_duplicates_are_neighbours_of_each_other_at_exactly_zero():
    rng = np.random.default_rng(3)
    once = rng.normal(size=(20, 5)) + 1e9
    indices, squared = nearest(np.vstack([once, once]), np.vstack([once, once]), 2)
    np.testing.assert_array_equal(indices, np.tile(np.column_stack([np.arange(20), np.arange(20, 40)]), (2, 1)))
    np.testing.assert_array_equal(squared, 0.0)


def test_points_without_dimensions_are_all_equal():
    indices, squared = nearest(np.empty((4, 0)), np.empty((4, 0)), 3)
    np.testing.assert_array_equal(indices, [[0, 1, 2]] * 4)
    np.testing.assert_array_equal(squared, 0.0)


def test_work_space_is_bounded():
    X = np.random.default_rng(6).normal(size=(6000, 3))
    nearest(X[:2], X[:2], 1)  # the compiler's own memory does not count
    tracemalloc.start()
    try:
        nearest(X, X, 5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * 8 * len(X) ** 2


@pytest.mark.parametrize("convert", [np.float32, np.asfortranarray, sp.csr_array, sp.csr_matrix], ids=repr)
def test_layouts_and_dtypes(convert):
    rng = np.random.default_rng(4)
    reference, queries = rng.integers(0, 3, size=(80, 5)), rng.integers(0, 3, size=(11, 5))
    expected = nearest(reference, queries, 9)
    given = nearest(convert(reference), convert(queries), 9)
    np.testing.assert_array_equal(given[0], expected[0])
    np.testing.assert_array_equal(given[1], expected[1])


def test_float32_is_compared_in_float64():
    rng = np.random.default_rng(5)
    reference, queries = (rng.normal(size=(n, 4)).astype(np.float32) + 1000 for n in (200, 20))
    check(reference, queries, 15)


@pytest.mark.parametrize("k", [0, 4])
def test_k_out_of_range(k):
    with pytest.raises(ValueError, match="k must be from 1 to 3"):
        nearest(np.zeros((3, 1)), np.zeros((3, 1)), k)


def test_wrong_queries():
    with pytest.raises(ValueError, match="queries must have the 2 columns"):
        nearest(np.zeros((3, 2)), np.zeros((3, 1)), 1)
