"""The table of a leaderboard has the columns of its entries."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from mahala.evaluation.entries import Entry
from mahala.evaluation.leaderboard import Leaderboard
from mahala.report.html import leaderboard_note, leaderboard_table


def entry(name, error, learned=True, p=math.nan, failure=None, **more):
    return Entry(
        name, learned, np.full((2, 1), error), error, error - 0.01, error + 0.01, -0.021, -0.05, 0.03, p, 1.5, failure,
        **more,
    )  # fmt: skip


def board(*entries):
    return Leaderboard(entries, np.array([3]), 3, 2, 1, "standard", 0, 90, 4, ("a", "b"), np.arange(90), notes=())


def heads(text):
    return re.findall(r"<th[^>]*><button type=button>(.*?)</button>", text)


def test_columns_are_those_of_the_entries():
    plain = entry("Euclidean", 0.2, learned=False)
    text = leaderboard_table(
        board(entry("NCA", 0.1, p=0.01, balanced_error=0.25, scaling="<robust>", stopped=2), plain)
    )
    titles = ["metric", "3-NN error", "to Euclidean", "p", "fit", "balanced error", "k", "scaling", "stopped"]
    assert heads(text) == titles
    assert "<td class=n data-value=0.25>25.0 %</td>" in text
    assert "<td data-value='&lt;robust&gt;'>&lt;robust&gt;</td>" in text
    assert "data-value=0.1><b>10.0 %</b> <small>9.0 to 11.0</small>" in text
    assert "data-value=-0.021>−2.1 <small>−5.0 to +3.0</small>" in text
    assert 'title="10.0 %, 95 % interval 9.0 % to 11.0 %"' in text
    assert text.count(">reference</td>") == 1
    assert "<tr class='winner'>" in text
    assert "<tr class='plain'>" in text


def test_a_column_without_any_value_is_left_out():
    plain = Entry("Euclidean", False, np.full((2, 1), 0.2), 0.2, 0.1, 0.3, 0.0, 0.0, 0.0, math.nan, 0.5)
    failed = Entry("ITML", True, seconds=0.1, failure="no & no")
    text = leaderboard_table(board(plain, failed))
    assert heads(text) == ["metric", "3-NN error", "to Euclidean", "fit", "k", "scaling"]
    assert "could not be fitted: no &amp; no" in text


def test_the_note_says_for_how_many_learners_p_is_adjusted():
    plain, one, two = entry("Euclidean", 0.2, False), entry("a", 0.1, p=0.1), entry("b", 0.1, p=0.2)
    assert "adjusted for 2 learners" in leaderboard_note(board(one, two, plain))
    assert "adjusted" not in leaderboard_note(board(one, plain))


def test_the_measure_that_ranks_is_one_column():
    """The first column has it already."""
    one = entry("NCA", 0.1, balanced_error=0.1, plain_error=0.2)
    plain = entry("Euclidean", 0.3, learned=False)
    for metric, other in (("error", ["balanced error"]), ("balanced", ["plain error"])):
        titles = heads(leaderboard_table(replace(board(one, plain), metric=metric)))
        assert [title for title in titles[2:] if title.endswith("error")] == other
