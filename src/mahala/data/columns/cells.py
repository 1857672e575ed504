"""Read numbers, dates and missing values from cells of text, as exports of many programs and countries write them."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from datetime import UTC, datetime
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.support.arrays import FloatArray

Decimal = Literal[".", ","]
# The mark of a table, or "auto" to infer it from the columns; where none shows it, a point, with "auto," a comma.
TableDecimal = Literal["auto", "auto,", ".", ","]

# Spellings of a missing value. Others may be classes, such as "none", "mild", "severe".
MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "NaT", "<NA>", "null", "NULL", "None", "?", "-", "--", ".")
)
# What separates thousands beside comma and point: spaces, also unbreakable ones, and apostrophes.
SPACES = " \u00a0\u2009\u202f'\u2019"
_SPACES = re.compile(f"(?<=[0-9])[{SPACES}](?=[0-9]{{3}}(?![0-9]))")
_WHOLE = {
    mark: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:{re.escape(other)}[0-9]{{3}})+(?:{re.escape(mark)}[0-9]*)?")
    for mark, other in ((".", ","), (",", "."))
}
# One group of three digits after a mark: 1,019 is a thousand in one country and about one in another.
_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")
# Both search every cell: repeated spaces before an end would take quadratic time.
_CURRENCY = re.compile(r"^(?:[A-Z]{3}\s|[$€£¥₹])|(?:\s[A-Z]{3}|[$€£¥₹])$")
_SIGNS = "()-\u2212"
_PERCENT = re.compile(r"%$")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?:\s*([AaPp][Mm]))?")
_DAYS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y", "%d.%m.%y")
_TIMES = ("", " %H:%M", " %H:%M:%S")
ISO = "ISO 8601"
_DATE_FORMATS = (ISO, *(f"{day}{time}" for day, time in product(_DAYS, _TIMES)))


def missing_spellings(texts: Set[str | None]) -> frozenset[str]:
    """Return the spellings of a missing value in a column with these cells."""
    spellings = MISSING - {"-"} if "+" in texts else MISSING
    words = {text for text in texts if text is not None and text not in spellings}
    if words and "None" in texts and not any(character.isdigit() for word in words for character in word):
        return spellings - {"None"}
    return spellings


def missing_cells(texts: Sequence[str | None]) -> NDArray[np.bool_]:
    """Return which cells are missing; a minus sign is not where a plus sign is a value as well, nor None among words.

    >>> missing_cells(["1", "NA", "-"]).tolist(), missing_cells(["+", "?", "-"]).tolist()
    ([False, True, True], [False, True, False])
    >>> missing_cells(["None", "Driver", "NA"]).tolist(), missing_cells(["None", "7"]).tolist()
    ([False, False, True], [True, False])
    """
    spellings = missing_spellings(set(texts))
    return np.fromiter((text is None or text in spellings for text in texts), dtype=bool, count=len(texts))


def _signed(text: str) -> str:
    """Return an amount with its minus sign in front: of text in parentheses, or with the sign at the end.

    A sign at the end needs a decimal or thousands mark before it: 2- may be a grade.

    >>> _signed("(1.5)"), _signed("1.5-"), _signed("\u22121.5"), _signed("2-")
    ('-1.5', '-1.5', '-1.5', '2-')
    """
    text = text.replace("\u2212", "-")
    if text.startswith("(") and text.endswith(")"):
        return f"-{text[1:-1]}"
    return f"-{text[:-1]}" if text.endswith("-") and ("." in text or "," in text) else text


def decimal_marks(texts: Iterable[str]) -> set[Decimal]:
    """Return the decimal marks that numbers in text must have; none if they could have either.

    >>> decimal_marks(["1,019"]), decimal_marks(["1,019", "12,5"]), decimal_marks(["1,019.5"])
    (set(), {','}, {'.'})
    """
    marks: set[Decimal] = set()
    for text in map(_signed, texts):
        comma, point = text.count(","), text.count(".")
        if comma and point:
            marks.add("." if text.rfind(".") > text.rfind(",") else ",")
        elif comma + point > 1:
            marks.add("." if comma else ",")
        elif comma + point == 1 and not _EITHER.fullmatch(text):
            marks.add("," if comma else ".")
    return marks


def other_mark(mark: Decimal) -> Decimal:
    """Return the decimal mark that is not this one."""
    return "," if mark == "." else "."


def number(text: str, decimal: Decimal = ".") -> float | None:
    """Return the number that a cell holds, or None if it holds none. The first group of thousands never begins with 0.

    >>> number("1,019.5"), number("1.019,5", ","), number("1 019", ","), number("12,5"), number("1_0")
    (1019.5, 1019.5, 1019.0, None, None)
    >>> number("0,126"), number("0,126", ","), number("(1.5)"), number("1.5-")
    (None, 0.126, -1.5, -1.5)
    """
    text = _signed(text)
    if not text or text[-1] not in "0123456789." + decimal or "_" in text:
        return None
    text = _SPACES.sub("", text)
    other = other_mark(decimal)
    if other in text:
        if not _WHOLE[decimal].fullmatch(text):
            return None
        text = text.replace(other, "")
    try:
        return float(text.replace(decimal, "."))
    except ValueError:
        return None


def day_number(text: str, format: str) -> float | None:
    """Return the number of days from the start of 1970 to a date, or None if the text is no date of this format.

    >>> day_number("1970-01-02 12:00", ISO)
    1.5
    """
    if not 6 <= len(text) <= 40:
        return None
    try:
        if format == ISO:
            if text.count("-") < 2:  # 20240131 and 2024-031 are numbers, not dates
                return None
            date = datetime.fromisoformat(text)
        else:
            date = datetime.strptime(text, format)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() / 86400.0
    except (ValueError, OverflowError):
        return None


def flag(text: str, form: str = "") -> float | None:
    """Return 1 for true, 0 for false, and None for other text."""
    return {"true": 1.0, "false": 0.0}.get(text.lower())


def money(text: str, decimal: Decimal) -> float | None:
    """Return an amount of money; one in parentheses is negative.

    >>> money("$1,200.50", "."), money("1.200,50 €", ","), money("(USD 3)", "."), money("3 apples", ".")
    (1200.5, 1200.5, -3.0, None)
    """
    return _without(_CURRENCY, text, decimal)


def percentage(text: str, decimal: Decimal) -> float | None:
    """Return a percentage as it is written.

    >>> percentage("12.5%", "."), percentage("12,5 %", ","), percentage("%", ".")
    (12.5, 12.5, None)
    """
    return _without(_PERCENT, text, decimal)


def _without(unit: re.Pattern[str], text: str, decimal: Decimal) -> float | None:
    """Return the number that a cell holds beside a unit, which may stand between a minus sign and the number."""
    text = _signed(text)
    sign = "-" if text.startswith("-") else ""
    return number(sign + unit.sub("", text.removeprefix("-")).strip(), decimal)


def clock_hours(text: str, form: str = "") -> float | None:
    """Return the hours since midnight of a time of day.

    >>> clock_hours("12:30"), clock_hours("1:15:36 PM"), clock_hours("25:00")
    (12.5, 13.26, None)
    """
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds, half = int(match[1]), int(match[2]), int(match[3] or 0), (match[4] or "").lower()
    if minutes > 59 or seconds > 59 or hours > 23 or (half and not 1 <= hours <= 12):
        return None
    if half:
        hours = hours % 12 + 12 * (half == "pm")
    return hours + minutes / 60.0 + seconds / 3600.0


def are_codes(texts: Iterable[str]) -> bool:
    """Return whether digits are codes, such as ZIP codes: all of one length, and some begin with 0.

    >>> are_codes(["02139", "94110"]), are_codes(["0", "7"]), are_codes(["0.5", "1.5"])
    (True, False, False)
    """
    texts = set(texts)
    leading = any(text.startswith("0") and len(text) > 1 for text in texts)
    return leading and all(map(str.isdigit, texts)) and len(set(map(len, texts))) == 1


class CellKind(NamedTuple):
    """A kind of cells that become numbers.

    words : its name in messages
    read : returns the number of a cell in one of the `forms`, or None if it is not of this kind
    forms : decimal marks, formats of dates, or "" if there is one form only; without any, the kind is chosen otherwise
    mark : what at least half of the cells of a column must contain
    """

    words: str
    read: Callable[[str, Any], float | None]
    forms: Sequence[str] = ()
    mark: re.Pattern[str] | None = None


# In the order in which they are tried. A new kind of column is one more entry.
CELL_KINDS = {
    "number": CellKind("numbers", number),  # the decimal mark depends on the other columns
    "flag": CellKind("true or false", flag, ("",)),
    "date": CellKind("dates", day_number, _DATE_FORMATS),
    "money": CellKind("amounts of money", money, (".", ","), _CURRENCY),
    "percent": CellKind("percentages", percentage, (".", ","), _PERCENT),
    "clock": CellKind("times of day", clock_hours, ("",)),
}


def form_of(texts: Collection[str], kind: str) -> str | None:
    """Return the first form of a kind that all cells have, or None if there is none.

    Where days and months could be exchanged, as in 03/04/2024, the month comes first.

    >>> form_of(["2024-01-31", "2024-02-01 12:30"], "date"), form_of(["31/01/2024", "01/02/2024"], "date")
    ('ISO 8601', '%d/%m/%Y')
    >>> form_of(["1.200,50 €", "3 €"], "money"), form_of(["1", "2", "3 €"], "money"), form_of(["TRUE", "0"], "flag")
    (',', None, None)
    """
    _, read, forms, mark = CELL_KINDS[kind]
    if mark is not None and 2 * sum(bool(mark.search(text.strip(_SIGNS))) for text in texts) < len(texts):
        return None
    distinct = set(texts)
    fitting = (form for form in forms if all(read(text, form) is not None for text in distinct))
    return next(fitting, None) if distinct else None


def cell_values(texts: Sequence[str | None], kind: str, form: str) -> FloatArray:
    """Return the numbers that cells of a kind stand for, NaN where there is none.

    >>> cell_values(["1,5", None, "x"], "number", ","), cell_values(["TRUE", "false"], "flag", "")
    (array([1.5, nan, nan]), array([1., 0.]))
    """
    read = CELL_KINDS[kind].read
    value_of = {text: None if text is None else read(text, form) for text in set(texts)}
    values = np.array([value_of[text] for text in texts], dtype=np.float64)
    values[np.isinf(values)] = np.nan
    return values
