"""Paired gains against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mahala_search.quality import paired
from mahala_search.quality.paired import PairedGain, paired_gains


def test_paired_gains_agree_with_scipy():
    rng = np.random.default_rng(0)
    n = 30
    differences = np.column_stack([rng.normal(0.3, 1.0, n), rng.exponential(size=n) - 1.0, np.zeros(n)])
    gains = paired_gains(differences, 50_000, 0.9, np.random.default_rng(1))
    for column, gain in zip(differences.T[:2], gains[:2], strict=True):
        assert gain.mean == pytest.approx(column.mean())
        interval = stats.bootstrap(
            (column,), np.mean, n_resamples=50_000, method="percentile", confidence_level=0.9, random_state=2
        ).confidence_interval
        # Ten standard errors of a quantile of 50,000 resamples.
        assert gain.low == pytest.approx(interval.low, abs=0.02)
        assert gain.high == pytest.approx(interval.high, abs=0.02)
        test = stats.permutation_test(
            (column, np.zeros(n)),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=50_000,
            random_state=3,
        )
        assert gain.p_value == pytest.approx(test.pvalue, abs=0.02)
    assert gains[2] == PairedGain(0.0, 0.0, 0.0, 1.0)


def test_few_queries_have_their_exact_p_value():
    """All signs agree in 2 of 2⁵ assignments."""
    [gain] = paired_gains(np.array([[0.1, 0.2, 0.3, 0.7, 0.1]]).T, 100_000, 0.95, np.random.default_rng(0))
    assert gain.p_value == pytest.approx(2 / 32, abs=0.005)


def test_blocks_of_resamples_have_the_size_that_memory_allows(monkeypatch):
    monkeypatch.setattr(paired, "_BLOCK", 21)
    [gain] = paired_gains(np.array([[0.1, 0.2, 0.3]]).T, 100, 0.95, np.random.default_rng(0))
    assert 0.1 <= gain.low <= gain.mean <= gain.high <= 0.3
    assert gain.p_value == pytest.approx(2 / 8, abs=0.1)
