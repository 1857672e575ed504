"""The file of finished cells."""

from __future__ import annotations

import numpy as np
import pytest

from mahala import LDA, NCA
from mahala.evaluation.cells import Cell, CellFile, Key, digest_of

CELL = Cell(np.array([0.1, 1 / 3]), np.array([0.2, 0.5]), np.array([0.3, 0.1]), 0.25, "minmax", stopped=True)
FAILED = Cell(np.empty(0), np.empty(0), np.empty(0), 0.0, "none", failure="no \u2028 luck")


def same(one, two):
    for name in ("losses", "errors", "balanced"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    return all(getattr(one, name) == getattr(two, name) for name in ("seconds", "scaling", "stopped", "failure"))


def test_cells_are_read_back(tmp_path):
    path = tmp_path / "new" / "cells.jsonl"
    file = CellFile(path, "a")
    assert not path.exists()
    file.add(Key("NCA", 0), CELL)
    CellFile(path, "a").add(Key("ITML", 3), FAILED)
    cells = CellFile(path, "a").cells
    assert list(cells) == [("NCA", 0), ("ITML", 3)]
    assert same(cells[Key("NCA", 0)], CELL)
    assert same(cells[Key("ITML", 3)], FAILED)


def test_a_line_that_was_cut_off_is_ignored(tmp_path):
    path = tmp_path / "cells.jsonl"
    file = CellFile(path, "a")
    file.add(Key("NCA", 0), CELL)
    file.add(Key("NCA", 1), CELL)
    path.write_bytes(path.read_bytes()[:-9])
    file = CellFile(path, "a")
    assert list(file.cells) == [("NCA", 0)]
    file.add(Key("NCA", 1), CELL)
    assert list(CellFile(path, "a").cells) == [("NCA", 0), ("NCA", 1)]


def test_another_comparison_begins_anew(tmp_path):
    path = tmp_path / "cells.jsonl"
    CellFile(path, "a").add(Key("NCA", 0), CELL)
    other = CellFile(path, "b")
    assert other.cells == {}
    other.add(Key("LDA", 0), CELL)
    assert list(CellFile(path, "b").cells) == [("LDA", 0)]
    assert CellFile(path, "a").cells == {}


def test_a_file_of_something_else_stays(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    with pytest.raises(ValueError, match="resume must name a file of an earlier comparison or a new one"):
        CellFile(path, "a")
    assert path.read_text() == "mine\n"


def test_the_digest_depends_on_all():
    X, codes, learners, settings = np.eye(3), np.array([0, 1, 1]), {"a": LDA()}, {"folds": 2}
    changed = [
        (2 * X, codes, learners, settings),
        (X.astype(np.float32), codes, learners, settings),
        (X, codes[::-1], learners, settings),
        (X, codes, {"b": LDA()}, settings),
        (X, codes, {"a": LDA(shrinkage=0.5)}, settings),
        (X, codes, {"a": NCA()}, settings),
        (X, codes, learners, {"folds": 3}),
    ]
    digests = {digest_of(*given) for given in ((X, codes, learners, settings), *changed)}
    assert len(digests) == 8
    assert digest_of(X.copy(), codes.copy(), {"a": LDA()}, dict(settings)) in digests
