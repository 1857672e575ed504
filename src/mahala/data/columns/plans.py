"""What is done to each column of a table: chosen from its values, kept in model files, applied to other tables."""

import re
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from mahala.data.array_files import places
from mahala.data.columns.cells import (
    CELL_KINDS,
    SPACES,
    Decimal,
    TableDecimal,
    are_codes,
    cell_values,
    decimal_marks,
    form_of,
    number,
    other_mark,
)
from mahala.data.columns.values import Column
from mahala.support.arrays import FloatArray
from mahala.support.parameters import ParameterError

# The level that stands for missing values of a category.
GAP = "(missing)"
# Text of which this share of the cells are numbers is a column of numbers with errors, which count as missing.
_MOSTLY = 0.9
# Fewer rows do not show that a column is an identifier: in the order of the rows, or in any order.
_LEAST_IN_ORDER, _LEAST_SHUFFLED = 10, 50
_ID_NAME = re.compile(r"(?i:(?:^|[\W_])(?:id|ids|uuid|guid|index|idx|key|pk|rowid)$|^id[\W_])|[a-z](?:Id|ID)$")
# Characters of a cell in a message.
_LONGEST_SHOWN = 60
# Text of at least so many words per cell is not a name.
_WORDS = 3.0

# What is said of the cells of a kind, other than its name.
_READINGS = {
    "flag": "true or false → 1 or 0",
    "money": "money → number",
    "percent": "percent → number",
    "clock": "time of day → hours",
}
# Kinds of columns beside those of `CELL_KINDS`: text that becomes features, and what is left out.
_OTHER_KINDS = ("category", "hashed", "words", "out")


class PlanSettings(Protocol):
    """The parameters of a TablePreprocessor."""

    max_levels: int
    beyond: Literal["hash", "drop"]
    n_hashed: int
    identifiers: Literal["drop", "keep"]
    decimal: TableDecimal


@dataclass(frozen=True)
class ColumnPlan:
    """What is done to one column."""

    name: str
    kind: str  # of CELL_KINDS, or another one
    done: str
    median: float | None = None  # for missing numbers; None if none may be missing
    gaps: bool = False  # whether a feature marks what is missing
    decimal: Decimal = "."
    format: str | None = None  # of text, other than a decimal mark
    levels: tuple[str, ...] = ()

    @property
    def is_numeric(self) -> bool:
        return self.kind in CELL_KINDS

    @property
    def words(self) -> str:
        """What the column held in fit, for messages."""
        return CELL_KINDS[self.kind].words if self.is_numeric else "text"

    def features(self, n_hashed: int) -> list[str]:
        """Return the names of the features that the column becomes."""
        if self.is_numeric:
            return [self.name, f"{self.name} missing"] if self.gaps else [self.name]
        if self.kind == "category":
            return [f"{self.name}={level}" for level in self.levels]
        return [] if self.kind == "out" else [f"{self.name}#{j}" for j in range(n_hashed)]


def choose_plans(columns: Mapping[str, Column], settings: PlanSettings) -> list[ColumnPlan]:
    """Return what is done to each column of a table.

    The decimal mark of ambiguous numbers in text, such as 1,019, is that of the settings, else that of other columns.
    Raise ParameterError if a column has the mark of the settings where it cannot be one.
    """
    written = {name: _number_texts(column) for name, column in columns.items() if column.kind == "text"}
    marks = {
        name: Counter(mark for text in texts for mark in decimal_marks([text]))
        for name, texts in written.items()
        if texts
    }
    shared: set[Decimal] = set().union(*marks.values(), *(column.marks for column in columns.values()))
    default: Decimal
    if settings.decimal == "." or settings.decimal == ",":
        default = settings.decimal
    else:
        default = next(iter(shared)) if len(shared) == 1 else "," if settings.decimal == "auto," else "."
    plans = []
    for name, column in columns.items():
        if name in marks:
            mark = _mark_of(name, written[name], marks[name], default, settings.decimal)
            values = Column(cell_values(column.values.tolist(), "number", mark), "number")
            plans.append(_plan_of_numbers(name, values, _as_written(column, written[name], mark), settings, mark))
        else:
            # Whole numbers do not show the mark of later ones.
            plans.append(replace(_plan(name, column, settings), decimal=default))
    return plans


