"""Studies: which cells are measured, kept and gone on from, and how they stand beside the paper's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from joblib import parallel_config

from papers.study import (
    PAPERS,
    SECONDS,
    Cell,
    Published,
    Quantity,
    Study,
    append_cell,
    measure_cells,
    published_table,
    read_cells,
    studies,
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
    quantities=(Quantity("error", "Error", {"a": {"m": Published(12.0, 1.0), "n": Published(50.0)}}), SECONDS),
    datasets=("a", "bb"),
    methods=("m", "n"),
    runs=3,
    measure=measure,
    once=frozenset({"bb"}),
    left_out=frozenset({("a", "n")}),
)


def test_cells_are_measured_once(tmp_path):
    path = tmp_path / "deep" / "table1.jsonl"
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
    path = tmp_path / "table1.jsonl"
    with pytest.raises(RuntimeError, match="killed"):
        list(measure_cells(replace(STUDY, measure=failing), path))
    assert len(read_cells(path)) == 4
    assert [cell.method for *_, cell in measure_cells(STUDY, path)] == ["n"]


def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    path = tmp_path / "table1.jsonl"
    list(measure_cells(STUDY, path))
    whole, cells = path.read_bytes(), read_cells(path)
    last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert read_cells(path) == cells[:-1]
        assert [cell.method for *_, cell in measure_cells(STUDY, path)] == ["n"]
        assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_made_costs_no_cell(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        list(measure_cells(replace(STUDY, measure=failing, datasets=("bb",), methods=("n",)), tmp_path / "file" / "t"))


def test_a_part_of_the_table_by_two_workers(tmp_path):
    with parallel_config("threading"):  # processes are in tests/evaluation/test_benchmark.py
        cells = list(measure_cells(STUDY, tmp_path / "t.jsonl", datasets=["a"], methods=["m"], runs=2, n_jobs=2))
    assert sorted(cell.run for *_, cell in cells) == [0, 1]


def test_a_cell_that_is_there_twice_counts_once(tmp_path):
    path = tmp_path / "t.jsonl"
    for error in (1.0, 2.0):
        append_cell(path, Cell("a", "m", 0, {"error": error}))
    assert read_cells(path) == [Cell("a", "m", 0, {"error": 2.0})]


def test_cells_may_have_different_numbers(tmp_path):
    path = tmp_path / "t.jsonl"
    cells = [Cell("a", "m", 0, {"error": 1.0}), Cell("a", "n", 0, {"seconds": 3.0, "error": 2.0})]
    for cell in cells:
        append_cell(path, cell)
    assert read_cells(path) == cells


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
        for quantity in study.quantities:
            assert set(quantity.published) <= set(study.datasets)
            for cells in quantity.published.values():
                assert set(cells) <= set(study.methods)
        assert all(dataset in study.datasets and method in study.methods for dataset, method in study.left_out)
        assert study.cells_of is None or study.cells_of in found
        assert study.quick is not None
        assert study.quick.cells_file == study.cells_file


def test_papers_that_are_not_there():
    with pytest.raises(ValueError, match="paper must be one of"):
        studies("nothing1999")


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_are_drawn_from_cells(paper):
    """Those that need no data: from two points a line, with every line's name in the legend."""
    for study in studies(paper).values():
        if study.draw is None or paper in ("pola2004", "learners"):
            continue
        names = ("map", "sparsity", "precision", "seconds", "error", "dimension", "train", "test")
        numbers = {f"{name}@{x}": 1.0 + x for name in names for x in (1, 2)} | dict.fromkeys(names, 3.0)
        cells = [Cell(study.datasets[0], method, 0, numbers) for method in study.methods]
        figure = study.draw(cells, None)
        legends = [legend for legend in (*figure.legends, *(ax.get_legend() for ax in figure.axes)) if legend]
        assert {text.get_text() for legend in legends for text in legend.texts} == set(study.methods)
