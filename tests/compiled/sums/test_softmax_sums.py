"""The softmax over neighbours, by lists and row by row, against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.compiled.sums import softmax_sums
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


@pytest.mark.parametrize("listed", [True, False], ids=["lists", "whole rows"])
@given(case=labelled_rows(), rows=st.integers(1, 40), most=st.integers(1, 30), scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_it_is_the_definition(listed, case, rows, most, scale):
    Z, codes = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax_sums, "BLOCK_BYTES", 8 * rows * rows)
        patch.setattr(softmax_sums, "LIST_FROM", 2 if listed else 10**9)
        patch.setattr(softmax_sums, "WIDE", 1)
        patch.setattr(softmax_sums, "MOST_LISTED", most)
        patch.setattr(softmax_sums, "SHARE", 1)
        patch.setattr(softmax_sums, "N_SAMPLES", 3)
        check(Z * scale, codes)


@pytest.mark.parametrize("wide", [1, 10])
@pytest.mark.parametrize("scale", [0.1, 1.0, 4.0])
def test_larger_sets_by_both_ways_at_once(scale, wide, monkeypatch):
    """Clusters in which some rows have many near neighbours and others few."""
    rng = np.random.default_rng(0)
    Z = scale * np.concatenate([0.2 * rng.normal(size=(60, 5)), 3.0 * rng.normal(size=(90, 5))])
    codes = rng.integers(0, 3, size=150)
    monkeypatch.setattr(softmax_sums, "LIST_FROM", 2)
    monkeypatch.setattr(softmax_sums, "WIDE", wide)
    monkeypatch.setattr(softmax_sums, "MOST_LISTED", 80)
    monkeypatch.setattr(softmax_sums, "SHARE", 3)
    check(Z, codes)


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_in_single_precision(scale):
    rng = np.random.default_rng(0)
    Z, codes = scale * rng.normal(size=(900, 8)), rng.integers(0, 4, size=900)
    value, pull = sum_softmax(Z.astype(np.float32), codes)
    expected, expected_pull = sum_softmax(Z, codes)
    assert pull.dtype == np.float32
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(pull, expected_pull, rtol=1e-3, atol=1e-4 * np.abs(expected_pull).max())
