"""The pages of results are what the program writes from the stored cells."""

from __future__ import annotations

import pytest

from papers.check import RESULTS
from papers.results import markdown, read_origin
from papers.study import PAPERS, read_cells, studies


def stored(study):
    path = RESULTS / study.paper / study.cells_file
    return path, [cell for cell in read_cells(path) if cell.dataset in study.datasets]


@pytest.mark.parametrize(("paper", "name"), [(paper, name) for paper in PAPERS for name in studies(paper)])
def test_page_of_a_study(paper, name):
    study = studies(paper)[name]
    path, cells = stored(study)
    page = (RESULTS / paper / f"{name}.md").read_text(encoding="utf-8")
    pictures = [line.rpartition("(")[2].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert page == markdown(study, cells, read_origin(path.with_suffix(".json")), pictures)
