"""The tables of GML (2014): the Euclidean columns, and a learned one, are the paper's."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import DATA, needs
from papers.study import studies

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
