"""The pages of results are what the program writes from the stored cells."""

from __future__ import annotations

import pytest

from papers.agreement import agreements, front_page
from papers.check import RESULTS
from papers.prose import all_facts, prose, written_papers
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


@pytest.mark.parametrize("paper", written_papers())
def test_numbers_in_prose_are_those_of_the_cells(paper):
    """`python -m papers --show all --output docs/results` writes the pages again."""
    assert (RESULTS / paper / "README.md").read_text(encoding="utf-8") == prose(paper, RESULTS)


def test_front_page():
    found = agreements(RESULTS)
    pictures = {paper: f"agreement-{paper}.svg" for paper in found}
    assert (RESULTS / "index.md").read_text(encoding="utf-8") == front_page(found, pictures)


def test_what_other_pages_say_of_the_learners():
    """Which one is first in rank, and that none is shown to beat Euclidean distances in general."""
    placed = all_facts("learners", RESULTS)["placed"]
    readme = " ".join((RESULTS.parents[1] / "README.md").read_text(encoding="utf-8").split())
    assert f"[{placed.first}](docs/learners/{placed.first}.md) on scaled features: it has the best mean rank" in readme
    assert "no single learner is shown to beat Euclidean distances" in readme
    assert placed.better == []
    # "Only DMLMJ has a better mean rank", says the page of the second one.
    lmnn = (RESULTS.parent / "learners" / f"{placed.second}.md").read_text(encoding="utf-8")
    assert f"only [{placed.first}]({placed.first}.md) has a better mean rank" in " ".join(lmnn.split())
