"""The table of a leaderboard has the columns of its entries."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields, replace

import numpy as np

from mahala.evaluation.entries import Entry
from mahala.evaluation.leaderboard import Leaderboard
from mahala.report.leaderboard_table import leaderboard_note, leaderboard_table


@dataclass(frozen=True, eq=False)
class Wider(Entry):
    """An entry with more to show."""

    balanced_error: float = math.nan
    balanced_error_low: float = math.nan
    balanced_error_high: float = math.nan
    scaling: str | None = None
    partial: bool = False
    stopped: int = 0

    @staticmethod
    def make(name, error, learned=True, p=math.nan, failure=None, **more):
        return Wider(name, learned, np.full((2, 1), error), error, error - 0.01, error + 0.01,
                     0.0, -0.02, 0.03, p, 1.5, failure, **more)  # fmt: skip


class Board(Leaderboard):
    def table(self):
        names = [field.name for field in fields(Wider) if field.name not in ("errors", "confusion")]
        return [{name: getattr(entry, name) for name in names} for entry in self.entries]


def board(*entries, kind=Board):
    return kind(entries, np.array([3]), 3, 2, 1, "standard", 0, 90, 4, ("a", "b"), np.arange(90), notes=())


def heads(text):
    return re.findall(r"<th[^>]*><button type=button>(.*?)</button>", text)


def test_columns_are_those_of_the_entries():
    plain = Wider.make("Euclidean", 0.2, learned=False)
    more = {"balanced_error": 0.25, "balanced_error_low": 0.2, "balanced_error_high": 0.3, "scaling": "<robust>"}
    text = leaderboard_table(board(Wider.make("NCA", 0.1, p=0.01, partial=True, **more), plain))
    assert heads(text) == ["metric", "3-NN error", "to Euclidean", "p", "fit", "balanced error", "k", "scaling"]
    assert "<td class=n data-value=0.25>25.0 % <small>20.0 to 30.0</small></td>" in text
    assert "<td data-value='&lt;robust&gt;'>&lt;robust&gt;</td>" in text
    assert ">NCA <span class=tag>partial</span></td>" in text
    assert text.count("tag>") == 1
    assert "data-value=0.1><b>10.0 %</b> <small>9.0 to 11.0</small>" in text
    assert 'title="10.0 %, 95 % interval 9.0 % to 11.0 %"' in text
    assert "reference</td>" in text


def test_a_column_without_any_value_is_left_out():
    entry = Entry("Euclidean", False, np.full((2, 1), 0.2), 0.2, 0.1, 0.3, 0.0, 0.0, 0.0, math.nan, 0.5)
    failed = Entry("ITML", True, np.empty((0, 0)), *[math.nan] * 7, 0.1, "no & no")
    text = leaderboard_table(board(entry, failed, kind=Leaderboard))
    assert heads(text) == ["metric", "3-NN error", "to Euclidean", "fit", "k", "scaling"]
    assert "could not be fitted: no &amp; no" in text


def test_the_note_says_for_how_many_learners_p_is_adjusted():
    plain, one, two = Wider.make("Euclidean", 0.2, False), Wider.make("a", 0.1, p=0.1), Wider.make("b", 0.1, p=0.2)
    assert "adjusted for 2 learners" in leaderboard_note(board(one, two, plain))
    assert "adjusted" not in leaderboard_note(board(one, plain))


def test_the_measure_that_ranks_is_one_column():
    """The first column has it already."""
    entry = Wider.make("NCA", 0.1, balanced_error=0.1, plain_error=0.2)
    plain = Wider.make("Euclidean", 0.3, learned=False)
    for metric, other in (("error", ["balanced error"]), ("balanced", ["plain error"])):
        found = heads(leaderboard_table(replace(board(entry, plain), metric=metric)))
        assert [title for title in found[2:] if title.endswith("error")] == other