def _mark_of(name: str, texts: list[str], counts: Counter[Decimal], default: Decimal, setting: TableDecimal) -> Decimal:
    """Return the decimal mark that most numbers of a column show; if they show none, the default."""
    if setting == default and counts[other_mark(default)] and any(default in text for text in texts):
        odd = next(text for text in texts if other_mark(default) in decimal_marks([text]))
        holds = f"column {name!r} holds {_shown(odd)}, where it cannot be one"
        raise ParameterError(
            f"decimal is {setting!r}, but {holds}: write its numbers in one way, or omit decimal", "decimal"
        )
    return max((default, other_mark(default)), key=lambda mark: counts[mark])


def checked_plan(entry: Mapping[str, Any]) -> ColumnPlan:
    """Return a plan from a model file; raise ValueError or TypeError unless its values are of the right types."""
    plan = ColumnPlan(**{**entry, "levels": tuple(entry["levels"])})
    texts = (plan.name, plan.done, plan.decimal, plan.format or "", *plan.levels)
    if not all(isinstance(text, str) for text in texts) or not isinstance(plan.gaps, bool):
        raise TypeError("a column must have text for its name and values")
    if plan.kind not in (*CELL_KINDS, *_OTHER_KINDS) or plan.decimal not in (".", ","):
        raise ValueError(f"unknown kind {plan.kind!r} of column")
    if plan.median is not None and not (isinstance(plan.median, int | float) and np.isfinite(plan.median)):
        raise ValueError("a median must be a finite number")
    if (plan.kind == "category") != bool(plan.levels) or len(set(plan.levels)) < len(plan.levels):
        raise ValueError(f"column {plan.name!r} must have different levels if it is a category")
    return plan


def encoded(plan: ColumnPlan, column: Column, n_hashed: int) -> FloatArray:
    """Return the features that a column becomes; raise ValueError if it holds something else than in fit."""
    cells = column.values
    if len(cells) == 0:
        raise ValueError(f"column {plan.name!r} holds {column.kind}, but in fit it held {plan.words}")
    if plan.is_numeric:
        values = _as_numbers(plan, column) if cells.dtype == object else cells
        gaps = np.isnan(values)
        if plan.median is None and gaps.any():
            where = f"{int(gaps.sum())} missing or infinite values ({places('row', np.flatnonzero(gaps))})"
            advice = "the model has no median to set them to: fill them in or drop those rows"
            raise ValueError(f"column {plan.name!r} has {where}, and {advice}")
        filled = np.where(gaps, plan.median or 0.0, values)
        return np.column_stack([filled, gaps]) if plan.gaps else filled[:, np.newaxis]
    if plan.kind == "category":
        if GAP in plan.levels:
            cells = np.where(column.missing, GAP, cells)
        codes = {level: j for j, level in enumerate(plan.levels)}
        unseen = sorted({cell for cell in cells if cell is not None} - set(codes))
        if unseen:
            values_unseen = f"{_counted(len(unseen), 'value')} not seen in fit, such as {_shown(unseen[0])}"
            warnings.warn(f"column {plan.name!r} has {values_unseen}: its features are 0 there", stacklevel=5)
        chosen = np.array([codes.get(cell, -1) for cell in cells])
        rows, result = np.flatnonzero(chosen >= 0), np.zeros((len(cells), len(codes)))
        result[rows, chosen[rows]] = 1.0
        return result
    from sklearn.feature_extraction import FeatureHasher

    words = ([] if cell is None else cell.lower().split() if plan.kind == "words" else [cell] for cell in cells)
    hashed: FloatArray = FeatureHasher(n_hashed, input_type="string").transform(words).toarray()
    return hashed


