"""What comes of a study's cells."""

from __future__ import annotations

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student_t
from scipy.stats import ttest_ind_from_stats

import mahala
from papers.results import (
    Line,
    Origin,
    in_words,
    markdown,
    ranks,
    ranks_in_words,
    read_origin,
    record_origin,
    summarise,
    table,
    versions,
    write_table,
)
from papers.study import SECONDS, Cell, Published, Quantity, Study

ERROR = Quantity("error", "Error", {"a": {"m": Published(12.0, 1.0), "n": Published(50.0)}}, better="lower")
STUDY = Study(
    paper="test2000",
    name="table1",
    title="Errors",
    quantities=(ERROR, SECONDS),
    datasets=("a", "bb"),
    methods=("m", "n"),
    runs=3,
    measure=lambda *_: {},
)
CELLS = [
    Cell("bb", "n", 0, {"error": 21.0, "seconds": 0.5}),
    *(Cell("a", "m", run, {"error": 11.0 + run, "seconds": 0.5}) for run in range(3)),
    Cell("bb", "m", 0, {"error": 20.0}),
]


def test_lines():
    lines = summarise(STUDY, ERROR, CELLS)
    assert [line[:5] for line in lines] == [
        ("a", "m", 3, 12.0, 1.0),
        ("bb", "m", 1, 20.0, 0.0),
        ("bb", "n", 1, 21.0, 0.0),
    ]
    assert lines[0].difference == 0.0
    assert math.isnan(lines[1].difference)
    assert [(line.dataset, line.method) for line in summarise(STUDY, SECONDS, CELLS)] == [("a", "m"), ("bb", "n")]


def test_table_page_and_file(tmp_path):
    header, rows = table(STUDY, ERROR, summarise(STUDY, ERROR, CELLS), newline=" / ")
    assert header == ["data set", "m", "n"]
    assert rows == [["a", "12.00 ± 1.00 / 12.00 (+0.00)", "-"], ["bb", "20.00", "21.00"]]
    page = markdown(STUDY, CELLS, None, ["table1.svg"])
    assert "| a | 12.00 ± 1.00<br>12.00 (+0.00) | - |" in page.replace("\u00a0", " ")
    assert "| bb | - | 0.5 |" in page
    assert "![Errors](table1.svg)" in page
    write_table(tmp_path / "t.csv", STUDY, CELLS)
    written = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert written[0] == {
        "quantity": "error", "data set": "a", "method": "m", "runs": "3", "ours": "12", "sd": "1", "paper": "12",
        "paper_sd": "1", "difference": "0",
    }  # fmt: skip
    assert written[1]["paper"] == written[1]["difference"] == ""
    assert len(written) == 5


def test_stars():
    far = Line("a", "m", 3, 10.0, 1.0, Published(20.0), 3)
    assert in_words(ERROR, far) == ("10.00 ± 1.00", "20.00", "-10.00*†")
    near = far._replace(published=Published(11.5, 1.0))
    assert in_words(ERROR, near._replace(runs=20, paper_runs=20))[2] == "-1.50†"
    assert in_words(ERROR, near)[2] == "-1.50"
    assert in_words(SECONDS, far) == ("10", "20", "-10")
    assert in_words(SECONDS, Line("a", "m", 1, 0.01234, 0.0, Published(2993.64))) == ("0.012", "2993.64", "-2994")


def test_a_quantity_may_choose_among_the_numbers():
    def best(runs):
        errors = np.array([[numbers["k1"], numbers["k2"]] for numbers in runs])
        return errors[:, errors.mean(axis=0).argmin()] if len(runs) else np.empty(0)

    cells = [Cell("a", "m", 0, {"k1": 1.0, "k2": 3.0}), Cell("a", "m", 1, {"k1": 5.0, "k2": 2.0})]
    (line,) = summarise(STUDY, Quantity("error", "Error", values=best), cells)
    assert line.mean == 2.5


@pytest.mark.parametrize(
    ("mean", "sd", "published", "off"),
    [
        (10.0, 1.0, Published(11.9, 0.5), False),
        (10.0, 1.0, Published(12.1, 0.5), True),
        (10.0, 0.1, Published(12.1, 2.0), False),
        (10.0, 1.0, None, False),
        (10.0, 0.0, Published(12.0), False),  # nothing is known of the spread
    ],
)
def test_off_by_more_than_two_deviations(mean, sd, published, off):
    assert Line("a", "m", 3, mean, sd, published).off == off


