"""Measures of rankings by grades against sums over all orders of ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compiled.search.test_ranking import scored, shares
from mahala_search.quality.ranking import judged


@given(case=scored(), data=st.data())
def test_judged_measures_count_what_is_expected_among_the_first(case, data):
    """Grades of 0 and items without a grade count alike; a query without relevant items has no measures."""
    scores = case[0][:, :5]
    n, m = scores.shape
    grades = data.draw(hnp.arrays(np.float64, (n, m), elements=st.sampled_from([-1.0, 0.0, 1.0, 2.0])))
    query, item = np.nonzero(grades >= 0)
    arguments = scores, np.searchsorted(query, np.arange(n + 1)), item, grades[query, item]
    ks = np.arange(1, m + 2)
    result = judged(*arguments, ks)
    for i in range(n):
        relevant = grades[i] > 0
        if not relevant.any():
            assert np.isnan(result[i]).all()
            continue
        found = [shares(scores[i], relevant, k) for k in ks]
        np.testing.assert_allclose(result[i, 3::4] * ks, found, rtol=1e-12)
        np.testing.assert_allclose(result[i, 4::4] * relevant.sum(), found, rtol=1e-12)
        assert result[i, -1] == pytest.approx(1.0)  # a hit among all items
    for c, k in enumerate(ks):
        np.testing.assert_array_equal(judged(*arguments, np.array([k]))[:, 2], result[:, 2 + 4 * c])