def _as_numbers(plan: ColumnPlan, column: Column) -> FloatArray:
    texts, present = column.values.tolist(), [text for text in column.values if text is not None]
    if plan.kind in ("number", "flag"):  # 0 and 1 may stand for false and true
        kind, form = ("number", plan.decimal) if form_of(present, "flag") is None else ("flag", "")
    else:
        kind, form = plan.kind, plan.format or ""
    values = cell_values(texts, kind, form)
    if np.isnan(values[~column.missing]).any() and kind not in ("number", "flag"):
        values = cell_values(texts, kind, form_of(present, kind) or form)  # all may have another form than in fit
    odd = np.flatnonzero(np.isnan(values) & ~column.missing)
    other = other_mark(plan.decimal)
    unread = [texts[row] for row in odd if kind == "number" and number(texts[row], plan.decimal) is None]
    foreign = [text for text in unread if number(text, other) is not None]
    if foreign and plan.decimal not in decimal_marks(texts[row] for row in np.flatnonzero(~np.isnan(values))):
        why = f"which is no number with the decimal mark {plan.decimal!r}: set the decimal mark to {other!r}"
        raise ValueError(f"column {plan.name!r} holds {_shown(foreign[0])}, {why}")
    if len(odd) and len(odd) == len(present):
        raise ValueError(
            f"column {plan.name!r} is text, such as {_shown(texts[odd[0]])}, but in fit it held {plan.words}"
        )
    if len(odd):
        cells = f"{_counted(len(odd), 'cell')} other than {plan.words}, such as {_shown(texts[odd[0]])}"
        count = "it counts" if len(odd) == 1 else "they count"
        mixed = f"; {_mixed(foreign, other)}" if foreign else ""
        warnings.warn(f"column {plan.name!r} has {cells}; {count} as missing{mixed}", stacklevel=6)
    return values


def _mixed(foreign: list[str], mark: Decimal) -> str:
    """Say that a column has numbers with two decimal marks, of which one cannot be read."""
    return f"its decimal marks are mixed: {_counted(len(foreign), 'cell')} with {mark!r}, such as {_shown(foreign[0])}"


def _shown(cell: str) -> str:
    """Return the text of a cell in quotes, of a long one its beginning."""
    return repr(cell) if len(cell) <= _LONGEST_SHOWN else f"{cell[:_LONGEST_SHOWN]!r}..."


def _counted(n: int, word: str) -> str:
    """Return a number with its noun: "1 cell", "1,200 cells"."""
    return f"{n:,} {word}{'s' if n != 1 else ''}"


def _plan(name: str, column: Column, settings: PlanSettings) -> ColumnPlan:
    if len(column.values) == 0:
        return ColumnPlan(name, "out", f"left out: it holds {column.kind}")
    if column.missing.all():
        return ColumnPlan(name, "out", "left out: empty")
    if column.values.dtype != object:
        return _plan_of_numbers(name, column, column.kind if column.kind != "flag" else "0 or 1", settings)
    texts = [text for text in column.values if text is not None]
    for kind in CELL_KINDS if column.kind == "text" else ():
        if (form := form_of(texts, kind)) is not None:
            reading = _READINGS.get(kind, kind)
            reading += f" as {form}" if form.startswith("%") else ""
            values = Column(cell_values(column.values.tolist(), kind, form), kind)
            return replace(_plan_of_numbers(name, values, reading, settings), format=form or None)
    return _plan_of_text(name, column, texts, settings)


