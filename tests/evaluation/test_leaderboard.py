"""What a leaderboard says of its entries."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mahala.evaluation.entries import Entry
from mahala.evaluation.leaderboard import Leaderboard


def entry(name, error, high, *, learned=True, difference=0.0, p_value=math.nan, failure=None):
    ends = difference - 0.01, difference + 0.01
    numbers = [error, 2.0 * error - high, high, difference, *ends, p_value, 0.5]
    return Entry(name, learned, np.full((2, 1), error), *numbers, failure, detectable=0.15)


def board(*entries):
    return Leaderboard(
        entries, np.array([3]), 3, 2, 1, "standard", 0, 90, 4, ("a", "b"), np.arange(90), notes=()
    )  # fmt: skip


EUCLIDEAN = entry("Euclidean", 0.2, 0.25, learned=False)
BETTER = entry("NCA", 0.1, 0.15, difference=-0.1, p_value=0.01)
CHANCE = entry("LDA", 0.08, 0.14, difference=-0.12, p_value=0.2)
FAILED = entry("ITML", math.nan, math.nan, failure="no")


def test_the_winner_is_the_best_that_is_significantly_better():
    won = board(CHANCE, BETTER, EUCLIDEAN, FAILED)
    assert (won.winner, won.best_learner, won.euclidean) == (BETTER, CHANCE, EUCLIDEAN)
    assert won.ranked == (CHANCE, BETTER, EUCLIDEAN)
    assert won.verdict().startswith("NCA cuts the 3-NN error from 20.0 % (Euclidean) to 10.0 % (10.0 points less, ")
    tied = board(CHANCE, EUCLIDEAN)
    assert tied.winner is EUCLIDEAN
    assert (
        "LDA, is not shown to beat Euclidean on these 90 rows: its 3-NN error is 8.0 % against 20.0 %" in tied.verdict()
    )
    assert tied.verdict().endswith("Only gains above 15.0 points are detectable here.")
    assert board(EUCLIDEAN, FAILED).best_learner is None


@pytest.mark.parametrize(
    ("highs", "end"), [((0.1, 0.2, 0.3), 0.3), ((0.1, 0.1, 0.9), 0.2), ((0.1, 0.2, 0.3, 0.9), 0.6), ((0.0,), 1e-9)]
)
def test_the_axis_ends_at_the_largest_error_or_at_twice_the_median(highs, end):
    found = board(*(entry(str(number), high / 2, high) for number, high in enumerate(highs)), FAILED)
    assert found.axis_end == pytest.approx(end)


def test_the_table_has_a_line_for_each_entry():
    lines = board(BETTER, EUCLIDEAN, FAILED).table()
    assert [(line["name"], line["failure"]) for line in lines] == [("NCA", None), ("Euclidean", None), ("ITML", "no")]


def test_the_printed_form_is_short_and_says_the_verdict():
    many = board(BETTER, EUCLIDEAN, *(entry(f"learner {n} " + "x" * 90, 0.3, 0.4) for n in range(200)), FAILED)
    lines = repr(many).splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 120
    assert "… and 183 more" in lines
    few = repr(board(BETTER, EUCLIDEAN, FAILED))
    assert "NCA" in few.splitlines()[2]
    assert "10.0 %" in few.splitlines()[2]
    assert "reference" in few.splitlines()[3]
    assert "failed" in few.splitlines()[4]
    assert "NCA cuts the 3-NN error" in few


def test_a_notebook_shows_every_entry_as_text():
    evil = entry("<script>alert(1)</script>", 0.1, 0.2, difference=-0.1, p_value=0.2)
    text = board(evil, EUCLIDEAN, FAILED)._repr_html_()
    assert text.count("<tr>") == 4
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "not shown to beat Euclidean" in text


def test_a_comparison_that_could_not_have_shown_anything():
    tied = board(CHANCE, entry("Euclidean", 0.1, 0.2, learned=False))
    assert "Only gains above 15.0 points are detectable here; the total error is 10.0 %." in tied.verdict()
