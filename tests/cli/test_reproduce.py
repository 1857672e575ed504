"""`mahala reproduce` as a person uses it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from conftest import DATA
from mahala.cli.main import app

needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not there; set MAHALA_DATA to the data sets")


def mahala(*arguments):
    return CliRunner().invoke(app, ["reproduce", *arguments])


@needs_data
def test_a_table_and_its_files(tmp_path):
    arguments = ["gml2014", "--table", "2", "--datasets", "iris,wine", "--methods", "GML,Euclidean", "--runs", "2"]
    where = ["--data", str(DATA), "--output", str(tmp_path)]
    first = mahala(*arguments, *where)
    assert first.exit_code == 0, first.output
    assert "Table 2" in first.output
    cells = (tmp_path / "gml2014" / "table2.csv").read_text().splitlines()
    assert cells[0] == "dataset,method,run,error,seconds"
    assert len(cells) == 1 + 2 * 2 * 2
    assert "| wine |" in (tmp_path / "gml2014" / "table2.md").read_text()
    again = mahala(*arguments, *where)
    assert again.exit_code == 0
    assert (tmp_path / "gml2014" / "table2.csv").read_text().splitlines() == cells
    shown = mahala("gml2014", "--table", "2", "--output", str(tmp_path), "--show")
    assert shown.exit_code == 0
    assert "wine" in shown.output


def test_a_figure_is_drawn(tmp_path):
    result = mahala(
        "boostmetric2009", "--figure", "1", "--datasets", "50", "--runs", "1", "--methods", "BoostMetric",
        "--output", str(tmp_path),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "<svg" in (tmp_path / "boostmetric2009" / "figure1.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing1999"], "PAPER must be one of"),
        (["gml2014", "--table", "9"], "--table or --figure must name some of"),
        (["gml2014", "--table", "2", "--datasets", "moon"], "--datasets must name some of"),
        (["gml2014", "--table", "2", "--methods", "magic"], "--methods must name some of"),
        (["boostmetric2009", "--table", "1", "--datasets", "Twin Peaks", "--data", "nowhere"], "no data set"),
    ],
)
def test_errors_are_words(tmp_path, arguments, message):
    result = mahala(*arguments, "--output", str(tmp_path))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_nothing_to_show_yet(tmp_path):
    result = mahala("gml2014", "--table", "2", "--show", "--output", str(tmp_path))
    assert result.exit_code == 0
    assert "Nothing has been measured" in result.output


def test_help_is_light():
    """Neither Numba nor scikit-learn is loaded to show it."""
    code = (
        "import sys; from typer.testing import CliRunner; from mahala.cli.main import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "assert not {'numba', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
