"""`mahala add DATA`: let more labelled rows vote in a model that predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from mahala.cli.parts import options
from mahala.cli.parts.model_rows import KnownLabels, NewRows, load_predictor
from mahala.cli.parts.output import Json, say
from mahala.cli.parts.predictors import errors_of, errors_text, finish_change

if TYPE_CHECKING:
    from mahala.cli.parts.predictors import Predictor
    from mahala.support.arrays import IndexArray


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
    predictor = load_predictor(model)
    before, encoder = len(predictor.rows_), predictor._model.encoder
    new = NewRows.read(data, predictor, decimal, first_index, ids)
    labels = _labels(predictor, new, label or predictor.target_name_)
    names = _names(predictor, labels.rows) if ids is None else new.names(ids, labels.rows)
    X, y = new.data[labels.rows], np.array(labels.values, dtype=object if predictor.is_classifier else None)
    with new.named():
        errors = errors_of(predictor.predict(X), y, classes=predictor.is_classifier)
        try:
            predictor.add(X, y, names=names)
        except ValueError as error:
            raise ValueError(str(error).replace("X must name new rows", "--ids must name new rows")) from None
    predictor._model.encoder = encoder  # --decimal is for these rows
    left_out = new.data.shape[0] - len(y)
    if left_out:
        say(f"{new.source}: {left_out:,} row{'s' if left_out > 1 else ''} without a label left out", err=True)
    lines = [
        ("rows", f"{before:,} and {len(y):,} new ones"),
        ("before", f"{errors_text(errors)}, on the new rows when the model had not seen them"),
    ]
    facts = {"added": len(y), "left_out": left_out, "before": before, "errors": errors}
    advice = "They vote; --refit also learns from them."
    finish_change(predictor, place, facts, lines, refit=refit, advice=advice, as_json=as_json)


def _labels(model: Predictor, new: NewRows, column: str | None) -> KnownLabels:
    """Return the labels of the rows that have one; raise ValueError for those that the model cannot hold."""
    labels = new.labels(model, column)
    if labels is None:
        problem = "has no labels" if column is None else f"has no column {column!r} with labels"
        raise ValueError(f"--label must name the column of labels, but {new.source} {problem}")
    for row, value, text in zip(labels.rows.tolist(), labels.values, labels.texts, strict=True):
        label = f"--label: row {row} of {new.source} has the label {text!r}"
        if value is None:
            some = ", ".join(map(str, model.classes_[:5])) + (", ..." if len(model.classes_) > 5 else "")
            raise ValueError(f"{label}, which is no class of the model ({some}): run mahala fit to learn new classes")
        if value != value:
            raise ValueError(f"{label}, which is no number")
    return labels


def _names(model: Predictor, new: IndexArray) -> list[int] | None:
    """Return the next numbers for new rows, or None if the model itself counts rows; raise ValueError for names."""
    names = model.rows_
    if names.dtype != object:
        return None
    texts = [name for name in names.tolist() if isinstance(name, str)]
    if texts:
        raise ValueError(f"--ids must name a column, since the rows of the model have names, such as {texts[0]!r}")
    first = max(*names.tolist(), len(model.folds_) - 1) + 1
    return list(range(first, first + len(new)))
