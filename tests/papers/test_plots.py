"""What is on the figures of the papers."""

from __future__ import annotations

import numpy as np

from papers.plots import _groups, critical_difference, curves, line_panels
from papers.ranks import friedman_holm


def test_a_panel_for_each_name_and_one_legend():
    lines = {"SORS-I": [(1.0, 2.0), (2.0, 3.0)], "SORS-II": [(1.0, 1.0), (2.0, 5.0)], "OASIS": [(1.0, 0.0)]}
    figure = line_panels({"a": lines, "b": lines, "c": lines, "d": {"OASIS": [(0.0, 1.0)]}}, "steps", "MAP")
    shown = [ax for ax in figure.axes if ax.axison]
    assert [ax.get_title() for ax in shown] == ["a", "b", "c", "d"]
    first, second, level, other = shown[0].lines
    assert (first.get_linestyle(), second.get_linestyle()) == ("-", "--")
    assert first.get_color() == second.get_color() != other.get_color()
    assert second.get_xydata().tolist() == [[1.0, 1.0], [2.0, 5.0]]
    assert [text.get_text() for text in figure.legends[0].texts] == ["SORS-I", "SORS-II", "OASIS"]
    assert shown[3].lines[0].get_color() == other.get_color()
    # Through a single point a line from side to side.
    assert (level.get_linestyle(), level.get_color(), list(level.get_ydata())) == (":", other.get_color(), [0.0, 0.0])


def test_nothing_to_draw():
    assert not [ax for ax in line_panels({}, "x", "y").axes if ax.axison]


def test_curves():
    figure = curves({"a": [(2.0, 5.0, 1.0), (1.0, 3.0, 0.5)], "b": [(1.0, 4.0, 0.0)]}, "title", "d", "seconds")
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    np.testing.assert_array_equal(axes.containers[0].lines[0].get_data(), [[1.0, 2.0], [3.0, 5.0]])
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("d", "seconds", "title")


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
