"""Columns of pandas and Polars data frames and of arrays, in one form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal as DecimalNumber
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from mahala.data.columns.cells import MISSING, Decimal, are_codes, missing_cells, missing_spellings
from mahala.support.lazily import sklearn_checks

if TYPE_CHECKING:
    import pandas
    import polars

    from mahala.support.arrays import Array, BoolArray, IndexArray, RowsLike

    DataFrame: TypeAlias = pandas.DataFrame | polars.DataFrame

# Types of numbers in cells; those of SQL are decimal.Decimal.
_NUMBERS = Real | np.bool_ | DecimalNumber
# The number of microseconds of a day.
_DAY = 86_400e6
_LEADING_ZERO = r"^0[0-9]"
_EITHER_POINT = r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$"


class Column(NamedTuple):
    """Values of a column: float64 with NaN for what is missing, or strings with None.

    Dates are numbers of days since 1970, flags 0 or 1. A column of another type has no values; `kind` names the type.
    """

    values: Array
    kind: str
    marks: frozenset[Decimal] = frozenset()  # of numbers that were text

    @property
    def missing(self) -> BoolArray:
        if self.values.dtype == object:
            nothing: Any = None
            return np.asarray(self.values == nothing)
        return np.asarray(np.isnan(self.values))


def is_frame(X: object) -> TypeGuard[DataFrame]:
    """Return whether X is a data frame of pandas or Polars."""
    # Of the class: to look up the columns of a LazyFrame takes work.
    return type(X).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(type(X), "columns")


def names_of(X: DataFrame | Array) -> list[str]:
    """Return the column names of a data frame, or x0, x1, ... for the columns of an array."""
    if not is_frame(X):
        return [f"x{j}" for j in range(X.shape[1])]
    names = [str(name) for name in X.columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"X has {names.count(name)} columns named {name!r}: names must differ")
    return names


def checked_table(X: RowsLike) -> DataFrame | Array:
    """Return a data frame, or what scikit-learn takes for a 2-D array of values of any kind."""
    if is_frame(X):
        frame = X.collect() if hasattr(X, "collect") else X
        if frame.shape[0] == 0 or frame.shape[1] == 0:
            size = f"{frame.shape[0]} sample(s) and {frame.shape[1]} feature(s) (shape={frame.shape})"
            raise ValueError(f"X has {size} while a minimum of 1 is required of each")
        return frame
    array: Array = sklearn_checks.check_array(X, dtype=None, ensure_all_finite=False)
    if array.dtype.kind == "c":
        raise ValueError("X must hold real numbers or text. Complex data not supported")
    return array


def column(X: DataFrame | Array, at: int, *, as_text: bool = False, text_stays: bool = False) -> Column:
    """Return a column of a checked table; with `as_text` its values as text, with `text_stays` text that is one."""
    if type(X).__module__.startswith("polars"):
        result = _from_polars(X[:, at], as_text or text_stays)
    else:
        result = _from_pandas(X.iloc[:, at]) if is_frame(X) else _from_array(X[:, at])
    if not as_text or result.values.dtype == object:
        return result
    texts = [None if np.isnan(value) else _spelled(value) for value in result.values.tolist()]
    if result.kind == "flag":
        texts = [None if text is None else str(text == "1").lower() for text in texts]
    return Column(np.array(texts, dtype=object), "text")


def _from_polars(series: polars.Series, as_text: bool) -> Column:
    import polars

    dtype = series.dtype
    if dtype == polars.String or dtype == polars.Null:
        return _from_polars_text(series.cast(polars.String), as_text)
    if dtype in (polars.Categorical, polars.Enum):
        return Column(np.array(series.cast(polars.String).to_list(), dtype=object), "category")
    if dtype in (polars.Date, polars.Datetime, polars.Duration):
        return _from_array(series.to_numpy())
    if dtype == polars.Boolean or dtype.is_numeric():
        return _of_floats(series.cast(polars.Float64), "flag" if dtype == polars.Boolean else "number")
    return Column(np.empty(0), str(dtype))


def _of_floats(values: ArrayLike, kind: str, marks: frozenset[Decimal] = frozenset()) -> Column:
    """Return a column of numbers, with NaN for what is missing or infinite."""
    values = np.array(values, dtype=np.float64)
    values[np.isinf(values)] = np.nan
    return Column(values, kind, marks)


def _from_polars_text(series: polars.Series, as_text: bool) -> Column:
    """Return a column of text; numbers with a decimal point, the usual ones, are read by Polars, which is fast."""
    import polars

    if not as_text:
        numbers = series.cast(polars.Float64, strict=False)
        # Few cells are looked at: those that are no numbers must be missing, and one with a point must be clear.
        odd = series.filter(numbers.is_null() & series.is_not_null()).unique().str.strip_chars()
        if odd.is_in(list(MISSING)).all() and numbers.null_count() < len(series):
            pointed = series.filter(series.str.contains(".", literal=True).fill_null(False))
            clear = any(not part.str.contains(_EITHER_POINT).all() for part in (pointed.head(1000), pointed))
            coded = series.str.contains(_LEADING_ZERO).any() and are_codes(series.drop_nulls().unique())
            if (clear or len(pointed) == 0) and not coded:
                return _of_floats(numbers, "number", frozenset((".",)) if clear else frozenset())
    text = series.str.strip_chars()
    spellings = missing_spellings(set(text.unique().to_list()))
    text = polars.select(polars.when(~text.is_in(list(spellings))).then(text)).to_series()
    # Equal strings share memory: a large table has few different ones.
    values, codes = distinct(text)
    return Column(np.array([None, *values], dtype=object)[codes], "text")


def distinct(text: polars.Series) -> tuple[list[str], IndexArray]:
    """Return the distinct values of a Polars column, sorted, and for each row their number from 1, or 0 if missing."""
    values = text.drop_nulls().unique().sort().to_list()
    return values, text.rank("dense").fill_null(0).to_numpy().astype(np.intp)


def _from_pandas(series: pandas.Series) -> Column:
    dtype = series.dtype
    if dtype.name == "category":
        texts = series.astype(object).where(series.notna(), None).tolist()
        return Column(np.array([None if text is None else _spelled(text) for text in texts], dtype=object), "category")
    kind = getattr(dtype, "kind", "O")
    if getattr(dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if kind in "Mm":
        return _from_array(series.to_numpy(dtype=f"{kind}8[us]"))
    if kind in "iufb":
        return _of_floats(series.to_numpy(dtype=np.float64, na_value=np.nan), "flag" if kind == "b" else "number")
    return _from_objects(series.astype(object).tolist())


def _from_array(array: Array) -> Column:
    kind = array.dtype.kind
    if kind in "iufb":
        return _of_floats(array, "flag" if kind == "b" else "number")
    if kind in "Mm":
        values = array.astype(f"{array.dtype.str[1:2]}8[us]").astype(np.int64).astype(np.float64)
        values[np.isnat(array)] = np.nan
        return Column(values / _DAY if kind == "M" else values, "date" if kind == "M" else "number")
    return _from_objects(array.tolist())


def _from_objects(values: Sequence[Any]) -> Column:
    values = [None if _is_missing(value) else value for value in values]
    present = [value for value in values if value is not None]
    if all(isinstance(value, str) for value in present):
        texts = np.array([None if value is None else value.strip() for value in values], dtype=object)
        texts[missing_cells(texts.tolist())] = None
        return Column(texts, "text")
    if all(isinstance(value, _NUMBERS) for value in present):
        is_flag = all(isinstance(value, bool | np.bool_) for value in present)
        return _of_floats([np.nan if v is None else _float(v) for v in values], "flag" if is_flag else "number")
    if all(isinstance(value, date | datetime) for value in present):
        return _from_array(np.array(values, "datetime64[us]"))
    if all(isinstance(value, str | _NUMBERS) for value in present):  # text and numbers side by side
        return Column(np.array([None if value is None else _spelled(value) for value in values], dtype=object), "text")
    odd = next(value for value in present if not isinstance(value, str | _NUMBERS))
    return Column(np.empty(0), type(odd).__name__)


def _is_missing(value: object) -> bool:
    """Return whether a cell is None, NaN, NaT or pandas.NA; arrays and others cannot be compared with themselves."""
    if isinstance(value, str | DecimalNumber):
        return not isinstance(value, str) and value.is_nan()
    if isinstance(value, Real | np.generic):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _float(value: Any) -> float:
    """Return a number as a float; one beyond its range, such as an integer of 400 digits, is infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _spelled(value: object) -> str:
    """Return a value as text; whole numbers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
