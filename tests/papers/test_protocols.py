"""One cell of each table, on real data: the protocol runs, and the Euclidean column is the paper's."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import DATA
from mahala.papers.study import studies

needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not there; set MAHALA_DATA to the data sets")


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
