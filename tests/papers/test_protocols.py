"""One cell of each table, on real data: the protocol runs, and the Euclidean column is the paper's."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import DATA, needs
from mahala.papers.study import PAPERS, Cell, studies

needs_data = needs()


@needs_data
@pytest.mark.parametrize("name", ["table2", "table3", "table4"])
def test_gml2014(name):
    study = studies("gml2014")[name]
    for dataset in ("wine", "breast10"):
        euclidean = [study.measure(dataset, "Euclidean", run, DATA)["error"] for run in range(5)]
        published = study.quantities[0].published[dataset]["Euclidean"]
        assert np.mean(euclidean) == pytest.approx(published.mean, abs=2 * published.sd)
    method = "GML" if "GML" in study.methods else "GML weights"
    learned = [study.measure("wine", method, run, DATA)["error"] for run in range(5)]
    published = study.quantities[0].published["wine"][method]
    assert np.mean(learned) == pytest.approx(published.mean, abs=2 * published.sd)


@needs_data
def test_boostmetric2009():
    tables = studies("boostmetric2009")
    for dataset in ("Wine", "Bal"):
        for method in ("Euclidean", "RCA"):
            cell = tables["table1"].measure(dataset, method, 0, DATA)
            assert 0.0 <= cell["error"] < 40.0
    boosted = tables["table1"].measure("Wine", "BoostMetric", 0, DATA)["error"]
    assert boosted < tables["table1"].measure("Wine", "Euclidean", 0, DATA)["error"]
    assert tables["table2"].measure("Bal", "1e-6", 0, DATA)["error"] < 20.0
    timed = tables["figure1"].measure("50", "BoostMetric", 0, None)
    assert timed["seconds"] > 0.0
    assert timed["iterations"] > 1.0


@needs_data
def test_pa2013():
    study = studies("pa2013")["table2"]
    error, best_k = study.quantities
    runs = [study.measure("wine", "Euclidean", run, DATA) for run in range(5)]
    assert error.of(runs).mean() == pytest.approx(error.published["wine"]["Euclidean"].mean, abs=1.5)
    assert best_k.of(runs).tolist() == [
        1 + int(np.argmin([sum(run[f"error{k}"] for run in runs) for k in range(1, 26)]))
    ]
    for method in study.methods[1:]:
        cell = study.measure("soyS", method, 0, DATA)
        assert cell["parameter"] in 10.0 ** np.arange(-4.0, 5.0)
        assert 0.0 < error.of([cell])[0] < 25.0
    assert len(error.of([])) == len(best_k.of([])) == 0


def test_what_the_2013_paper_prints():
    tables = studies("pa2013")
    error, best_k = tables["table2"].quantities
    assert error.published["nist16"]["PALS-"].mean == 5.6
    assert best_k.published["soyS"]["PAII-"].mean == 15.0
    (seconds,) = tables["table3"].quantities
    assert seconds.published["nist16"]["PALS+"] == (2007.20, 14.47)
    assert seconds.published["nist16"]["PAI-"] == (10.13, 1.02)


@needs_data
def test_sors2015(monkeypatch):
    from mahala.papers.sors2015 import _measure_queries, tune

    tables = {name: study.quick for name, study in studies("sors2015").items()}
    plain = tables["table2"].measure("caltech10_surf", "Euclidean", 0, DATA)
    learned = tables["table2"].measure("caltech10_surf", "OASIS", 0, DATA)
    assert plain["map"] < learned["map"] < 100.0
    assert plain["precision@20"] < learned["precision@20"] < 1.0
    monkeypatch.setattr("mahala.papers.sors2015.N_ITML_PAIRS", 500)
    assert tables["table2"].measure("protein_val", "ITML", 0, DATA)["map"] > 40.0
    curve = tables["figure1"].measure("caltech10_surf", "OASIS", 0, DATA)
    # Whole and in parts a stream is the same.
    assert curve["map@5000"] == pytest.approx(learned["map"], abs=1e-6)
    assert len(curve) == 20
    assert tables["figure1"].measure("protein_val", "SORS-II", 0, DATA)["map@5000"] > 40.0
    dense = tables["figure5"].measure("0", "SORS-I", 0, DATA)
    sparse = tables["figure5"].measure("0.01", "SORS-I", 0, DATA)
    assert dense["sparsity"] < 1.0 < 50.0 < sparse["sparsity"]
    times = _measure_queries(1_000, (10, 200), "bbc", "SORS-I", 0, DATA)
    assert 0.0 < times["seconds@10"] < times["seconds@200"]
    assert tune("protein_val", "OASIS", DATA, n=500)["C"] in (0.01, 0.1, 1.0)


def test_published_sors2015():
    """Deviations among them: what is starred hangs on the larger of ours and theirs."""
    found, zeros, seconds = studies("sors2015")["table2"].quantities
    assert found.published["gisette_like"]["SORS-I"] == (88.89, 2.49)
    assert zeros.published["bbc"]["AdaSORS-II"] == (81.24, 2.35)
    assert seconds.published["news20_counts"]["SORS-II"] == (381573.25, 10874.97)


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_are_drawn_from_cells(paper):
    """Those that need no data: from two points a line, with every line's name in the legend."""
    for study in studies(paper).values():
        if study.draw is None or paper == "pola2004":
            continue
        names = ("map", "sparsity", "precision", "seconds")
        numbers = {f"{name}@{x}": 1.0 + x for name in names for x in (1, 2)} | dict.fromkeys(names, 3.0)
        cells = [Cell(study.datasets[0], method, 0, numbers) for method in study.methods]
        figure = study.draw(cells, None)
        legends = [legend for legend in (*figure.legends, *(ax.get_legend() for ax in figure.axes)) if legend]
        assert {text.get_text() for legend in legends for text in legend.texts} == set(study.methods)
