"""Read labels, and tell classes from numbers."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mahala.data.columns.cells import MISSING, Decimal, cell_values, decimal_marks, form_of
from mahala.data.columns.values import distinct
from mahala.support.parameters import WholeNumber, check_value

if TYPE_CHECKING:
    from polars import Series

    from mahala.support.arrays import Array, BoolArray


# Numbers with more different values than this, in this share of the rows, are no classes.
_MOST_CLASSES, _SHARE = 20, 0.1
# Classes that are listed in a remark.
_LISTED = 5


def label_column(series: Series) -> tuple[Series, BoolArray]:
    """Return a Polars column of labels, without spaces around text, and which rows have one."""
    if series.dtype.is_float():
        return series, series.is_finite().fill_null(False).to_numpy()
    if series.dtype.is_integer() or str(series.dtype) == "Boolean":
        return series, series.is_not_null().to_numpy()
    texts = series.cast(str).str.strip_chars()
    # A class may be called "None", "-", "--" or ".", unlike a number.
    return texts, (~texts.is_in(list(MISSING - {"None", "-", "--", "."}))).fill_null(False).to_numpy()


def label_values(series: Series, decimal: Decimal) -> tuple[Array, list[str]]:
    """Return labels as booleans, integers, other numbers or text, and remarks; what is missing is the text "".

    Classes that are written differently stay different: text becomes numbers only if all are plain numbers written in
    one way, or if they are numbers to predict.

    >>> import polars
    >>> label_values(polars.Series(["1.5", "2", "1.5"]), ".")
    (array([1.5, 2. , 1.5]), [])
    >>> label_values(polars.Series(["1.1", "1.10"]), ".")[0]
    array(['1.1', '1.10'], dtype=object)
    """
    if str(series.dtype) != "String":
        if series.null_count() == 0:
            return np.asarray(series.to_numpy()), []
        series = series.cast(str)
    texts, codes = distinct(series.fill_null(""))
    rows = codes - 1
    marks = decimal_marks(texts)
    mark = next(iter(marks)) if len(marks) == 1 else decimal
    values = cell_values(texts, "number", mark)
    flags = form_of(texts, "flag") is not None
    same = _spelled_alike(texts, [text.lower() for text in texts] if flags else values.tolist())
    if flags and not same:
        return np.array([text.lower() == "true" for text in texts])[rows], []
    if not flags and not np.isnan(values).any():
        plain = _written_in_one_way(texts, mark)
        whole = plain and not any(mark in text for text in texts)
        if whole and np.abs(values).max() < 2.0**63:
            return np.array([int(text) for text in texts], dtype=np.int64)[rows], []
        if not whole and ((plain and not same) or is_continuous(values[rows])):
            return values[rows], [f"a number may be written in different ways: {same}"] if same else []
    remarks = [f"text, because its values are written in different ways; different classes are {same}"] if same else []
    return np.array(texts, dtype=object)[rows], remarks


def spaces_left_out(series: Series) -> list[str]:
    """Return a remark on the labels that are the same without the spaces around them, if there are any."""
    texts = series.drop_nulls().unique().sort().to_list() if str(series.dtype) == "String" else []
    same = _spelled_alike(texts, [text.strip() for text in texts])
    return [f"spaces around labels are left out: {same}"] if same else []


def _written_in_one_way(texts: Sequence[str], mark: Decimal) -> bool:
    """Return whether numbers are plain and different, with as many decimals each, or each as short as it can be."""
    plain = re.compile(rf"-?(?:0|[1-9][0-9]*)(?:{re.escape(mark)}([0-9]+))?")
    matches = [plain.fullmatch(text) for text in texts]
    decimals = [match[1] or "" for match in matches if match]
    if len(decimals) < len(texts) or "-0" in texts:
        return False
    equal = len(set(map(len, decimals))) == 1
    short = not any(part.endswith("0") for part in decimals)
    as_in_python = all(part and (part == "0" or not part.endswith("0")) for part in decimals)  # 1.5, 2.0
    return equal or short or as_in_python


def _spelled_alike(texts: Iterable[str], values: Iterable[Hashable]) -> str:
    """List the texts that have the same value in messages: "'1' and '1.0', '2' and '2.0'"."""
    spellings: dict[Hashable, list[str]] = {}
    for text, value in zip(texts, values, strict=True):
        spellings.setdefault(value, []).append(repr(text))
    same = [" and ".join(group) for group in spellings.values() if len(group) > 1]
    return ", ".join(same[:_LISTED]) + (f" and {len(same) - _LISTED} more" if len(same) > _LISTED else "")


def is_continuous(labels: Array) -> bool:
    """Return whether labels are numbers to predict, not classes.

    >>> is_continuous(np.linspace(0.0, 1.0, 50)), is_continuous(np.arange(50) % 26)
    (True, False)
    """
    if labels.dtype.kind not in "iuf":
        return False
    values, counts = np.unique(labels, return_counts=True)
    n_values = len(values)
    if counts.min() > 1 and np.array_equal(values - values[0], np.arange(n_values)) and values[0] in (0, 1):
        return False  # codes of classes
    whole = labels.dtype.kind != "f" or bool((labels == np.rint(labels)).all())
    return n_values > (2 * _MOST_CLASSES if whole else _MOST_CLASSES) and n_values > _SHARE * len(labels)


def binned(labels: Array, n_bins: int) -> Array:
    """Return the classes of numbers in up to `n_bins` ranges with about the same number of rows, as text.

    >>> binned(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    ['up to 2.5', 'up to 2.5', 'above 2.5', 'above 2.5']
    """
    check_value(n_bins, "bins", WholeNumber)
    if n_bins < 2:
        raise ValueError(f"bins must be at least 2, got {n_bins}")
    if labels.dtype.kind not in "iuf":
        raise ValueError(f"bins need labels that are numbers, got {labels[0]!r}")
    edges = np.unique(np.quantile(labels, np.arange(1, n_bins) / n_bins))
    edges = edges[edges < labels.max()]
    if len(edges) == 0:
        raise ValueError(f"the labels cannot be divided into {n_bins} bins: most of them are {np.median(labels):g}")
    names = [f"up to {edges[0]:g}", *(f"{a:g} to {b:g}" for a, b in pairwise(edges))]
    return np.array([*names, f"above {edges[-1]:g}"], dtype=object)[np.searchsorted(edges, labels)]
