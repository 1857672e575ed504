"""The file of finished cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from mahala.evaluation.cell_file import CellFile
from mahala.evaluation.cross_validation.measuring import Cell

CELL = {"losses": np.array([0.1, 1 / 3]), "seconds": 0.25, "stopped": True}
FAILED = {"losses": np.empty(0), "failure": "no \u2028 luck\n"}


class Key(NamedTuple):
    name: str
    part: int


def cell_file(path, origin="a"):
    return CellFile(path, Key, origin)


def test_cells_are_read_back(tmp_path):
    path = tmp_path / "new" / "cells.jsonl"
    file = cell_file(path)
    assert not path.exists()
    file.add(Key("NCA", 0), CELL)
    cell_file(path).add(Key("ITML", 3), FAILED)
    cells = cell_file(path).cells
    assert list(cells) == [Key("NCA", 0), Key("ITML", 3)]
    assert cells["NCA", 0] == CELL | {"losses": [0.1, 1 / 3]}
    assert cells["ITML", 3] == FAILED | {"losses": []}


def test_a_line_that_was_cut_off_is_overwritten(tmp_path):
    path = tmp_path / "cells.jsonl"
    file = cell_file(path)
    for part in range(2):
        file.add(Key("NCA", part), CELL)
    whole = path.read_bytes()
    for end in range(whole.rindex(b"\n", 0, -1) + 1, len(whole)):
        path.write_bytes(whole[:end])
        file = cell_file(path)
        assert list(file.cells) == [("NCA", 0)]
        file.add(Key("NCA", 1), CELL)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("size", range(1, 23))
def test_a_file_that_was_cut_off_in_its_first_line_begins_anew(tmp_path, size):
    path = tmp_path / "cells.jsonl"
    cell_file(path).add(Key("NCA", 0), CELL)
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    cell_file(path).add(Key("NCA", 0), CELL)
    assert path.read_bytes() == whole


def test_the_last_of_two_cells_counts(tmp_path):
    path = tmp_path / "cells.jsonl"
    for seconds in (1.0, 2.0):
        cell_file(path).add(Key("NCA", 0), {"seconds": seconds})
    assert cell_file(path).cells == {("NCA", 0): {"seconds": 2.0}}


def test_another_origin_begins_anew(tmp_path):
    path = tmp_path / "cells.jsonl"
    cell_file(path).add(Key("NCA", 0), CELL)
    other = cell_file(path, "b")
    assert other.cells == {}
    other.add(Key("LDA", 0), CELL)
    assert list(cell_file(path, "b").cells) == [("LDA", 0)]
    assert cell_file(path).cells == {}


def test_a_file_of_something_else_stays(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    with pytest.raises(ValueError, match="is not a file of results of mahala"):
        cell_file(path)
    assert path.read_text() == "mine\n"


def test_without_a_path_cells_are_kept_in_memory():
    file = cell_file(None)
    file.add(Key("NCA", 0), CELL)
    assert file.cells == {("NCA", 0): CELL}


def test_a_cell_is_made_of_what_was_read():
    for predicted in ([1, 2, 0], [0.5, 1 / 3], []):
        cell = Cell.of({"losses": [0.5, 0.25], "predicted": predicted, "seconds": 1.0, "scaling": "none"})
        assert cell.predicted.dtype.kind == np.array(predicted).dtype.kind
        assert (cell.losses.tolist(), cell.predicted.tolist()) == ([0.5, 0.25], predicted)
        assert (cell.seconds, cell.scaling, cell.stopped, cell.failure) == (1.0, "none", False, None)
