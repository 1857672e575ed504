"""The table of a leaderboard has the columns of its entries."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from mahala.evaluation.cross_validation.entries import Entry
from mahala.evaluation.cross_validation.leaderboard import Leaderboard
from mahala.judge import Verdict
from mahala.report.html import LEADERBOARD_NOTE, leaderboard_table

VERDICT = Verdict("shown to help", 0.1, 0.05, 0.15, 90, 0.01, "3-NN error", "rows")


def entry(name, error, learned=True, failure=None, **more):
    return Entry(
        name, learned, np.full((2, 1), error), error, error - 0.01, error + 0.01, -0.021, -0.05, 0.03, 1.5, failure,
        **more,
    )  # fmt: skip


def board(*entries):
    return Leaderboard(
        entries=entries, verdict=VERDICT, chosen="NCA", reference="Euclidean", scaled="Euclidean", n_neighbors=3,
        folds=2, random_state=0, n_rows=90, n_features=4, classes=("a", "b"), parts=2, planned=2,
    )  # fmt: skip


def heads(text):
    return re.findall(r"<th[^>]*><button type=button>(.*?)</button>", text)


def test_columns_are_those_of_the_entries():
    plain = entry("Euclidean", 0.2, learned=False)
    text = leaderboard_table(board(entry("NCA", 0.1, balanced_error=0.25, scaling="<robust>", stopped=2), plain))
    titles = ["metric", "3-NN error", "difference", "fit", "balanced error", "scaling", "stopped"]
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
    plain = Entry("Euclidean", False, np.full((2, 1), 0.2), 0.2, 0.1, 0.3, 0.0, 0.0, 0.0, 0.5)
    failed = Entry("ITML", True, seconds=0.1, failure="no & no")
    text = leaderboard_table(board(plain, failed))
    assert heads(text) == ["metric", "3-NN error", "difference", "fit", "scaling"]
    assert "could not be fitted: no &amp; no" in text


def test_the_note_explains_the_columns():
    note = LEADERBOARD_NOTE
    assert "95 % interval" in note
    assert "Holm" not in note  # one choice is tested, by the judge


def test_numbers_have_their_mean_absolute_error():
    numbers = [entry("NCA", 0.1, absolute_error=12.5), entry("Euclidean", 0.2, False, absolute_error=20.0)]
    text = leaderboard_table(replace(board(*numbers), metric="r2", classes=()))
    assert heads(text) == ["metric", "3-NN error (1 - R²)", "difference", "fit", "mean absolute error", "scaling"]
    assert "<td class=n data-value=12.5>12.5</td>" in text


def test_the_measure_that_ranks_is_one_column():
    """The first column has it already."""
    one = entry("NCA", 0.1, balanced_error=0.1, plain_error=0.2)
    plain = entry("Euclidean", 0.3, learned=False)
    for metric, other in (("error", ["balanced error"]), ("balanced", ["plain error"])):
        titles = heads(leaderboard_table(replace(board(one, plain), metric=metric)))
        assert [title for title in titles[2:] if title.endswith("error")] == other