def _plan_of_numbers(
    name: str, column: Column, reading: str, settings: PlanSettings, mark: Decimal = "."
) -> ColumnPlan:
    present = column.values[~column.missing]
    n_gaps = len(column.values) - len(present)
    if len(present) == 0:
        return ColumnPlan(name, "out", "left out: empty")
    if column.kind == "date":
        reading += f", {_day(present.min())} to {_day(present.max())} → days"
    if not n_gaps and len(present) > 1 and present.min() == present.max():
        return ColumnPlan(name, "out", f"left out: the same value in every row ({present[0]:g})")
    why = identifier_reason(name, present) if settings.identifiers == "drop" and column.kind == "number" else None
    if why:
        return ColumnPlan(name, "out", f"left out: looks like an identifier ({why})")
    median = float(np.median(present))
    shown = _day(median) if column.kind == "date" else f"{median:g}"
    done = f"{reading}; {n_gaps:,} missing, set to the median {shown} and marked" if n_gaps else reading
    return ColumnPlan(name, column.kind, done, median, n_gaps > 0, mark)


def _plan_of_text(name: str, column: Column, texts: list[str], settings: PlanSettings) -> ColumnPlan:
    levels, n_rows = sorted(set(texts)), len(column.values)
    n_gaps, share = n_rows - len(texts), len(levels) / len(texts)
    if len(levels) == 1 and not n_gaps and n_rows > 1:
        return ColumnPlan(name, "out", f"left out: the same value in every row ({_shown(levels[0])})")
    several = f"{len(levels):,} different values in {len(texts):,} rows"
    distinct = (
        column.kind == "text"
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
    done = f"category of {_counted(len(levels), 'value')}, a 0/1 feature for each{gaps}"
    return ColumnPlan(name, "category", done, levels=(*levels, GAP) if n_gaps and GAP not in levels else tuple(levels))


def _number_texts(column: Column) -> list[str]:
    """Return the cells of a column of text that are numbers, if nearly all are."""
    texts = [text for text in column.values if text is not None]
    if are_codes(texts):
        return []
    # The first cells show that most columns of text hold no numbers.
    for part in (texts[:100], texts):
        numeric = [text for text in part if number(text) is not None or number(text, ",") is not None]
        if len(numeric) < _MOSTLY * len(part) or not numeric:
            return []
    return numeric


def _as_written(column: Column, texts: list[str], mark: Decimal) -> str:
    """Say how numbers in the text of a column were read."""
    reading = "number with decimal comma" if mark == "," and any("," in text for text in texts) else "number"
    thousands = {*SPACES, "," if mark == "." else "."}
    unusual = (text for text in texts if thousands & set(text) or text[-1] in "-)")
    example = next((text for text in unusual if number(text, mark) is not None), None)
    if example is not None:
        reading += f", {example} read as {number(example, mark):.15g}" if len(example) < 12 else ", thousands marked"
    foreign = [text for text in texts if number(text, mark) is None]
    if foreign:
        reading += f"; {_mixed(foreign, other_mark(mark))}"
    numeric = set(texts)
    odd = [text for text in column.values if text is not None and text not in numeric]
    return f"{reading}; {_counted(len(odd), 'cell')} of other text, such as {_shown(odd[0])}" if odd else reading


def identifier_reason(name: str, values: FloatArray) -> str | None:
    """Return why a column of numbers looks like an identifier, or None if it does not."""
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


def record_kind(name: str, kind: str, values: FloatArray) -> str | None:
    """Return what a column holds if it says when or as which number a row was recorded, or else None.

    A running number may begin anew several times, as in each group of rows.
    """
    if kind == "date":
        return "a date"
    if identifier_reason(name, values):
        return "an identifier"
    steps = np.diff(values)
    ones = len(steps) >= _LEAST_IN_ORDER and np.count_nonzero(np.abs(steps) == 1.0) >= _MOSTLY * len(steps)
    return "a running number" if ones and max((steps > 0).mean(), (steps < 0).mean()) >= _MOSTLY else None


def _day(value: float) -> str:
    try:
        return str(np.datetime64(int(value), "D"))
    except (ValueError, OverflowError):
        return f"{value:g}"
