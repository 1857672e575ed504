"""The pairs on a page against loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.feedback.page_pairs import page_pairs

REACTIONS = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=8).map(np.array)


def reference(values, bias):
    pairs = {}
    for i, j in np.ndindex(len(values), len(values)):
        if values[i] > values[j] and not (bias == "skip-above" and j > i):
            weight = (values[i] - values[j]) / (values.max() - values.min())
            if isinstance(bias, float):
                weight *= ((i + 1) / len(values)) ** bias
            pairs[i, j] = weight
    return pairs


@given(REACTIONS, st.sampled_from([None, "skip-above", 0.0, 0.5, 2.0]))
def test_every_pair_has_its_weight(values, bias):
    better, worse, weights = page_pairs(values, bias)
    found = dict(zip(zip(better.tolist(), worse.tolist(), strict=True), weights, strict=True))
    assert found == pytest.approx(reference(values, bias), rel=1e-12)


def test_largest_numbers_do_not_overflow():
    better, worse, weights = page_pairs(np.array([-1e308, 1.7e308]), None)
    assert (better.tolist(), worse.tolist()) == ([1], [0])
    np.testing.assert_allclose(weights, 1.0, rtol=1e-12)
