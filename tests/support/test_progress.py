"""What a person sees of a long fit."""

from __future__ import annotations

import pytest

import mahala
from mahala import Pairs
from mahala.support import progress
from mahala.support.compiling import Compiling


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
    monkeypatch.setattr(progress, "COMPILING", compiling)
    compiling.start()
    with mahala.show_progress():
        assert progress.SHOWN.get()[0].get_time() == pytest.approx(progress.SHOWN.get()[0].get_time(), abs=1e-4)
        mahala.NCA(max_iter=2).fit(*labelled)
    assert "compiling, 0 s" in capsys.readouterr().err
    compiling.end()
    with mahala.show_progress():
        mahala.NCA(max_iter=2).fit(*labelled)
    assert "compiling" not in capsys.readouterr().err
