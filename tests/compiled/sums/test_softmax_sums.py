"""The softmax over neighbours against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.compiled.sums import pair_sums, softmax_sums
from mahala.compiled.sums.softmax_sums import sum_softmax
from reference.pair_objectives import nca
from strategies import labelled_rows


@pytest.fixture(autouse=True, scope="module", params=[0, softmax_sums.FEW_PAIRS], ids=["compiled", "few pairs"])
def _both_ways(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax_sums, "FEW_PAIRS", request.param)
        yield


def softmax_pull(Z, codes):
    """Σ_ij w_ij (z_i - z_j) at i and its opposite at j, with w_ij = p_ij (p_i - [same class])."""
    pull = np.zeros_like(Z)
    for i in range(len(Z)):
        q = np.sum((Z[i] - Z) ** 2, axis=1)
        q[i] = np.inf
        p = np.exp(q.min() - q)
        p /= p.sum()
        same = codes == codes[i]
        for j in range(len(Z)):
            force = p[j] * (p[same].sum() - same[j]) * (Z[i] - Z[j])
            pull[i] += force
            pull[j] -= force
    return pull


def check(Z, codes):
    value, pull = sum_softmax(Z, codes)
    assert value == pytest.approx(len(Z) - nca(np.eye(Z.shape[1]), Z, codes), rel=1e-7, abs=1e-7)
    np.testing.assert_allclose(pull, softmax_pull(Z, codes), rtol=1e-6, atol=1e-7 * (1.0 + np.abs(Z).max()))


# Small blocks and both ways to take the pull.
@pytest.mark.parametrize("share", [1, 10**9], ids=["few", "many"])
@given(case=labelled_rows(), rows=st.integers(1, 40), scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_it_is_the_definition(share, case, rows, scale):
    Z, codes = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax_sums, "BLOCK_BYTES", 8 * rows * rows)
        patch.setattr(pair_sums, "SPARSE_SHARE", share)
        patch.setattr(pair_sums, "FEW_PRODUCTS", 0)
        check(Z * scale, codes)


@pytest.mark.parametrize("scale", [0.1, 1.0, 4.0])
def test_rows_with_many_and_with_few_near_neighbours(scale, monkeypatch):
    rng = np.random.default_rng(0)
    Z = scale * np.concatenate([0.2 * rng.normal(size=(30, 5)), 3.0 * rng.normal(size=(45, 5))])
    monkeypatch.setattr(softmax_sums, "BLOCK_BYTES", 8 * 75 * 20)
    monkeypatch.setattr(pair_sums, "FEW_PRODUCTS", 0)
    check(Z, rng.integers(0, 3, size=75))


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_in_single_precision(scale):
    rng = np.random.default_rng(0)
    Z, codes = scale * rng.normal(size=(900, 8)), rng.integers(0, 4, size=900)
    value, pull = sum_softmax(Z.astype(np.float32), codes)
    expected, expected_pull = sum_softmax(Z, codes)
    assert pull.dtype == np.float32
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(pull, expected_pull, rtol=1e-3, atol=1e-4 * np.abs(expected_pull).max())
