"""Pairs of results on a page, and the losses of scores on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala_search.adapter.trust.pairs import page_losses, page_pairs

REACTIONS = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=8).map(np.array)


@given(REACTIONS)
def test_every_pair_has_its_weight(values):
    better, worse, weights = page_pairs(values)
    result = dict(zip(zip(better.tolist(), worse.tolist(), strict=True), weights, strict=True))
    span = values.max() - values.min()
    pairs = [(i, j) for i, j in np.ndindex(len(values), len(values)) if values[i] > values[j]]
    assert result == pytest.approx({(i, j): (values[i] - values[j]) / span for i, j in pairs}, rel=1e-12)


def test_losses_of_pairs_count_ties_half():
    scores = np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 1.0]])
    np.testing.assert_allclose(page_losses(scores, page_pairs(np.array([0.0, 0.0, 1.0]))), [1.0, 0.5])
    np.testing.assert_allclose(page_losses(scores, page_pairs(np.array([0.0, 1.0, 0.0]))), [0.25, 0.0])


def test_largest_numbers_do_not_overflow():
    better, worse, weights = page_pairs(np.array([-1e308, 1.7e308]))
    assert (better.tolist(), worse.tolist()) == ([1], [0])
    np.testing.assert_allclose(weights, 1.0, rtol=1e-12)
