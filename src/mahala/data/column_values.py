"""The values of a column as its plan needs them: numbers with NaN for gaps, or text."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mahala.data.array_files import places
from mahala.data.cells import date_format, days, numbers
from mahala.data.column_plans import GAP, NUMERIC, ColumnPlan, are_flags, counted, flags
from mahala.data.columns import Column
from mahala.support.arrays import FloatArray


def values_of(plan: ColumnPlan, found: Column) -> Any:
    """Return the values of a column as its plan needs them: numbers with NaN, or text without gaps."""
    if len(found.values) == 0:
        raise ValueError(f"column {plan.name!r} holds {found.kind}, but in fit it held {_spoken(plan)}")
    if plan.kind in NUMERIC:
        values = _as_numbers(plan, found) if found.values.dtype == object else found.values
        if plan.median is None and np.isnan(values).any():
            gaps = np.flatnonzero(np.isnan(values))
            raise ValueError(
                f"column {plan.name!r} has {len(gaps)} missing or infinite values ({places('row', gaps)}), and the "
                "model has no median to set them to: fill them in or drop those rows"
            )
        return values
    cells = found.values.copy()
    if plan.kind == "category":
        if GAP in plan.levels:
            cells[found.missing] = GAP
        unseen = sorted({cell for cell in cells if cell is not None} - set(plan.levels))
        if unseen:
            warnings.warn(
                f"column {plan.name!r} has {counted(len(unseen), 'value')} not seen in fit, such as {unseen[0]!r}: "
                "its features are 0 there",
                stacklevel=4,
            )
    return cells


def _as_numbers(plan: ColumnPlan, found: Column) -> FloatArray:
    texts = found.values.tolist()
    if plan.kind == "date":
        values = days(texts, plan.format or "")
        if np.isnan(values).all():  # in another format than in fit
            values = days(texts, date_format(text for text in texts if text is not None) or "")
    elif are_flags([text for text in texts if text is not None]):
        values = flags(texts)
    else:
        values = numbers(texts, plan.decimal)
    odd = np.flatnonzero(np.isnan(values) & ~found.missing)
    if len(odd) and len(odd) == len(texts) - found.missing.sum():
        raise ValueError(f"column {plan.name!r} is text, such as {texts[odd[0]]!r}, but in fit it held {_spoken(plan)}")
    if len(odd):
        warnings.warn(
            f"column {plan.name!r} has {counted(len(odd), 'cell')} other than {_spoken(plan)}, such as "
            f"{texts[odd[0]]!r}; {'it counts' if len(odd) == 1 else 'they count'} as missing",
            stacklevel=5,
        )
    return values


def _spoken(plan: ColumnPlan) -> str:
    return {"date": "dates", "number": "numbers", "flag": "true or false"}.get(plan.kind, "text")
