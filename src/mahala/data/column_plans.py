"""What is done to each column of a table: chosen from its values, kept in model files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from mahala.data.cells import Decimal, date_format, days, decimal_marks, number, numbers
from mahala.data.columns import Column

# The level that stands for missing values of a category.
GAP = "(missing)"
# Text of which this share of the cells are numbers is a column of numbers with errors, which count as missing.
_MOSTLY = 0.9
# Fewer rows do not show that a column is an identifier: in the order of the rows, or in any order.
_LEAST_IN_ORDER, _LEAST_SHUFFLED = 10, 50
_ID_NAME = re.compile(r"(?i:(?:^|[\W_])(?:id|ids|uuid|guid|index|idx|key|pk|rowid)$|^id[\W_])|[a-z](?:Id|ID)$")
# Text of at least so many words per cell is not a name.
_WORDS = 3.0

Kind = Literal["number", "flag", "date", "category", "hashed", "words", "out"]
NUMERIC = ("number", "flag", "date")


class Settings(NamedTuple):
    """The parameters of a TablePreprocessor."""

    max_levels: int
    beyond: str
    n_hashed: int
    identifiers: str
    decimal: Decimal | None  # of numbers that do not show it; None for that of the other columns,
    otherwise: Decimal = "."  # or for this one if they do not show any


@dataclass(frozen=True)
class ColumnPlan:
    """What is done to one column."""

    name: str
    kind: Kind
    done: str
    median: float | None = None  # for missing numbers; None if none may be missing
    gaps: bool = False  # whether a feature marks what is missing
    decimal: Decimal = "."
    format: str | None = None  # of dates in text
    levels: tuple[str, ...] = ()

    def features(self, n_hashed: int) -> list[str]:
        """Return the names of the features that the column becomes."""
        if self.kind in NUMERIC:
            return [self.name, f"{self.name} missing"] if self.gaps else [self.name]
        if self.kind == "category":
            return [f"{self.name}={level}" for level in self.levels]
        return [] if self.kind == "out" else [f"{self.name}#{j}" for j in range(n_hashed)]


def choose_plans(columns: Mapping[str, Column], settings: Settings) -> list[ColumnPlan]:
    """Return what is done to each column of a table.

    The decimal mark of numbers in text that do not show it, such as 1,019, is that of the settings or else of the other
    columns.
    """
    written = {name: _number_texts(own) for name, own in columns.items() if own.kind == "text"}
    marks = {name: decimal_marks(texts) for name, texts in written.items() if texts}
    shared: set[Decimal] = set().union(*marks.values(), *(own.marks for own in columns.values()))
    recognised = next(iter(shared)) if len(shared) == 1 else settings.otherwise
    default = recognised if settings.decimal is None else settings.decimal
    plans = []
    for name, own in columns.items():
        if name in marks:
            mark = next(iter(marks[name])) if len(marks[name]) == 1 else default
            values = Column(numbers(own.values.tolist(), mark), "number")
            plans.append(_plan_of_numbers(name, values, _as_written(own, written[name], mark), settings, mark))
        else:
            # Whole numbers do not show the mark of later ones.
            plans.append(replace(_plan(name, own, settings), decimal=default))
    return plans


def checked_plan(given: Any) -> ColumnPlan:
    """Return a plan from a model file; raise ValueError or TypeError unless its values are of the right types."""
    plan = ColumnPlan(**{**given, "levels": tuple(given["levels"])})
    texts = (plan.name, plan.done, plan.decimal, plan.format or "", *plan.levels)
    if not all(isinstance(text, str) for text in texts) or not isinstance(plan.gaps, bool):
        raise TypeError("a column must have text for its name and values")
    if plan.kind not in (*NUMERIC, "category", "hashed", "words", "out") or plan.decimal not in (".", ","):
        raise ValueError(f"unknown kind {plan.kind!r} of column")
    if plan.median is not None and not (isinstance(plan.median, int | float) and np.isfinite(plan.median)):
        raise ValueError("a median must be a finite number")
    if (plan.kind == "category") != bool(plan.levels) or len(set(plan.levels)) < len(plan.levels):
        raise ValueError(f"column {plan.name!r} must have different levels if it is a category")
    return plan


def counted(n: int, word: str) -> str:
    """Return a number with its noun: "1 cell", "1,200 cells"."""
    return f"{n:,} {word}{'s' if n != 1 else ''}"


def are_flags(texts: list[str]) -> bool:
    """Return whether cells are true or false, in any case."""
    return {text.lower() for text in set(texts)} <= {"true", "false"}


def flags(cells: Any) -> Any:
    """Return 1 for true, 0 for false and NaN for other cells."""
    known = {"true": 1.0, "false": 0.0}
    return np.array([np.nan if cell is None else known.get(cell.lower(), np.nan) for cell in cells])


def _plan(name: str, own: Column, settings: Settings) -> ColumnPlan:
    if len(own.values) == 0:
        return ColumnPlan(name, "out", f"left out: it holds {own.kind}")
    if own.missing.all():
        return ColumnPlan(name, "out", "left out: empty")
    if own.values.dtype != object:
        return _plan_of_numbers(name, own, own.kind if own.kind != "flag" else "0 or 1", settings)
    texts = [text for text in own.values if text is not None]
    if own.kind == "text" and are_flags(texts):
        return _plan_of_numbers(name, Column(flags(own.values), "flag"), "true or false → 1 or 0", settings)
    format = date_format(texts) if own.kind == "text" else None
    if format is not None:
        dates = Column(days(own.values.tolist(), format), "date")
        said = f"date as {format}" if format.startswith("%") else "date"
        return replace(_plan_of_numbers(name, dates, said, settings), format=format)
    return _plan_of_text(name, own, texts, settings)


def _plan_of_numbers(name: str, own: Column, said: str, settings: Settings, mark: Decimal = ".") -> ColumnPlan:
    present = own.values[~own.missing]
    n_gaps = len(own.values) - len(present)
    if len(present) == 0:
        return ColumnPlan(name, "out", "left out: empty")
    if own.kind == "date":
        said += f", {_day(present.min())} to {_day(present.max())} → days"
    if not n_gaps and len(present) > 1 and present.min() == present.max():
        return ColumnPlan(name, "out", f"left out: the same value in every row ({present[0]:g})")
    why = _identifier(name, own) if settings.identifiers == "drop" and own.kind == "number" else None
    if why:
        return ColumnPlan(name, "out", f"left out: looks like an identifier ({why})")
    median = float(np.median(present))
    kind: Any = own.kind
    shown = _day(median) if own.kind == "date" else f"{median:g}"
    done = f"{said}; {n_gaps:,} missing, set to the median {shown} and marked" if n_gaps else said
    return ColumnPlan(name, kind, done, median, n_gaps > 0, mark)


def _plan_of_text(name: str, own: Column, texts: list[str], settings: Settings) -> ColumnPlan:
    levels, n_rows = sorted(set(texts)), len(own.values)
    n_gaps, share = n_rows - len(texts), len(levels) / len(texts)
    if len(levels) == 1 and not n_gaps and n_rows > 1:
        return ColumnPlan(name, "out", f"left out: the same value in every row ({levels[0]!r})")
    several = f"{len(levels):,} different values in {len(texts):,} rows"
    distinct = (
        own.kind == "text"
        and n_rows >= _LEAST_IN_ORDER
        and (share == 1.0 or (share > 0.5 and len(levels) > settings.max_levels))
    )
    many = len(levels) > settings.max_levels
    words = distinct and np.mean([len(text.split()) for text in levels]) >= _WORDS
    if distinct and not words and settings.identifiers == "drop":
        return ColumnPlan(name, "out", f"left out: looks like an identifier (text of {several})")
    if (many or words) and settings.beyond == "drop":
        return ColumnPlan(name, "out", f"left out: text of {several}")
    gaps = f"; {n_gaps:,} missing" if n_gaps else ""
    if words:
        return ColumnPlan(name, "words", f"text of {several}, its words hashed to {settings.n_hashed} features{gaps}")
    if many:
        more = f"more than {settings.max_levels}: hashed to {settings.n_hashed} features"
        return ColumnPlan(name, "hashed", f"category of {len(levels):,} values, {more}{gaps}")
    gaps += ", with one of their own" if n_gaps else ""
    done = f"category of {counted(len(levels), 'value')}, a 0/1 feature for each{gaps}"
    return ColumnPlan(name, "category", done, levels=(*levels, GAP) if n_gaps and GAP not in levels else tuple(levels))


def _number_texts(own: Column) -> list[str]:
    """Return the cells of a column of text that are numbers, if nearly all are."""
    texts = [text for text in own.values if text is not None]
    # The first cells show that most columns of text hold no numbers.
    for part in (texts[:100], texts):
        found = [text for text in part if number(text) is not None or number(text, ",") is not None]
        if len(found) < _MOSTLY * len(part) or not found:
            return []
    return found


def _as_written(own: Column, texts: list[str], mark: Decimal) -> str:
    """Say how numbers in the text of a column were read."""
    said = "number with decimal comma" if mark == "," and any("," in text for text in texts) else "number"
    grouped = next((text for text in texts if number(text, mark) not in (None, _plain(text, mark))), None)
    if grouped is not None:
        said += f", {grouped} read as {number(grouped, mark):.15g}" if len(grouped) < 12 else ", thousands marked"
    odd = [text for text in own.values if text is not None and number(text, mark) is None]
    return f"{said}; {counted(len(odd), 'cell')} of other text, such as {odd[0]!r}" if odd else said


def _plain(text: str, mark: Decimal) -> float | None:
    """Return the number in text without marks of thousands, or None."""
    try:
        return float(text.replace(mark, "."))
    except ValueError:
        return None


def _identifier(name: str, own: Column) -> str | None:
    """Return why a column of numbers looks like an identifier, or None if it does not."""
    values = own.values[~own.missing]
    n = len(values)
    if n < _LEAST_IN_ORDER or (values != np.rint(values)).any():
        return None
    n_values = len(np.unique(values))
    if n_values >= 0.9 * n and _ID_NAME.search(name):
        return "by its name"
    steps = np.diff(values)
    if (steps > 0).all() or (steps < 0).all():
        return "whole numbers in the order of the rows"
    if n_values == n >= _LEAST_SHUFFLED and values.max() - values.min() < 1.5 * n:
        return "whole numbers that fill a range, each once"
    return None


def _day(value: float) -> str:
    try:
        return str(np.datetime64(int(value), "D"))
    except (ValueError, OverflowError):
        return f"{value:g}"
