"""Target distances of pairs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mahala
from mahala.comparisons import Pairs
from mahala.comparisons.target_distances import PERCENTILES, RATIO, check_targets, squared_distances, targets_for

TARGETS = st.just("auto") | st.floats(1e-3, 1e3)


@given(
    distances=st.lists(st.sampled_from([0.0, 1e-6, 0.5, 1.0, 7.0, 1e6]), max_size=20),
    similar=TARGETS,
    dissimilar=TARGETS,
)
def test_targets_are_positive_and_in_order_and_given_ones_are_kept(distances, similar, dissimilar):
    if similar != "auto" and dissimilar != "auto" and similar >= dissimilar:
        with pytest.raises(ValueError, match="similar_target must be below dissimilar_target"):
            check_targets(similar, dissimilar)
        return
    check_targets(similar, dissimilar)
    low, high = targets_for(np.array(distances), similar, dissimilar)
    assert 0.0 < low < high
    assert similar in ("auto", low)
    assert dissimilar in ("auto", high)


def test_auto_takes_percentiles_of_the_distances_that_are_not_zero():
    distances = np.random.default_rng(0).exponential(size=500)
    expected = np.percentile(distances, PERCENTILES)
    assert targets_for(np.append(distances, np.zeros(300)), "auto", "auto") == pytest.approx(expected)
    assert targets_for(distances, "auto", 1e-9) == pytest.approx((1e-9 / RATIO, 1e-9))
    assert targets_for(distances, 1e9, "auto") == (1e9, RATIO * 1e9)
    low, high = targets_for(np.full(9, 4.0), "auto", "auto")  # equal distances
    assert (high / low, (low + high) / 2) == pytest.approx((RATIO, 4.0))
    assert targets_for(np.zeros(3), "auto", "auto") == (0.5, 0.5 * RATIO)


@pytest.mark.parametrize("wrong", [0, -1.0, np.inf, np.nan, "all", None, True])
def test_wrong_targets_are_named(wrong):
    pairs = mahala.Pairs([[0.0], [1.0], [5.0]], [0, 0], [1, 2], [True, False])
    for name in ("similar_target", "dissimilar_target"):
        for kind in (mahala.LEGO, mahala.ITML):
            with pytest.raises(ValueError, match=f"^{name} must be 'auto' or a positive number( of at most .*)?, got"):
                kind(**{name: wrong}).fit(pairs)


@given(seed=st.integers(0, 99), form=st.sampled_from([np.asarray, sp.csr_array, np.float32]))
def test_squared_distances(seed, form):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, 3))
    left, right = rng.integers(0, 6, size=(2, 8))
    expected = ((X[left] - X[right]) ** 2).sum(axis=1)
    np.testing.assert_allclose(squared_distances(Pairs(form(X), left, right)), expected, rtol=1e-5, atol=1e-12)


def test_a_target_of_single_precision_is_compared_with_any_distance():
    assert targets_for(np.array([1e60, 1e61]), np.float32(0.5), "auto")[0] == 0.5
    assert targets_for(np.array([1e60, 1e61]), "auto", np.float32(0.5)) == (0.5 / 3.0, 0.5)
