"""A cell of each table and figure of BoostMetric (2009)."""

from __future__ import annotations

from conftest import DATA, needs
from papers.study import studies

needs_data = needs()


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
    unit, plain = (
        tables["table3"].measure(setting, "Euclidean", 0, DATA)["error"]
        for setting in ("rows of length one", "as in Table 1")
    )
    assert unit != plain
    assert 1.0 < min(unit, plain) <= max(unit, plain) < 5.0
    timed = tables["figure1"].measure("50", "BoostMetric", 0, None)
    assert timed["seconds"] > 0.0
    assert timed["iterations"] > 1.0
