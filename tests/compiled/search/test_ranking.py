"""Rankings and their precision against lists sorted by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from mahala.compiled.search.ranking import retrieval


@st.composite
def scored(draw):
    """Scores of queries × items with many ties, and class codes of both."""
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    scores = draw(hnp.arrays(np.float64, (n, m), elements=st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1.0, 2.0])))
    codes = hnp.arrays(np.intp, n + m, elements=st.integers(0, 2))
    both = draw(codes)
    return scores, both[:n], both[n:]


def blocks_of(scores, cut=0):
    return [(slice(0, cut), scores[:cut]), (slice(cut, len(scores)), scores[cut:])]


def shares(scores, relevant, k):
    """The expected number of relevant items among the first k, over every order that sorts the scores."""
    found, n = Fraction(0), 0
    for order in permutations(range(len(scores))):
        ranked = [scores[j] for j in order]
        if all(a >= b for a, b in pairwise(ranked)):
            found += sum(relevant[j] for j in order[:k])
            n += 1
    return float(found / n)


@given(case=scored())
def test_average_precisions_are_those_of_scikit_learn(case):
    scores, query_codes, item_codes = case
    scores = np.maximum(scores, -9.0)  # scikit-learn takes no infinities
    average, found = retrieval(blocks_of(scores), query_codes, item_codes)
    assert found.shape == (0,)
    for i, row in enumerate(scores):
        relevant = item_codes == query_codes[i]
        if relevant.any():
            assert average[i] == pytest.approx(average_precision_score(relevant, row))
        else:
            assert np.isnan(average[i])


@given(case=scored(), data=st.data())
def test_hits_are_the_mean_over_all_orders_of_ties(case, data):
    scores, query_codes, item_codes = case
    scores, item_codes = scores[:, :5], item_codes[:5]
    n_top = data.draw(st.integers(1, scores.shape[1]))
    expected = np.zeros(n_top)
    for row, code in zip(scores, query_codes, strict=True):
        if code in item_codes:
            expected += [shares(row, item_codes == code, k) for k in range(1, n_top + 1)]
    np.testing.assert_allclose(retrieval(blocks_of(scores), query_codes, item_codes, n_top)[1], expected)


@given(case=scored(), data=st.data())
def test_blocks_and_the_order_of_items_do_not_matter(case, data):
    scores, query_codes, item_codes = case
    n, m = scores.shape
    expected = retrieval(blocks_of(scores), query_codes, item_codes, n_top=m)
    cut = data.draw(st.integers(0, n))
    order = data.draw(st.permutations(range(m)))
    result = retrieval(iter(blocks_of(scores[:, order], cut)), query_codes, item_codes[order], n_top=m)
    np.testing.assert_allclose(result[0], expected[0])
    np.testing.assert_allclose(result[1], expected[1])


@given(case=scored(), data=st.data())
def test_a_query_among_the_items_is_left_out(case, data):
    m = case[0].shape[1]
    codes = case[2]
    scores = data.draw(hnp.arrays(np.float64, (m, m), elements=st.sampled_from([0.0, 1.0, 2.0])))
    cut = data.draw(st.integers(0, m))
    average, found = retrieval(blocks_of(scores, cut), codes, codes, n_top=m - 1, exclude_self=True)
    expected = np.zeros(m - 1)
    for i in range(m):
        others = np.arange(m) != i
        alone, hits = retrieval(blocks_of(scores[i : i + 1, others]), codes[i : i + 1], codes[others], n_top=m - 1)
        np.testing.assert_allclose(average[i], alone[0])
        expected += hits
    np.testing.assert_allclose(found, expected)


def test_a_score_that_is_no_number_ends():
    average, _ = retrieval(blocks_of(np.array([[np.nan, np.nan, 1.0]])), np.array([0]), np.array([0, 0, 0]))
    assert average.shape == (1,)
