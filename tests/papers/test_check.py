"""Stored cells, measured again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from conftest import DATA
from papers.__main__ import app
from papers.check import RESULTS, ROUNDED, check_cells, compared, draw_cells, stored_cells
from papers.results import record_origin
from papers.study import PAPERS, Cell, Quantity, Study, append_cell, studies

ALL = [study for paper in PAPERS for study in studies(paper).values()]
STUDY = Study(
    paper="test2000",
    name="table1",
    title="Errors",
    quantities=(Quantity("error", "Error"),),
    datasets=("a", "b"),
    methods=("m", "n"),
    runs=3,
    measure=lambda dataset, method, run, folder: {"error": 10.0 + run, "seconds": 2.0},
    left_out=frozenset({("b", "n")}),
)


@pytest.fixture
def folder(tmp_path):
    """Three runs of a cell, the last of which was another one when it was stored."""
    path = tmp_path / "test2000" / STUDY.cells_file
    path.parent.mkdir()
    for run, error in enumerate((10.0, 11.0, 17.0)):
        append_cell(path, Cell("a", "m", run, {"error": error, "seconds": 1.0}))
    record_origin(path.with_suffix(".json"), "python -m papers test2000", 1.0)
    return tmp_path


def test_ten_stored_cells_are_what_is_measured_today():
    """Of data sets that need no file; `python -m papers PAPER --check 10` draws among all."""
    cells = stored_cells(ALL, RESULTS, cheap=True)
    assert {stored.study.paper for stored in cells} == {*PAPERS} - {"sors2015"}
    checked = list(check_cells(draw_cells(cells, 10, 0), DATA))
    assert len(checked) == 10
    assert not [one.as_row() for one in checked if one.wrong]


def test_cells_that_differ_are_told(folder):
    checked = list(check_cells(stored_cells([STUDY], folder), None))
    assert [one.differences for one in checked] == [{}, {}, {"error": (17.0, 12.0)}]
    # Their standard deviation is 3.8.
    assert [one.reason for one in checked] == [None, None, ROUNDED]
    assert not any(one.wrong for one in checked)


def test_what_explains_a_difference(folder):
    stored = stored_cells([STUDY], folder)[2]
    far = {"error": 2.0, "seconds": 1.0}
    assert compared(stored, far).wrong
    assert "CPU seconds" in compared(stored, far | {"stopped": 1.0}).reason
    chaotic = stored._replace(study=replace(STUDY, chaotic={"m": "it is chaotic"}))
    assert compared(chaotic, far).reason == "it is chaotic"
    before = stored._replace(versions=[stored.versions[0] | {"mahala": "0.0.1"}])
    assert compared(before, far).reason == "it was measured with mahala 0.0.1"
    assert compared(stored, {"error": 17.001, "seconds": 9.0}).differences == {}
    assert compared(stored, {"seconds": 1.0}).differences == {"error": (17.0, None)}


def test_deviations_are_at_least_those_of_other_methods(folder):
    path = folder / "test2000" / STUDY.cells_file
    for run in range(3):
        append_cell(path, Cell("a", "n", run, {"error": 7.0}))  # by chance the same in all runs
    own = {stored.cell.method: stored.deviations["error"] for stored in stored_cells([STUDY], folder)}
    assert own == pytest.approx({"m": 3.785939, "n": 3.785939 / 2})


def test_which_cells_are_drawn(folder):
    path = folder / "test2000" / STUDY.cells_file
    append_cell(path, Cell("b", "n", 0, {"error": 1.0}))  # is left out
    append_cell(path, Cell("b", "m", 0, {"error": 1.0}))
    find = [stored.cell.key for stored in stored_cells([STUDY, replace(STUDY, cells_of="table1")], folder)]
    assert len(find) == 4
    assert [stored.cell.dataset for stored in stored_cells([STUDY], folder, datasets=["b"])] == ["b"]
    assert stored_cells([STUDY], folder, methods=["n"]) == []
    cells = stored_cells([STUDY], folder)
    assert draw_cells(cells, 2, 5) == draw_cells(cells, 2, 5) != draw_cells(cells, 2, 6)
    assert len(draw_cells(cells, 9, 5)) == 4


def test_the_command(folder, monkeypatch):
    monkeypatch.setattr("papers.study.studies", lambda paper: {"table1": STUDY})
    arguments = ["test2000", "--check", "3", "--seed", "1", "--output", str(folder)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "3 of 3 cells were measured again: 2 are the same, 1 may differ, 0 differ without a known reason." in words
    assert "Fits took 2 times the stored seconds" in words
    append_cell(folder / "test2000" / STUDY.cells_file, Cell("b", "m", 0, {"error": 99.0}))
    result = CliRunner().invoke(app, [*arguments, "--json", "--datasets", "b"])
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)["checked"]
    assert (row["dataset"], row["differences"], row["reason"]) == ("b", {"error": [99.0, 10.0]}, None)
    nothing = CliRunner().invoke(app, [*arguments, "--methods", "none"])
    assert nothing.exit_code == 2
    assert "has none" in " ".join(nothing.stderr.split())