def test_means_are_compared_by_their_standard_errors():
    line = Line("a", "m", 10, 18.4, 1.1, Published(19.8, 1.4), 8)
    expected = ttest_ind_from_stats(18.4, 1.1, 10, 19.8, 1.4, 8, equal_var=False).pvalue
    assert line.p_value == pytest.approx(expected)
    # Of one mean the deviation is not known, or there is one run.
    t = 1.4 / math.sqrt(1.1**2 / 10 + 1.1**2 / 8)
    assert line._replace(published=Published(19.8)).p_value == pytest.approx(2 * student_t.sf(t, 9))
    t = 1.4 / math.sqrt(1.4**2 / 1 + 1.4**2 / 8)
    assert line._replace(runs=1, sd=0.0).p_value == pytest.approx(2 * student_t.sf(t, 7))
    assert math.isnan(line._replace(sd=0.0, published=Published(19.8)).p_value)
    assert math.isnan(line._replace(published=None).p_value)


def test_ranks_over_the_data_sets_that_have_all_methods():
    rows = {"a": (1.0, 2.0, 3.0), "b": (1.5, 1.6, 1.7), "c": (2.0, 4.0, 9.0), "d": (5.0, math.nan, 1.0)}
    study = Study("p", "table1", "T", (ERROR,), tuple(rows), ("x", "y", "z"), 1, lambda *_: {})
    cells = [
        Cell(dataset, method, 0, {"error": value})
        for dataset, values in rows.items()
        for method, value in zip("xyz", values, strict=True)
        if not math.isnan(value)
    ]
    found = ranks(study, ERROR, summarise(study, ERROR, cells))
    assert found.ranks.tolist() == [1.0, 2.0, 3.0]
    assert found.n_datasets == 3
    assert "x 1.00, y 2.00, z 3.00" in ranks_in_words(found)
    higher = Quantity("error", "MAP", better="higher")
    assert ranks(study, higher, summarise(study, higher, cells)).ranks.tolist() == [3.0, 2.0, 1.0]
    rare = replace(study, methods=("x", "y", "z", "w"))
    more = [*cells, Cell("a", "w", 0, {"error": 0.0})]  # of four data sets only one has it
    assert ranks(rare, ERROR, summarise(rare, ERROR, more)).methods == ("x", "y", "z")
    assert ranks(study, SECONDS, summarise(study, ERROR, cells)) is None
    assert ranks(study, ERROR, summarise(study, ERROR, cells[:6])) is None


def test_significant_pairs_are_named():
    study = Study("p", "table1", "T", (ERROR,), tuple(map(str, range(12))), ("x", "y", "z"), 1, lambda *_: {})
    cells = [Cell(d, m, 0, {"error": float("xyz".index(m))}) for d in study.datasets for m in study.methods]
    words = ranks_in_words(ranks(study, ERROR, summarise(study, ERROR, cells)))
    assert "x before z (p = " in words
    assert "y before x" not in words


def test_a_page_says_that_another_version_measured_it():
    now = Origin("python -m papers a", [versions()], 1.0)
    before = now._replace(versions=[versions() | {"mahala": "0.0.1"}, versions()])
    assert "Measured with" not in markdown(STUDY, CELLS, now)
    told = " ".join(markdown(STUDY, CELLS, before).split())
    assert f"Measured with mahala 0.0.1, while this is {mahala.__version__}: `python -m papers test2000 --check" in told


def test_seconds_of_several_runs_add_up(tmp_path):
    path = tmp_path / "o.json"
    assert read_origin(path) is None
    record_origin(path, "python -m papers a", 50.0)
    record_origin(path, "python -m papers a --table 2", 75.0)
    origin = read_origin(path)
    assert origin.seconds == 125.0
    assert origin.versions == [versions()]
    assert origin.in_words().startswith("`python -m papers a --table 2` · 2 min 5 s · Python 3.")
    path.write_text(path.read_text().replace(f'"mahala": "{mahala.__version__}"', '"mahala": "0.0.1"'))
    record_origin(path, "python -m papers a", 1.0)
    assert [own["mahala"] for own in read_origin(path).versions] == ["0.0.1", mahala.__version__]
