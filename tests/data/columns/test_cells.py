"""Numbers and dates in cells of text."""

from __future__ import annotations

import math
import time
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.data.columns.cells import (
    CELL_KINDS,
    ISO,
    cell_values,
    day_number,
    decimal_marks,
    form_of,
    missing_cells,
    money,
    number,
    percentage,
)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_as_python_writes_them(value):
    assert number(repr(value)) == value
    assert number(repr(value).replace(".", ","), ",") == value


@given(st.integers(-(10**12), 10**12), st.integers(0, 99), st.sampled_from(["'", " ", "\u00a0", "\u202f", "’"]))
def test_thousands(whole, cents, space):
    value = math.copysign(abs(whole) + cents / 100, whole)
    english = f"{whole:,}.{cents:02d}"
    german = english.translate(str.maketrans(",.", ".,"))
    assert number(english) == value
    assert number(german, ",") == value
    assert number(english.replace(",", space)) == value
    assert number(german.replace(".", space), ",") == value


@pytest.mark.parametrize(
    "text", ["", "x", "1_0", "1,5", "1,01,000", "1.019.5", "12 5", "0x10", "1e", "--5", "5%", "0,126", "-012,500"]
)
def test_what_is_no_number(text):
    assert number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("\u22121.5", -1.5), ("1.5-", -1.5), ("(1.5)", -1.5), ("(3)", -3.0), ("1,200-", -1200.0)),
        *((text, None) for text in ("2-", "(-5)", "-5.5-", "((5))", "5.-.", "()", "-")),
    ],
)
def test_minus_signs(text, value):
    assert number(text) == value
    assert decimal_marks(["(1,019)", "1.019-"]) == set()


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        *((money, text, -5.0) for text in ("-$5", "$-5", "($5)", "\u2212$5", "-5 €", "5.0- USD", "-USD 5", "$(5)")),
        *((percentage, text, -5.0) for text in ("-5%", "(5%)", "(5)%", "\u22125 %", "5.0-%")),
        *((money, text, None) for text in ("-$-5", "($-5)", "-(5)", "$")),
    ],
)
def test_minus_signs_beside_a_unit(read, text, value):
    assert read(text, ".") == value


def test_marks():
    assert decimal_marks(["1,019", "23", "-5", "1.019"]) == set()
    assert decimal_marks(["0,125"]) == {","}
    assert decimal_marks(["0.125"]) == {"."}
    assert decimal_marks(["1,019,000"]) == {"."}
    assert decimal_marks(["1.019.000"]) == {","}
    assert decimal_marks(["1.5", "2,25"]) == {".", ","}


def test_missing():
    assert missing_cells(["NA", "?", "-", "", None, "n/a", "none", "0"]).tolist() == [*[True] * 6, False, False]
    np.testing.assert_array_equal(
        cell_values(["1,5", None, "inf", "x", "2"], "number", ","), [1.5, np.nan, np.nan, np.nan, 2]
    )


@pytest.mark.parametrize(
    ("texts", "format"),
    [
        (["2024-01-31", "2023-12-01T10:00:00Z"], ISO),
        (["31.01.2024", "1.2.2024"], "%d.%m.%Y"),
        (["01/31/2024", "02/01/2024"], "%m/%d/%Y"),
        (["31/01/2024", "02/01/2024"], "%d/%m/%Y"),
        (["03/04/2024"], "%m/%d/%Y"),
        (["2024/01/31 10:30"], "%Y/%m/%d %H:%M"),
        (["5 Feb 2024"], "%d %b %Y"),
        (["20240131"], None),
        (["2024-01-31", "soon"], None),
        (["1.5", "2.5"], None),
        (["9999-99-99"], None),
        (["0001-01-01T00:00:00+23:59"], ISO),
        ([], None),
    ],
)
def test_date_formats(texts, format):
    assert form_of(texts, "date") == format


@given(st.dates(min_value=date(1000, 1, 1)))
def test_days(day):
    assert day_number(day.isoformat(), ISO) == day.toordinal() - date(1970, 1, 1).toordinal()
    assert day_number(f"{day.day}.{day.month}.{day.year}", "%d.%m.%Y") == day_number(day.isoformat(), ISO)


def test_time_zones_and_gaps():
    result = cell_values(["1970-01-02T01:00:00+01:00", None, "x", "1970-01-02"], "date", ISO)
    np.testing.assert_array_equal(result, [1.0, np.nan, np.nan, 1.0])


LONG = 200_000


@pytest.mark.parametrize("kind", CELL_KINDS)
@pytest.mark.parametrize(
    "cell",
    [
        *(character * LONG for character in " 1()-+%$€.,'A"),
        *(pair * (LONG // 2) for pair in ("1,", "1 ", "$ ", "%(", "-(")),
        "1" + ",000" * (LONG // 4) + "x",
        "1" + " 000" * (LONG // 4) + "x",
        "(" * (LONG // 2) + ")" * (LONG // 2),
        "5" + " " * LONG + "x %",
    ],
    ids=lambda cell: cell[:3],
)
def test_a_long_cell_takes_linear_time(kind, cell):
    """Quadratic time would be minutes."""
    started = time.process_time()
    assert form_of([cell, cell], kind) is None
    for form in CELL_KINDS[kind].forms or (".", ","):
        CELL_KINDS[kind].read(cell, form)
    decimal_marks([cell])
    assert time.process_time() - started < 1.0
