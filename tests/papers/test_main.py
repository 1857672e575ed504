"""`python -m papers` as a person uses it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from conftest import DATA, needs
from papers.__main__ import app
from papers.study import PAPERS, Cell, append_cell, read_cells, studies

needs_data = needs()


def papers(*arguments):
    return CliRunner().invoke(app, arguments)


@needs_data
def test_a_table_and_its_files(tmp_path):
    arguments = ["gml2014", "--table", "2", "--datasets", "iris,wine", "--methods", "GML,Euclidean", "--runs", "2"]
    where = ["--data", str(DATA), "--output", str(tmp_path)]
    first = papers(*arguments, *where)
    assert first.exit_code == 0, first.output
    assert "Table 2" in first.output
    cells = read_cells(tmp_path / "gml2014" / "table2-cells.jsonl")
    assert len(cells) == 2 * 2 * 2
    assert all(set(cell.numbers) == {"error", "seconds"} for cell in cells)
    assert "| wine |" in (tmp_path / "gml2014" / "table2.md").read_text()
    again = papers(*arguments, *where)
    assert again.exit_code == 0
    assert read_cells(tmp_path / "gml2014" / "table2-cells.jsonl") == cells
    page = (tmp_path / "gml2014" / "table2.md").read_text()
    assert "`python -m papers gml2014 --table 2 --datasets iris,wine --methods GML,Euclidean --runs 2`" in page
    assert "difference" in (tmp_path / "gml2014" / "table2.csv").read_text()
    shown = papers("gml2014", "--table", "2", "--output", str(tmp_path), "--show")
    assert shown.exit_code == 0
    assert "wine" in shown.output
    told = json.loads(papers("gml2014", "--table", "2", "--output", str(tmp_path), "--show", "--json").stdout)
    line = told["results"]["table2"]["error"][0]
    assert (line["row"], line["method"], line["runs"], line["paper"]) == ("iris", "GML", 2, 2.53)
    assert line["difference"] == pytest.approx(line["ours"] - 2.53)


@needs_data
def test_ranks_of_three_data_sets(tmp_path):
    result = papers(
        "gml2014", "--table", "4", "--datasets", "iris,wine,seeds", "--runs", "1", "--methods", "Relief,MDM,Euclidean",
        "--data", str(DATA), "--output", str(tmp_path), "--image", "png",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Mean ranks over 3 data sets" in " ".join(result.output.split())
    assert (tmp_path / "gml2014" / "table4-ranks-error.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_is_drawn(tmp_path):
    arguments = ["--figure", "1", "--datasets", "50", "--runs", "1", "--methods", "BoostMetric", "--quick"]
    result = papers("boostmetric2009", *arguments, "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "<svg" in (tmp_path / "quick" / "boostmetric2009" / "figure1.svg").read_text()


def test_tables_need_no_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for place in ("papers.results", "papers.__main__"):
        monkeypatch.setattr(f"{place}.find_spec", lambda name: None)
    study, folder = studies("boostmetric2009")["figure1"], tmp_path / "boostmetric2009"
    folder.mkdir()
    append_cell(folder / study.cells_file, Cell("50", "LMNN", 0, {"seconds": 40.0}))
    result = papers("boostmetric2009", "--figure", "1", "--show", "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "pip install matplotlib" in result.stderr
    assert "| 50 | 40 |" in (folder / "figure1.md").read_text().replace("\u00a0", " ")
    everything = papers("all", "--show", "--output", str(tmp_path))
    assert everything.exit_code == 2
    assert "Matplotlib" in everything.stderr


def test_in_a_narrow_terminal_nothing_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    study, folder = studies("gml2014")["table4"], tmp_path / "gml2014"
    folder.mkdir()
    for method in study.methods:
        for run, error in enumerate((40.0, 41.0)):
            append_cell(folder / study.cells_file, Cell("parkinsons", method, run, {"error": error}))
    shown = papers("gml2014", "--table", "4", "--show", "--output", str(tmp_path))
    assert shown.exit_code == 0, shown.output
    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    assert "data set method ours paper difference" in lines
    assert "parkinsons MDM 40.50 ± 0.71 10.00 +30.50*†" in lines
    assert "GML weights 40.50 ± 0.71 8.78 +31.72*†" in lines


def test_without_a_paper_all_are_listed():
    result = papers()
    assert result.exit_code == 0
    assert "--table 2" in result.output
    assert "boostmetric2009" in result.output
    assert "table2" in json.loads(papers("--json").stdout)["papers"]["pa2013"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing1999"], "paper must be one of"),
        (["gml2014", "--table", "9"], "--table or --figure must name some of"),
        (["gml2014", "--table", "2", "--datasets", "moon"], "--datasets of table2 must name some of"),
        (["gml2014", "--table", "2", "--methods", "magic"], "--methods of table2 must name some of"),
        (["gml2014", "--table", "2", "--datasets", "iris", "--data", "nowhere"], "there is no folder nowhere"),
        (["boostmetric2009", "--table", "1", "--datasets", "Twin Peaks", "--data", "."], "no data set"),
    ],
)
def test_errors_are_words(tmp_path, arguments, message):
    result = papers(*arguments, "--output", str(tmp_path))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_a_wrong_choice_is_found_before_anything_is_measured(tmp_path):
    """Table 1 has Wine, Table 2 has not."""
    result = papers("boostmetric2009", "--datasets", "Wine", "--runs", "1", "--output", str(tmp_path))
    assert result.exit_code == 2
    assert "--datasets of table2 must name some of" in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


def test_a_study_without_a_quick_version_says_so(tmp_path, monkeypatch):
    slow = {name: replace(study, quick=None) for name, study in studies("gml2014").items()}
    monkeypatch.setattr("papers.study.studies", lambda paper: slow)
    result = papers("gml2014", "--table", "2", "--quick", "--output", str(tmp_path))
    assert result.exit_code == 2
    assert "gml2014 table2 has no quick version; leave out --quick" in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


def test_files_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    """A figure that cannot be written leaves the one before it."""
    arguments = ["boostmetric2009", "--figure", "1", "--datasets", "50", "--runs", "1", "--methods", "BoostMetric"]
    assert papers(*arguments, "--output", str(tmp_path)).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}

    def full_disk(self, path, **options):
        path.write_bytes(b"<svg")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full_disk)
    result = papers(*arguments, "--output", str(tmp_path))
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_nothing_to_show_yet(tmp_path):
    result = papers("gml2014", "--table", "2", "--show", "--output", str(tmp_path))
    assert result.exit_code == 0
    assert "has no results yet" in result.stderr


def test_help_is_light():
    """None of the large libraries is loaded to show it."""
    code = (
        "import sys; from typer.testing import CliRunner; from papers.__main__ import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "assert not {'numpy', 'scipy', 'numba', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_papers_are_shown_and_not_measured(tmp_path):
    for arguments in (["all"], ["all", "--show", "--table", "2"], ["all", "--show", "--quick"]):
        result = papers(*arguments, "--output", str(tmp_path))
        assert result.exit_code == 2
        assert "all papers can be shown or checked only: give --show" in " ".join(
            result.stderr.replace("│", "").split()
        )
    result = papers("all", "--show", "--output", str(tmp_path))
    assert result.exit_code == 2
    assert "--output must name a folder with results" in " ".join(result.stderr.replace("│", "").split())
    study = studies("gml2014")["table2"]
    (tmp_path / "gml2014").mkdir()
    append_cell(tmp_path / "gml2014" / study.cells_file, Cell("iris", "Euclidean", 0, {"error": 4.0}))
    result = papers("all", "--show", "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "gml2014" in result.output
    assert (tmp_path / "agreement-gml2014.svg").read_text().startswith("<?xml")
    assert "(agreement-gml2014.svg)" in (tmp_path / "index.md").read_text()
    told = json.loads(papers("--show", "all", "--output", str(tmp_path), "--json").stdout)
    assert [(own["study"], own["cells"]) for own in told["agreement"]] == [("table2", 1)]


def test_results_go_on_but_do_not_replace_other_files(tmp_path):
    folder = tmp_path / "gml2014"
    folder.mkdir()
    cells = folder / "table2-cells.jsonl"
    arguments = ["gml2014", "--table", "2", "--show", "--output", str(tmp_path)]
    (folder / "table2.md").write_text("mine")
    result = papers(*arguments)
    assert (result.exit_code, "--force" in result.stderr) == (2, True), result.output
    assert (folder / "table2.md").read_text() == "mine"
    append_cell(cells, Cell("wine", "GML", 0, {"error": 0.1}))
    for _ in range(2):
        result = papers(*arguments)
        assert result.exit_code == 0, result.output
    cells.write_text("name,value\n")
    result = papers(*arguments, "--force")
    assert "is not a file of results of mahala" in result.stderr
    assert cells.read_text() == "name,value\n"


@pytest.mark.parametrize("example", re.findall(r"^ +python -m papers *(.*)$", get_command(app).help, re.MULTILINE))
def test_examples_are_read(example):
    """Most take minutes to hours."""
    words = example.split()
    with get_command(app).make_context("papers", words) as context:
        assert context.params["paper"] in (None, *PAPERS, "all")
