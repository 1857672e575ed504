"""The picture of ranks: what is on it."""

from __future__ import annotations

import numpy as np

from mahala.evaluation.statistics import friedman_holm
from mahala.report.ranks import _groups, critical_difference


def test_names_ranks_and_bars():
    errors = np.random.default_rng(0).normal(size=(12, 5)) + 3.0 * np.arange(5)
    comparison = friedman_holm(errors, ["alpha", "beta", "gamma", "delta", "omega"])
    figure = critical_difference(comparison)
    texts = [text.get_text() for text in figure.axes[0].texts]
    for name, rank in zip(comparison.methods, comparison.ranks, strict=True):
        assert any(name in text and f"{rank:.2f}" in text for text in texts)
    assert any("critical difference" in text for text in texts)
    thick = [line for line in figure.axes[0].lines if line.get_linewidth() == 4.0]
    assert len(thick) == len(_groups(np.sort(comparison.ranks), comparison.critical_difference))


def test_groups_by_brute_force():
    rng = np.random.default_rng(1)
    for _ in range(200):
        ranks = np.sort(rng.integers(4, 25, size=rng.integers(1, 8)) / 4)
        runs = {(i, j) for i in range(len(ranks)) for j in range(i + 1, len(ranks)) if ranks[j] - ranks[i] < 1.5}
        widest = {(i, j) for i, j in runs if not any(a <= i and j <= b and (a, b) != (i, j) for a, b in runs)}
        assert set(_groups(ranks, 1.5)) == widest
