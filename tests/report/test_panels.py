"""Panels of lines: what is on them."""

from __future__ import annotations

from mahala.report.panels import line_panels


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
