"""What a leaderboard says of its entries."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mahala.evaluation.cross_validation.entries import Entry
from mahala.evaluation.cross_validation.leaderboard import Answers, Caution, Leaderboard
from mahala.judge import Verdict


def entry(name, error, high, *, learned=True, difference=0.0, failure=None, **more):
    ends = difference - 0.01, difference + 0.01
    numbers = [error, 2.0 * error - high, high, difference, *ends, 0.5]
    return Entry(name, learned, np.full((2, 1), error), *numbers, failure, **more)


VERDICT = Verdict("shown to help", 0.1, 0.05, 0.15, 90, 0.01, "3-NN error", "rows", text="NCA helps, as was shown.")


def board(*entries, kind="shown to help", chosen="NCA", **more):
    fields = {
        "entries": entries, "verdict": VERDICT._replace(kind=kind), "chosen": chosen, "reference": "Euclidean",
        "scaled": "Euclidean", "neighbor_counts": np.array([3]), "n_neighbors": 3, "folds": 2, "random_state": 0,
        "n_rows": 90, "n_features": 4, "classes": ("a", "b"), "rows": np.arange(90), "parts": 2, "planned": 2,
    }  # fmt: skip
    return Leaderboard(**(fields | more))


EUCLIDEAN = entry("Euclidean", 0.2, 0.25, learned=False)
BETTER = entry("NCA", 0.1, 0.15, difference=-0.1)
CHANCE = entry("LDA", 0.08, 0.14, difference=-0.12)
FAILED = entry("ITML", math.nan, math.nan, failure="no")


def test_the_winner_is_the_learner_that_the_judge_shows_to_help():
    won = board(CHANCE, BETTER, EUCLIDEAN, FAILED)
    assert (won.winner, won.candidate, won.best_learner, won.euclidean) == (BETTER, BETTER, CHANCE, EUCLIDEAN)
    assert won.ranked == (CHANCE, BETTER, EUCLIDEAN)
    assert won.headline == "Shown to help: NCA"
    probable = board(CHANCE, BETTER, EUCLIDEAN, kind="probably helps")
    assert (probable.winner, probable.candidate) == (EUCLIDEAN, BETTER)
    assert probable.headline == "Probably helps: NCA"
    plain = board(
        CHANCE,
        EUCLIDEAN,
        kind="does not help",
        chosen="Euclidean",
        cautions=2 * (Caution("a possible leak", "A leak?"),),
    )
    assert (plain.winner, plain.candidate) == (EUCLIDEAN, None)
    assert plain.headline == "Does not help (caution: a possible leak)"
    assert board(EUCLIDEAN, FAILED, kind="does not help", chosen="Euclidean").best_learner is None


def test_what_is_not_finished_says_so():
    stopped = entry("LMNN", 0.2, 0.25, difference=0.0, stopped=2)
    some = board(BETTER, EUCLIDEAN, stopped)
    assert [line.texts["error"] for line in some.lines()] == ["10.0 %", "20.0 %", "not finished: 20.0 %"]
    assert "LMNN (2 of 2)" in some.remarks()[0]
    assert some.remarks()[0].startswith("Not finished within their share of the budget")
    none = board(EUCLIDEAN, stopped, kind="does not help", chosen="Euclidean")
    assert (none.best_learner, none.candidate) == (None, None)


@pytest.mark.parametrize(
    ("metric", "measure"),
    [
        ("error", "3-NN error"),
        ("balanced", "balanced 3-NN error"),
        ("f1", "3-NN error (1 - F1)"),
        ("roc_auc", "3-NN error (1 - ROC AUC)"),
        ("r2", "3-NN error (1 - R²)"),
    ],
)
def test_the_measure_has_one_number_of_neighbours(metric, measure):
    assert board(BETTER, EUCLIDEAN, metric=metric).measure == measure


def test_a_k_that_was_chosen_inside_is_said_everywhere():
    chosen = replace(board(replace(BETTER, n_neighbors=1), replace(EUCLIDEAN, n_neighbors=15)), n_neighbors=None)
    assert chosen.measure == "k-NN error"
    assert "chosen inside each training part" in chosen.choice_of_k
    lines = repr(chosen).splitlines()
    assert lines[0].endswith("k chosen inside")
    assert lines[1].split()[-3:] == ["k", "difference", "fit"]
    assert [line.texts["n_neighbors"] for line in chosen.lines()] == ["1", "15"]
    given = board(BETTER, EUCLIDEAN)
    assert given.choice_of_k == ""
    assert "chosen inside" not in repr(given)
    assert given.lines()[0].texts["n_neighbors"] == ""


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
    assert few.splitlines()[-1] == "NCA helps, as was shown."


def test_a_number_has_no_classes():
    numbers = Entry("Euclidean", False, np.full((2, 1), 0.2), 0.2, 0.1, 0.3, 0.0, 0.0, 0.0, 0.5, absolute_error=12.5)
    found = board(numbers, metric="r2", chosen="Euclidean", kind="does not help")
    found = Leaderboard(**(vars(found) | {"classes": (), "class_counts": ()}))
    assert "a number to predict" in repr(found)
    assert (found.majority, found.context()) == ("", None)
    assert math.isnan(found.majority_error)
    assert found.lines()[0].texts["absolute_error"] == "12.5"


def test_a_notebook_shows_every_entry_as_text():
    evil = entry("<script>alert(1)</script>", 0.1, 0.2, difference=-0.1)
    text = board(evil, EUCLIDEAN, FAILED)._repr_html_()
    assert text.count("<tr>") == 4
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "NCA helps, as was shown." in text


def test_a_constant_answer_is_context():
    found = board(BETTER, EUCLIDEAN, class_counts=(60, 30))
    assert (found.majority, found.majority_error) == ("a", pytest.approx(1 / 3))
    assert found.context() == "For context: 3-NN with NCA 10.0 %, always 'a' 33.3 %."
    balanced = board(BETTER, EUCLIDEAN, class_counts=(60, 30), metric="balanced")
    assert "always 'a' 50.0 %" in balanced.context()
    assert board(BETTER, EUCLIDEAN, class_counts=(60, 30), metric="f1").context() is None


def test_pictures_of_errors():
    plt = pytest.importorskip("matplotlib.pyplot")
    scaled = entry("Euclidean, scaled", 0.9, 0.95, learned=False)
    model = entry("boosting", 0.05, 0.1, kind="model")
    drawn = board(BETTER, EUCLIDEAN, scaled, FAILED, models=(model,))
    ax = drawn.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["boosting", "NCA", "Euclidean", "Euclidean, scaled"]
    assert ax.get_title() == drawn.headline
    assert ax.get_xlabel() == "3-NN error"
    assert [text.get_text() for text in ax.texts] == ["90.0% ›"]  # beyond the end of the axis
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["model", "learned metric", "plain metric"]
    lines = drawn.plot_error_by_k().get_lines()
    assert [line.get_label() for line in lines] == ["NCA", "Euclidean", "Euclidean, scaled"]
    many = board(*(entry(f"NCA {at}", 0.1, 0.15) for at in range(30)), EUCLIDEAN)
    names = [label.get_text() for label in many.plot().get_yticklabels()]
    assert len(names) == 20
    assert names[-1] == "Euclidean"
    own = plt.subplots()[1]
    assert drawn.plot(own) is own
    plt.close("all")


def test_latex_has_the_lowest_error_in_bold_and_marks_differences():
    worse = entry("LDA_50%", 0.3, 0.35, difference=0.1)
    level = entry("R & D", 0.1004, 0.15, difference=-0.005)
    model = entry("trees", 0.4, 0.45, learned=False, difference=0.2, kind="model")
    text = board(BETTER, level, EUCLIDEAN, worse, FAILED, models=(model,)).to_latex()
    rows = {row.split(" & ")[0]: row for row in text.splitlines() if row.endswith(r" \\")}
    assert rows["NCA"] == r"NCA & \textbf{10.0\,\%} & 5.0--15.0 & $-10.0^{\bullet}$ \\"
    assert rows[r"R \& D"] == r"R \& D & \textbf{10.0\,\%} & 5.1--15.0 & $-0.5$ \\"  # shown as low as the lowest
    assert rows["Euclidean"].endswith(r"20.0\,\% & 15.0--25.0 & reference \\")
    assert rows[r"LDA\_50\%"].endswith(r"30.0\,\% & 25.0--35.0 & $+10.0^{\circ}$ \\")
    assert rows["ITML"] == r"ITML & failed &  &  \\"
    assert rows["trees"].endswith(r"$+20.0^{\circ}$ \\")
    assert rows["model"] == r"model & error & 95\,\% interval & difference \\"
    assert rows["metric"].startswith("metric & 3-NN error &")
    assert r"\caption{90 rows, 4 features, 2 classes, 2 folds × 1}" in text
    assert "Shown to help: NCA." in text
    assert r"\label" not in text
    assert text.count(r"\begin") == text.count(r"\end") == 2
    assert r"\caption{On $x$.}" + "\n" + r"\label{tab:x}" in board(EUCLIDEAN).to_latex("On $x$.", "tab:x")


def test_latex_of_answers_has_new_and_same_items():
    answers = Answers("triplets", 90, 20, 0, None, False, np.zeros(3))
    same = board(replace(BETTER, name="LSML"), EUCLIDEAN, metric="same items", answers=answers)
    text = board(BETTER, EUCLIDEAN, metric="new items", answers=answers, same_items=same).to_latex()
    new, _, known = text.partition("same-item error")
    assert "new-item error" in new
    assert r"NCA & \textbf" in new
    assert r"LSML & \textbf" in known
