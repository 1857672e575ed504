"""`mahala add DATA`: let more labelled rows vote in a model that predicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mahala.cli import options
from mahala.cli.output import Json, escape, fact_grid, say, show
from mahala.cli.predictors import (
    KnownLabels,
    errors_of,
    errors_text,
    labels_of,
    load_predictor,
    names_of_rows,
    read_new_rows,
    refitted,
    score_text,
    warnings_said,
)


def add(
    data: options.PredictedData,
    model: options.Model,
    label: Annotated[str | None, typer.Option(help="Column of the labels; default: that of the fit.")] = None,
    ids: Annotated[str | None, typer.Option(help="Column of DATA with the names of its rows.")] = None,
    refit: options.Refit = False,
    output: options.Changed = None,
    decimal: options.Decimal = None,
    first_index: options.FirstIndex = 1,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Add the rows of a table with labels to a model that `mahala fit` made.

    They vote from the next prediction on. With --refit, the metric, the line and the trees learn from them, too. Before
    they are added, they are predicted, and the error is printed. Rows without a label are left out; classes must be
    those of the fit. The model file is written whole or not at all.

    Examples:

        mahala add labelled.csv --model churn.safetensors

        mahala add labelled.csv --model churn.safetensors --label churned --refit --output newer.safetensors
    """
    place = output or model
    options.check_output(place, inputs=[Path(data)], force=force)
    predictor, source = load_predictor(model), "standard input" if data == "-" else data
    before = len(predictor.rows_)
    encoder = predictor._model.encoder
    raw = read_new_rows(data, predictor, decimal, first_index, [] if ids is None else [ids])
    labels = _labels(predictor, raw, label, decimal, source)
    names = _names(predictor, raw, ids, labels.rows)
    X, y = raw.data[labels.rows], np.array(labels.values, dtype=None if not predictor.is_classifier else object)
    with warnings_said(source):
        try:
            predicted = predictor.predict(X)
            errors = errors_of(predicted, y, classes=predictor.is_classifier)
            predictor.add(X, y, names=names)
        except ValueError as error:
            text = str(error).replace("X must name new rows", "--ids must name new rows")
            raise ValueError(f"{source}: {text}") from None
    predictor._model.encoder = encoder  # --decimal is for these rows
    stopped = refit and refitted(predictor)
    predictor.save(place)
    left_out = raw.data.shape[0] - len(y)
    if left_out:
        say(f"{source}: {left_out:,} row{'s' if left_out > 1 else ''} without a label left out", err=True)
    facts = {
        "added": len(y),
        "left_out": left_out,
        "rows": len(predictor.rows_),
        "before": before,
        "errors": errors,
        "refit": refit,
        "stopped": "interrupted" if stopped else None,
        "score": predictor.score_ if refit else None,
        "file": str(place),
    }
    show(facts, as_json, lambda facts: [fact_grid(_lines(facts, predictor))])


def _labels(model: Any, raw: Any, column: str | None, decimal: Any, source: str) -> KnownLabels:
    """Return the labels of the rows that have one; raise ValueError for those that the model cannot hold."""
    column = column or model.target_name_
    labels = labels_of(raw, model, column, decimal)
    if labels is None:
        found = "has no labels" if column is None else f"has no column {column!r} with labels"
        raise ValueError(f"--label must name the column of labels, but {source} {found}")
    for row, value, text in zip(labels.rows.tolist(), labels.values, labels.texts, strict=True):
        if value is None:
            classes = ", ".join(map(str, model.classes_[:5])) + (", ..." if len(model.classes_) > 5 else "")
            known = f"which is no class of the model ({classes}): run mahala fit to learn new classes"
            raise ValueError(f"--label: row {row} of {source} has the label {text!r}, {known}")
        if value != value:
            raise ValueError(f"--label: row {row} of {source} has the label {text!r}, which is no number")
    return labels


def _names(model: Any, raw: Any, ids: str | None, rows: Any) -> list[Any] | None:
    """Return the names of new rows, or None if rows have numbers."""
    if ids is not None:
        return names_of_rows(np.array(raw.data[ids].to_list()), ids, rows)
    there = model.rows_
    if there.dtype != object:
        return None
    texts = [name for name in there.tolist() if isinstance(name, str)]
    if texts:
        raise ValueError(f"--ids must name a column, since the rows of the model have names, such as {texts[0]!r}")
    first = max(*there.tolist(), len(model.folds_) - 1) + 1
    return list(range(first, first + len(rows)))


def _lines(facts: dict[str, Any], model: Any) -> Iterator[tuple[str, str | None]]:
    yield "rows", f"{facts['before']:,} and {facts['added']:,} new ones"
    yield "before", f"{errors_text(facts['errors'])}, on the new rows when the model had not seen them"
    if facts["refit"]:
        yield "refit", f"{score_text(model)}{', stopped by Ctrl-C' if facts['stopped'] else ''}"
    else:
        yield "", "[dim]They vote; --refit also learns from them.[/dim]"
    yield "model", escape(facts["file"])
