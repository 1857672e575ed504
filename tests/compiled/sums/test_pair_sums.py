"""Sums over pairs in blocks, and their pulls, against sums pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.compiled.sums import pair_sums
from mahala.compiled.sums.pair_sums import sum_between, sum_edges
from reference.pair_objectives import unordered_pairs
from strategies import labelled_rows

GML, ROOT = (1.0, -2.0, 1.0, 1.0), (0.0, 1.0, 0.0, np.inf)


def pair_by_pair(Z, left, right, a, b, c, cutoff):
    total, pull = 0.0, np.zeros_like(Z)
    for i, j in zip(left, right, strict=True):
        z = Z[i] - Z[j]
        d = np.sqrt(z @ z)
        if d >= cutoff:
            continue
        total += a + b * d + c * d * d
        if d > 0.0:
            force = (b / (2.0 * d) + c) * z
            pull[i] += force
            pull[j] -= force
    return total, pull


def dissimilar(codes):
    left, right, similar = unordered_pairs(codes)
    return left[~similar], right[~similar]


# Small blocks and both ways to take the pull.
@pytest.mark.parametrize("share", [1, 10**9], ids=["few", "many"])
@pytest.mark.parametrize("few_pairs", [0, 10**9], ids=["compiled", "NumPy"])
@pytest.mark.parametrize("function", [GML, ROOT], ids=["gml", "root"])
@given(case=labelled_rows(), rows=st.integers(1, 40))
def test_pairs_of_different_classes(share, few_pairs, function, case, rows):
    Z, codes = case
    expected, pull = pair_by_pair(Z, *dissimilar(codes), *function)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_sums, "BLOCK_BYTES", 8 * rows * rows)
        patch.setattr(pair_sums, "SPARSE_SHARE", share)
        patch.setattr(pair_sums, "FEW_PRODUCTS", 0)
        patch.setattr(pair_sums, "FEW_PAIRS", few_pairs)
        value, got = sum_between(Z, codes, function)
    # Distances that are rounding of the product count as zero; the largest error of a root is that of its square's.
    scale = np.abs(Z).max() + 1.0
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-6 * scale * len(Z) ** 2)
    apart = sum_edges(Z, *dissimilar(codes), function)
    assert apart[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(apart[1], pull, rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_allclose(got, pull, rtol=1e-5, atol=1e-6 * scale)


def test_in_single_precision():
    rng = np.random.default_rng(0)
    Z, codes = rng.normal(size=(500, 8)), rng.integers(0, 4, size=500)
    for function in (GML, ROOT):
        value, pull = sum_between(Z.astype(np.float32), codes, function)
        expected, expected_pull = sum_between(Z, codes, function)
        assert pull.dtype == np.float32
        assert value == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(pull, expected_pull, rtol=1e-3, atol=1e-4 * np.abs(expected_pull).max())
