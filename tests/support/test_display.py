"""What a person sees of a long fit, and HTML for notebooks: every text in it is text."""

from __future__ import annotations

import time

import numpy as np
import pytest

import mahala
from mahala import BilinearMetric, MahalanobisMetric, Pairs, Triplets
from mahala.support import display
from mahala.support.display import as_table, paragraph
from mahala.support.limits import Compiling


def test_bars_of_every_kind_of_learner(labelled, capsys):
    X, y = labelled
    with mahala.show_progress():
        mahala.NCA(max_iter=3).fit(X, y)
        stream = mahala.PA(random_state=0)
        for _ in range(2):
            stream.partial_fit(Pairs.from_labels(X, y, 50, random_state=0))
        mahala.OASIS(n_triplets=70, random_state=0).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    for words in ("NCA", "3/3", "objective", "PA", "100/?", "predicted wrongly", "OASIS", "70/?"):
        assert words in err
    assert err.count("PA ") == 1  # one bar a stream, however many chunks it comes in


def test_nothing_is_drawn_outside(labelled, capsys):
    X, y = labelled
    with pytest.raises(RuntimeError, match="stop"), mahala.show_progress():
        raise RuntimeError("stop")
    capsys.readouterr()
    mahala.PA(random_state=0).fit(X, y)
    mahala.NCA(max_iter=2).fit(X, y)
    assert capsys.readouterr() == ("", "")


def test_time_left_does_not_count_what_is_compiled(labelled, capsys, monkeypatch):
    compiling = Compiling()
    monkeypatch.setattr(display, "COMPILING", compiling)
    compiling.start()
    with mahala.show_progress():
        assert display.SHOWN.get()[0].get_time() == pytest.approx(display.SHOWN.get()[0].get_time(), abs=1e-4)
        mahala.NCA(max_iter=2).fit(*labelled)
    assert "compiling, 0 s" in capsys.readouterr().err
    compiling.end()
    with mahala.show_progress():
        mahala.NCA(max_iter=2).fit(*labelled)
    assert "compiling" not in capsys.readouterr().err


def test_without_a_terminal_a_line_tells_every_few_seconds(capsys, monkeypatch):
    monkeypatch.setattr(display, "_SECONDS", 0.01)
    seen = ""

    def wait_for(text):
        nonlocal seen
        end = time.monotonic() + 20.0
        while text not in seen and time.monotonic() < end:
            time.sleep(0.01)
            seen += capsys.readouterr().err
        assert text in seen

    with display.task_progress("Comparing", is_terminal=False) as update:
        wait_for("Comparing: preparing, 0 s\n")
        update(5, "LMNN", 20)
        wait_for("Comparing: 5 of 20 fits, 0 s, about ")
        wait_for(" s left (LMNN)\n")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


EVIL = "<script>alert(1)</script>"


def test_cells_are_escaped_and_numbers_stand_to_the_right():
    text = as_table(["a", EVIL], [[EVIL, "1"]]) + paragraph(EVIL) + paragraph(EVIL, bold=True)
    assert EVIL not in text
    assert text.count("&lt;script&gt;") == 4
    assert '<td style="text-align:left">&lt;' in text
    assert '<td style="text-align:right">1</td>' in text


def test_comparisons_show_the_first_few():
    X = np.zeros((9, 2))
    text = Pairs(X, np.zeros(8, int), np.arange(1, 9), np.arange(8) % 2 == 0)._repr_html_()
    assert text.count("<tr>") == 1 + 5
    assert "&lt;Pairs: 8 over X of shape (9, 2), float64&gt;" in text
    assert "… and 3 more" in text
    assert ">similar</th>" in text
    assert ">True</td>" in text
    assert "similar" not in Pairs(X, [0], [1])._repr_html_()
    triplets = Triplets(X, [0], [1], [2])._repr_html_()
    assert ">negative</th>" in triplets
    assert "more" not in triplets


def test_a_metric_shows_its_rank_its_learner_and_its_heaviest_features():
    names = [EVIL, *(f"x{j}" for j in range(1, 12))]
    weights = np.r_[0.0, 12.0, np.arange(2.0, 12.0)]
    metric = MahalanobisMetric(np.diag(weights), feature_names=names, origin={"learner": "LDA", "params": {}})
    text = metric._repr_html_()
    assert "<td" in text.split("LDA")[0]
    assert ">11</td>" in text.split("rank")[1]
    shown = text.split("weight</th>")[1]
    assert shown.index(">x1<") < shown.index(">x11<") < shown.index(">x3<")
    assert ">x2<" not in shown
    assert EVIL not in metric.__class__(np.eye(12), feature_names=names)._repr_html_()
    assert "weight" not in BilinearMetric(np.ones((2, 3)), feature_names=["a", "b"])._repr_html_()
