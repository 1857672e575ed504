"""`mahala predict DATA`: predictions for the rows of a table, with sets, intervals and reasons."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import mahala
from mahala.cli.parts import options
from mahala.cli.parts.model_rows import NewRows, load_predictor
from mahala.cli.parts.output import (
    Facts,
    Json,
    Writer,
    columns_writer,
    csv_text,
    escape,
    plain_value,
    rows_of,
    say,
    show,
    text_writer,
    write_files,
)
from mahala.cli.parts.output import table as table_of
from mahala.cli.parts.predictors import errors_of, errors_text, percent, value_text
from mahala.support.display import task_bar

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mahala.cli.parts.predictors import Predictor
    from mahala.neighbors.reasons import Reasons

# Rows that are printed, columns that are named with --why, and how small a share of a distance is not.
_SHOWN, _COLUMNS, _LEAST = 20, 3, 0.005
# A progress bar is shown from so many rows to explain.
_MANY = 200


def predict(
    data: options.PredictedData,
    model: options.Model,
    output: Annotated[
        str | None, typer.Option(help="File to write: .csv, .parquet or .json, or - for CSV on standard output.")
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add the probability of each class.")] = False,
    level: Annotated[
        float | None,
        typer.Option(help="Add a set of classes, or an interval, that holds the truth this often, such as 0.9."),
    ] = None,
    strangeness: Annotated[
        bool, typer.Option("--strangeness", help="Add how unlike the training rows each row is, from 0 to 1.")
    ] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Add the training rows that spoke for it, and the columns that set it apart.")
    ] = False,
    k: Annotated[int, typer.Option("-k", help="Number of training rows with --why.", min=1)] = 3,
    ids: Annotated[str | None, typer.Option(help="Column of DATA with the names of its rows.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of DATA with the truth; default: that of the fit, if it is there.")
    ] = None,
    decimal: options.Decimal = None,
    first_index: options.FirstIndex = 1,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Predict the label of each row by a model that `mahala fit` made.

    Without --output, the first rows are printed. The label is not needed; if its column is there, it is not used, and
    the error is printed. Other columns that the model does not know are ignored. Levels of a category that the model
    has not seen are reported on stderr. In .csv output, text that a spreadsheet would take for a formula gets an
    apostrophe before it.

    Rows have numbers from 0, unless --ids names them. A strangeness above 0.95 is that of one in twenty rows like those
    of the fit.

    Examples:

        mahala predict new.csv --model churn.safetensors

        mahala predict new.csv --model churn.safetensors --level 0.9 --why --output predictions.csv

        mahala predict new.csv --model churn.safetensors --probabilities --strangeness --json

        cat new.csv | mahala predict - --model churn.safetensors --output -
    """
    if level is not None and not 0.0 < level < 1.0:
        raise ValueError(f"--level must be between 0 and 1, such as 0.9, got {level:g}")
    if output == "-" and as_json:
        raise ValueError("--json and --output - would both print on standard output: leave one of them out")
    if output not in (None, "-"):
        inputs = [Path(data), model]
        options.check_output(Path(output), ".csv", ".parquet", ".json", inputs=inputs, force=force)
    predictor = load_predictor(model)
    if probabilities and not predictor.is_classifier:
        raise ValueError("--probabilities are those of classes, but the model predicts numbers: use --level")
    new = NewRows.read(data, predictor, decimal, first_index, ids)
    names = list(range(new.data.shape[0])) if ids is None else new.names(ids)
    with new.named():
        predicted = _predictions(predictor, new.data, probabilities, level, strangeness, k if why else 0)
    records = [{"row": name} | record for name, record in zip(names, predicted, strict=True)]
    facts: Facts = {
        "rows": len(records),
        "label": predictor.target_name_,
        "errors": _errors(predictor, new, label, [record["prediction"] for record in records]),
        "file": output,
    }
    if output is None:
        show(facts | {"predictions": records}, as_json, lambda facts: _parts(facts, predictor))
    elif output == "-":
        say(csv_text(rows_of(_columns(records))).rstrip("\n"))
        for text in _error_lines(facts["errors"]):
            say(text, err=True)
    else:
        write_files({Path(output): _writer(Path(output), records)})
        texts = [f"Wrote {len(records):,} predictions to {output}", *_error_lines(facts["errors"])]
        show(facts, as_json, "\n".join(texts))


