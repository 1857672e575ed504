"""`mahala predict DATA`: predictions for the rows of a table, with sets, intervals and reasons."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mahala.cli import options
from mahala.cli.output import (
    Json,
    csv_text,
    csv_writer,
    escape,
    parquet_writer,
    plain_value,
    say,
    show,
    text_writer,
    write_files,
)
from mahala.cli.output import table as table_of
from mahala.cli.predictors import (
    errors_of,
    errors_text,
    labels_of,
    load_predictor,
    names_of_rows,
    percent,
    read_new_rows,
    value_text,
    warnings_said,
)
from mahala.support.display import task_bar

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
    predictor, source = load_predictor(model), "standard input" if data == "-" else data
    if probabilities and not predictor.is_classifier:
        raise ValueError("--probabilities are those of classes, but the model predicts numbers: use --level")
    raw = read_new_rows(data, predictor, decimal, first_index, [] if ids is None else [ids])
    names = list(range(raw.data.shape[0])) if ids is None else names_of_rows(np.array(raw.data[ids].to_list()), ids)
    with warnings_said(source):
        try:
            predicted = _predictions(predictor, raw.data, probabilities, level, strangeness, k if why else 0)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
    records = [{"row": name} | record for name, record in zip(names, predicted, strict=True)]
    facts = {
        "rows": len(records),
        "label": predictor.target_name_,
        "errors": _errors(predictor, raw, label, decimal, source, [record["prediction"] for record in records]),
        "file": output,
    }
    if output is None:
        show(facts | {"predictions": records}, as_json, lambda facts: _parts(facts, predictor))
    elif output == "-":
        say(csv_text(_lines([_flat(record) for record in records])).rstrip("\n"))
        for text in _error_lines(facts["errors"]):
            say(text, err=True)
    else:
        write_files({Path(output): _writer(Path(output), records)})
        texts = [f"Wrote {len(records):,} predictions to {output}", *_error_lines(facts["errors"])]
        show(facts, as_json, "\n".join(texts))


def _predictions(
    model: Any, data: Any, probabilities: bool, level: float | None, strangeness: bool, k: int
) -> list[dict[str, Any]]:
    """Return what is predicted of each row, as nested records."""
    n, records = data.shape[0], []
    classes = model.classes_.tolist() if model.is_classifier else []
    shares = model.predict_proba(data) if classes else None
    values = [classes[code] for code in shares.argmax(axis=1)] if shares is not None else model.predict(data).tolist()
    sets = model.predict_set(data, level) if level is not None and classes else None
    intervals = model.predict_interval(data, level).tolist() if level is not None and not classes else None
    strange = model.strangeness(data).tolist() if strangeness else None
    reasons = model.explain_each(data, k) if k else None
    with task_bar("Explaining", k > 0 and n > _MANY and sys.stderr.isatty()) as update:
        for row in range(n):
            record: dict[str, Any] = {"prediction": values[row]}
            if shares is not None:
                record["probability"] = float(shares[row].max())
            if probabilities and shares is not None:
                record["probabilities"] = dict(zip(map(str, classes), shares[row].tolist(), strict=True))
            if sets is not None:
                record["set"] = [name for name, used in zip(classes, sets[row].tolist(), strict=True) if used]
            if intervals is not None:
                record["interval"] = intervals[row]
            if strange is not None:
                record["strangeness"] = strange[row]
            if reasons is not None:
                record["why"] = _why(next(reasons))
                update(row + 1, "rows", n)
            records.append(record)
    return records


def _why(reasons: Any) -> dict[str, Any]:
    largest = sorted(reasons.columns.items(), key=lambda pair: -pair[1])[:_COLUMNS]
    return {
        "rows": [dict(zip(("row", "label", "share"), line, strict=True)) for line in reasons.rows],
        "other": reasons.other,
        "columns": {name: share for name, share in largest if share >= _LEAST},
    }


def _errors(
    model: Any, raw: Any, label: str | None, decimal: Any, data: str, predicted: list[Any]
) -> dict[str, Any] | None:
    """Return how wrong the predictions are for the rows that have a label; None if none has one that is known."""
    labels = labels_of(raw, model, label or model.target_name_, decimal)
    if labels is None:
        if label is not None:
            raise ValueError(f"--label names the column {label!r}, which {data} does not have or is empty there")
        return None
    chosen = [predicted[row] for row in labels.rows.tolist()]
    if model.is_classifier:
        if all(value is None for value in labels.values):
            say(f"{data}: the label is ignored, since it holds no class of the model but {labels.texts[0]!r}", err=True)
            return None
        wrong = [value != truth for value, truth in zip(chosen, labels.values, strict=True)]
        return {"rows": len(wrong), "error": sum(wrong) / len(wrong)}
    truth = np.array(labels.values, dtype=np.float64)
    there = np.isfinite(truth)
    if not there.any():
        return None
    return {"rows": int(there.sum()), **errors_of(np.array(chosen)[there], truth[there], classes=False)}


def _error_lines(errors: dict[str, Any] | None) -> Iterator[str]:
    if errors is not None:
        yield f"{errors_text(errors)}, on {errors['rows']:,} row{'s' if errors['rows'] > 1 else ''} with a label"


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose values fit into cells."""
    flat: dict[str, Any] = {}
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


def _nearest(why: dict[str, Any]) -> str:
    return "; ".join(f"{line['row']} ({value_text(line['label'])}, {percent(line['share'])})" for line in why["rows"])


def _apart(why: dict[str, Any]) -> str:
    return "; ".join(f"{name} {percent(share)}" for name, share in why["columns"].items())


def _lines(records: Sequence[dict[str, Any]]) -> Iterator[list[Any]]:
    yield list(records[0])
    for record in records:
        yield list(record.values())


def _writer(path: Path, records: list[dict[str, Any]]) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".json":
        return text_writer(json.dumps(plain_value(records), ensure_ascii=False, allow_nan=False, indent=1) + "\n")
    flat = [_flat(record) for record in records]
    if suffix == ".csv":
        return csv_writer(_lines(flat))
    columns = {name: [record[name] for record in flat] for name in flat[0]}
    for name in ("row", "prediction"):
        if len({type(value) for value in columns[name]}) > 1:  # a column of Parquet has one type
            columns[name] = list(map(str, columns[name]))
    return parquet_writer(columns)


def _parts(facts: dict[str, Any], model: Any) -> Iterator[Any]:
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
