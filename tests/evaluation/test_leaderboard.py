"""What a leaderboard says of its entries."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mahala.evaluation.leaderboard import Entry, Leaderboard


def entry(name, error, high, *, learned=True, difference=0.0, p_value=math.nan, failure=None):
    ends = difference - 0.01, difference + 0.01
    numbers = [error, 2.0 * error - high, high, difference, *ends, p_value, 0.5]
    return Entry(name, learned, np.full((2, 1), error), *numbers, failure)


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
    assert tied.winner is CHANCE
    assert tied.verdict().endswith("That may be chance: only more rows could tell.")
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