def _predictions(
    model: Predictor, data: Any, probabilities: bool, level: float | None, strangeness: bool, k: int
) -> list[Facts]:
    """Return what is predicted of each row, as nested records."""
    n, columns = data.shape[0], {}
    if isinstance(model, mahala.NeighborClassifier):
        classes = model.classes_.tolist()
        shares = model.predict_proba(data)
        columns["prediction"] = [classes[code] for code in shares.argmax(axis=1)]
        columns["probability"] = shares.max(axis=1).tolist()
        if probabilities:
            columns["probabilities"] = [dict(zip(map(str, classes), row, strict=True)) for row in shares.tolist()]
        if level is not None:
            sets = model.predict_set(data, level).tolist()
            columns["set"] = [list(compress(classes, row)) for row in sets]
    else:
        columns["prediction"] = model.predict(data).tolist()
        if level is not None:
            columns["interval"] = model.predict_interval(data, level).tolist()
    if strangeness:
        columns["strangeness"] = model.strangeness(data).tolist()
    if k:
        columns["why"] = []
        with task_bar("Explaining", n > _MANY and sys.stderr.isatty()) as update:
            for row, reasons in enumerate(model.explain_each(data, k), start=1):
                columns["why"].append(_why(reasons))
                update(row, "rows", n)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _why(reasons: Reasons) -> Facts:
    largest = sorted(reasons.columns.items(), key=lambda pair: -pair[1])[:_COLUMNS]
    return {
        "rows": [dict(zip(("row", "label", "share"), line, strict=True)) for line in reasons.rows],
        "other": reasons.other,
        "columns": {name: share for name, share in largest if share >= _LEAST},
    }


def _errors(model: Predictor, new: NewRows, label: str | None, predicted: list[object]) -> Facts | None:
    """Return how wrong the predictions are for the rows that have a label; None if none has one that is known."""
    labels = new.labels(model, label or model.target_name_)
    if labels is None:
        if label is not None:
            raise ValueError(f"--label names the column {label!r}, which {new.source} does not have or is empty there")
        return None
    chosen = [predicted[row] for row in labels.rows.tolist()]
    if model.is_classifier:
        if all(value is None for value in labels.values):
            problem = f"the label is ignored, since it holds no class of the model but {labels.texts[0]!r}"
            say(f"{new.source}: {problem}", err=True)
            return None
        wrong = [value != truth for value, truth in zip(chosen, labels.values, strict=True)]
        return {"rows": len(wrong), "error": sum(wrong) / len(wrong)}
    truth = np.array(labels.values, dtype=np.float64)
    there = np.isfinite(truth)
    if not there.any():
        return None
    return {"rows": int(there.sum()), **errors_of(np.array(chosen)[there], truth[there], classes=False)}


def _error_lines(errors: Facts | None) -> Iterator[str]:
    if errors is not None:
        yield f"{errors_text(errors)}, on {errors['rows']:,} row{'s' if errors['rows'] > 1 else ''} with a label"


def _flat(record: Facts) -> Facts:
    """Return a record whose values fit into cells."""
    flat: Facts = {}
    for name, value in record.items():
        if name == "probabilities":
            flat |= {f"probability of {label}": share for label, share in value.items()}
        elif name == "interval":
            flat["lower"], flat["upper"] = value
        elif name == "set":
            flat["set"] = " | ".join(map(value_text, value))
        elif name == "why":
            flat["nearest"], flat["apart"] = _nearest(value), _apart(value)
        else:
            flat[name] = value
    return flat


def _nearest(why: Facts) -> str:
    return "; ".join(f"{line['row']} ({value_text(line['label'])}, {percent(line['share'])})" for line in why["rows"])


def _apart(why: Facts) -> str:
    return "; ".join(f"{name} {percent(share)}" for name, share in why["columns"].items())


def _columns(records: list[Facts]) -> dict[str, list[object]]:
    """Return the columns of a file."""
    flat = [_flat(record) for record in records]
    return {name: [record[name] for record in flat] for name in flat[0]}


def _writer(path: Path, records: list[Facts]) -> Writer:
    if path.suffix.lower() == ".json":
        return text_writer(json.dumps(plain_value(records), ensure_ascii=False, allow_nan=False, indent=1) + "\n")
    return columns_writer(path, _columns(records))


def _parts(facts: Facts, model: Predictor) -> Iterator[RenderableType]:
    records = facts["predictions"]
    flat = [_flat(record) for record in records[:_SHOWN]]
    titles = list(flat[0])
    texts = {"row", "set", "nearest", "apart"} | ({"prediction"} if model.is_classifier else set())
    shares = {name for name in titles if name.startswith("probability")}
    grid = table_of([_title(name, facts["label"]) for name in titles], {_title(name, facts["label"]) for name in texts})
    for record in flat:
        cells = {name: percent(value, 1) if name in shares else value_text(value) for name, value in record.items()}
        if "strangeness" in cells:
            cells["strangeness"] = f"{record['strangeness']:.2f}"
        # A percentage is not broken between lines.
        grid.add_row(*(escape(text.replace(" %", "\N{NO-BREAK SPACE}%")) for text in cells.values()))
    yield grid
    if len(records) > _SHOWN:
        yield f"[dim]{len(records) - _SHOWN:,} more rows; --output FILE writes all, --json prints all[/dim]"
    for text in _error_lines(facts["errors"]):
        yield ""
        yield escape(text)


def _title(name: str, label: str | None) -> str:
    return label if name == "prediction" and label not in (None, "row") else name
