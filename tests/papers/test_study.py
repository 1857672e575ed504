"""Studies: which cells are measured, kept and gone on from, and how they stand beside the paper's."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mahala.papers.study import (
    PAPERS,
    Cell,
    Published,
    Study,
    append_cell,
    markdown,
    measure_cells,
    published_table,
    read_cells,
    studies,
    summarise,
    table,
)


def measure(dataset, method, run, folder):
    return {"error": float(10 * len(dataset) + len(method) + run), "seconds": 0.5}


def failing(dataset, method, run, folder):
    if (dataset, method) == ("bb", "n"):
        raise RuntimeError("killed")
    return measure(dataset, method, run, folder)


STUDY = Study(
    paper="test2000",
    name="table1",
    title="Errors",
    quantity="error",
    datasets=("a", "bb"),
    methods=("m", "n"),
    runs=3,
    measure=measure,
    published={"a": {"m": Published(12.0, 1.0), "n": Published(50.0)}},
    once=frozenset({"bb"}),
    left_out=frozenset({("a", "n")}),
)


def test_cells_are_measured_once(tmp_path):
    path = tmp_path / "deep" / "table1.csv"
    done = list(measure_cells(STUDY, path))
    assert [(cell.dataset, cell.method, cell.run) for *_, cell in done] == [
        ("a", "m", 0),
        ("a", "m", 1),
        ("a", "m", 2),
        ("bb", "m", 0),
        ("bb", "n", 0),
    ]
    assert [(number, total) for number, total, _ in done] == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert read_cells(path)[1] == Cell("a", "m", 1, {"error": 12.0, "seconds": 0.5})
    assert list(measure_cells(STUDY, path)) == []
    more = list(measure_cells(STUDY, path, runs=4))
    assert [(number, total, cell.run) for number, total, cell in more] == [(6, 6, 3)]


def test_a_killed_run_goes_on(tmp_path):
    path = tmp_path / "table1.csv"
    with pytest.raises(RuntimeError, match="killed"):
        list(measure_cells(replace(STUDY, measure=failing), path))
    assert len(read_cells(path)) == 4
    assert [cell.method for *_, cell in measure_cells(STUDY, path)] == ["n"]


def test_a_part_of_the_table_with_processes(tmp_path):
    cells = list(measure_cells(STUDY, tmp_path / "t.csv", datasets=["a"], methods=["m"], runs=2, jobs=2))
    assert sorted(cell.run for *_, cell in cells) == [0, 1]


def test_summary(tmp_path):
    path = tmp_path / "table1.csv"
    list(measure_cells(STUDY, path))
    lines = summarise(STUDY, read_cells(path))
    assert [(line.dataset, line.method, line.runs, line.mean) for line in lines] == [
        ("a", "m", 3, 12.0),
        ("bb", "m", 1, 21.0),
        ("bb", "n", 1, 21.0),
    ]
    assert lines[0].sd == 1.0
    assert lines[0].difference == 0.0
    assert math.isnan(lines[1].difference)
    header, rows = table(STUDY, lines)
    assert header == ["data set", "m", "n"]
    assert rows == [["a", "12.00 ± 1.00 | 12", "- | 50"], ["bb", "21.00 | -", "21.00 | -"]]
    page = markdown(STUDY, lines)
    assert "| a | 12.00 ± 1.00 \\| 12 | - \\| 50 |" in page
    assert "| bb | 0.5 | 0.5 |" in page


@pytest.mark.parametrize(
    ("mean", "sd", "published", "off"),
    [
        (10.0, 1.0, Published(11.9, 0.5), False),
        (10.0, 1.0, Published(12.1, 0.5), True),
        (10.0, 0.1, Published(12.1, 2.0), False),
        (10.0, 1.0, None, False),
    ],
)
def test_off_by_more_than_two_deviations(mean, sd, published, off):
    line = summarise(STUDY, [Cell("a", "m", 0, {"error": mean, "seconds": 1.0})])[0]
    assert line._replace(sd=sd, published=published).off == off


def test_a_cell_that_is_there_twice_counts_once(tmp_path):
    path = tmp_path / "t.csv"
    for error in (1.0, 2.0):
        append_cell(path, Cell("a", "m", 0, {"error": error}))
    assert read_cells(path) == [Cell("a", "m", 0, {"error": 2.0})]


def test_published_tables():
    assert published_table(("m", "n"), a="1.5(0.2) -", b="2 3(1)") == {
        "a": {"m": Published(1.5, 0.2)},
        "b": {"m": Published(2.0), "n": Published(3.0, 1.0)},
    }


@pytest.mark.parametrize("paper", PAPERS)
def test_every_published_cell_is_one_of_the_table(paper):
    found = studies(paper)
    assert found
    for study in found.values():
        assert set(study.published) <= set(study.datasets)
        for cells in study.published.values():
            assert set(cells) <= set(study.methods)
        assert all(dataset in study.datasets and method in study.methods for dataset, method in study.left_out)


def test_papers_that_are_not_there():
    with pytest.raises(ValueError, match="PAPER must be one of gml2014"):
        studies("nothing1999")
