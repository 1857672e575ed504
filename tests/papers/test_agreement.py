"""Ours against the papers' numbers."""

from __future__ import annotations

import pytest

from papers.agreement import agreements, draw_agreement, front_page
from papers.study import Cell, append_cell, studies


@pytest.fixture
def folder(tmp_path):
    """Two runs of two cells of a table: one near the published error, one far from it."""
    study = studies("gml2014")["table2"]
    published = study.quantities[0].published
    dataset, row = next(iter(published.items()))
    (near, close), (far, other) = list(row.items())[:2]
    (tmp_path / "gml2014").mkdir()
    for run, step in enumerate((-0.5, 0.5)):
        for method, error in ((near, close.mean + 1.0), (far, other.mean + 50.0 + other.sd)):
            append_cell(
                tmp_path / "gml2014" / study.cells_file,
                Cell(dataset, method, run, {study.quantities[0].name: error + step}),
            )
    return tmp_path


def test_near_and_far_cells_are_told_apart(folder):
    found = agreements(folder)
    assert list(found) == ["gml2014"]
    (own,) = found["gml2014"]
    assert (own.study, len(own.lines), own.within, own.equal) == ("table2", 2, 1, 1)
    assert own.median == pytest.approx(0.5 * sum(abs(line.difference) for line in own.lines))
    legend = draw_agreement("gml2014", [own]).axes[0].get_legend()
    assert [text.get_text() for text in legend.texts] == ["within two deviations: 1 cells", "farther apart: 1 cells"]
    page = front_page(found, {"gml2014": "a.png"})
    assert f"| 2 | 1 | {own.equal} | {own.median:.2g} |" in page
    assert "](gml2014/table2.md)" in page
    assert "(a.png)" in page


def test_a_cell_without_any_deviation_is_neither_near_nor_far(tmp_path):
    """USPS-1 has one split, in the paper and here."""
    study = studies("boostmetric2009")["table1"]
    (tmp_path / "boostmetric2009").mkdir()
    for dataset in ("USPS-1", "USPS-2"):
        cell = Cell(dataset, "Euclidean", 0, {study.quantities[0].name: 50.0})
        append_cell(tmp_path / "boostmetric2009" / study.cells_file, cell)
    (own,) = agreements(tmp_path)["boostmetric2009"]
    assert [line.dataset for line in own.lines] == ["USPS-2"]
    assert own.within == 0


def test_nothing_measured_is_nothing(tmp_path):
    assert agreements(tmp_path) == {}
