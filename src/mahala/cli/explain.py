"""`mahala explain DATA ROW [ROW2]`: why a row is predicted so, or what makes two rows near or far."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import mahala
from mahala.cli.models import load_metric
from mahala.cli.options import Decimal, FirstIndex, FittedData, Model, check_row_number
from mahala.cli.output import Json, bar, escape, show, table, terminal
from mahala.cli.predictors import is_predictor, labels_of, percent, read_new_rows, value_text, warnings_said
from mahala.cli.tables import read_rows
from mahala.support.validation import is_sparse

# Widths of the longest bar and of a line without bars; narrower terminals do not show the values of the rows.
_BAR, _BARE = 24, 60


def explain(
    data: FittedData,
    row: Annotated[int, typer.Argument(metavar="ROW", help="Number of a row, counted from 0.")],
    model: Model,
    row2: Annotated[
        int | None, typer.Argument(metavar="[ROW2]", help="Number of another row, to explain the distance of the two.")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of contributions to show.", min=1)] = 10,
    k: Annotated[int, typer.Option("-k", help="With one row: number of training rows to show.", min=1)] = 5,
    decimal: Decimal = None,
    first_index: FirstIndex = 1,
    as_json: Json = False,
) -> None:
    """Explain the prediction for a row, or the distance (or similarity) of two rows.

    With one row: the training rows that voted for its prediction, the columns that set it apart from the nearest rows
    that say something else, and what the line and the trees say. The model must be one that predicts.

    With two rows: the contribution of each feature. The contributions of all features sum to the squared distance; a
    negative one brings the rows closer together. With a kernel, contributions are those of directions instead of
    features.

    Row numbers count from 0.

    Examples:

        mahala explain new.csv 0 --model churn.safetensors

        mahala explain wine.csv 0 17 --model wine.safetensors

        mahala explain wine.csv 0 17 --model wine.safetensors --top 3 --json
    """
    if row2 is None:
        show(_reasons(data, row, model, k, decimal, first_index), as_json, _reason_parts)
        return
    metric = load_metric(model)
    X = read_rows(data, metric, decimal=decimal, first_index=first_index).X
    rows = [check_row_number(number, X.shape[0], name) for number, name in ((row, "ROW"), (row2, "ROW2"))]
    x, x2 = X[rows].toarray() if is_sparse(X) else X[rows]
    explanation = metric.explain(x, x2)
    names, features = explanation.feature_names, explanation.features
    contributions = []
    for name, value in explanation.top(top):
        line: dict[str, Any] = {"name": name, "contribution": value}
        if names is not None and features is not None:
            at = names.index(name)
            line["values"] = [float(x[at]), float(x2[at])]
        contributions.append(line)
    parts = features if features is not None else explanation.directions
    left_out = 0 if parts is None else max(0, int((parts != 0.0).sum()) - top)
    facts = _facts(metric, x, x2) | {"rows": rows, "contributions": contributions, "left_out": left_out}
    show(facts, as_json, _parts)


def _reasons(data: str, row: int, path: Path, k: int, decimal: Any, first_index: int) -> dict[str, Any]:
    """Return why the prediction for a row is what it is; raise ValueError if the model predicts nothing."""
    predictor, source = mahala.load(path), "standard input" if data == "-" else data
    if not is_predictor(predictor):
        why = f"--model {path} compares two rows and predicts nothing"
        raise ValueError(f"ROW2 must be the number of another row, because {why}")
    raw = read_new_rows(data, predictor, decimal, first_index)
    check_row_number(row, raw.data.shape[0], "ROW")
    with warnings_said(source):
        try:
            reasons = next(predictor.explain_each(raw.data, k, rows=[row]))
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
    labels = labels_of(raw, predictor, predictor.target_name_, decimal)
    truth = None if labels is None else dict(zip(labels.rows.tolist(), labels.texts, strict=True)).get(row)
    rows = [dict(zip(("row", "label", "share"), line, strict=True)) for line in reasons.rows]
    return {"row": row, "label": truth, **vars(reasons), "rows": rows, "text": str(reasons)}


def _reason_parts(facts: dict[str, Any]) -> Iterator[Any]:
    sentences, _, _ = facts["text"].partition("Rows that voted:")
    for sentence in sentences.splitlines():
        yield escape(sentence)
    if facts["label"] is not None:
        yield escape(f"The label in the table is {facts['label']}.")
    grid = table(["row that voted", "label", "share"], ["row that voted", "label"], ruled=True)
    for line in facts["rows"]:
        grid.add_row(escape(str(line["row"])), escape(value_text(line["label"])), percent(line["share"], 1))
    yield grid


def _facts(metric: mahala.Metric, x: Any, x2: Any) -> dict[str, Any]:
    """Return the learned and the plain distance or similarity of two rows."""
    if not isinstance(metric, mahala.MahalanobisMetric):
        plain = float(x @ x2) if metric.matrix.shape[0] == metric.matrix.shape[1] else None
        return {"kind": metric.kind, "similarity": metric.similarity(x, x2), "inner_product": plain}
    squared = metric.distance(x, x2, squared=True)
    difference = (x - x2) if metric.scales is None else (x - x2) / metric.scales
    return {
        "kind": metric.kind,
        "distance": math.sqrt(squared) if squared >= 0.0 else None,
        "squared_distance": squared,
        "euclidean": math.sqrt(float(difference @ difference)),
        "scaled": metric.scales is not None,
        "threshold": metric.threshold,
        "similar": None if metric.threshold is None else squared <= metric.threshold,
    }


def _parts(facts: dict[str, Any]) -> Iterator[Any]:
    one, other = facts["rows"]
    if facts["kind"] == "bilinear":
        total = facts["similarity"]
        plain = "" if facts["inner_product"] is None else f" (inner product {facts['inner_product']:.4g})"
        yield f"The similarity of rows {one} and {other} is [bold]{total:.4g}[/bold]{plain}."
    else:
        total = facts["squared_distance"]
        distance = f"{facts['distance']:.4g}" if facts["distance"] is not None else f"the root of {total:.4g}"
        scaled = " of the scaled features" if facts["scaled"] else ""
        yield (
            f"The learned distance of rows {one} and {other} is [bold]{distance}[/bold], squared {total:.4g}; "
            f"the Euclidean distance{scaled} is {facts['euclidean']:.4g}."
        )
        if facts["threshold"] is not None:
            word = "similar" if facts["similar"] else "dissimilar"
            yield f"The model calls them {word}: up to {facts['threshold']:.4g} squared counts as similar."
    lines = facts["contributions"]
    if not any(line["contribution"] for line in lines):
        yield "No feature contributes."
        return
    width = terminal().width
    feature = "feature" if "values" in lines[0] else "direction"
    rows = [f"row {one}", f"row {other}"] if "values" in lines[0] and width >= _BARE else []
    # Contributions to a similarity cancel each other, so shares of their sum would be meaningless.
    share = ["share"] if facts["kind"] != "bilinear" and total > 0.0 else []
    result = table([feature, *rows, "contribution", *share], [feature], ruled=True)
    result.add_column("", no_wrap=True)
    largest = max(abs(line["contribution"]) for line in lines)
    for line in lines:
        value = line["contribution"]
        numbers = [f"{number:.4g}" for number in line["values"]] if rows else []
        numbers += [f"{value:.4g}", *([f"{value / total:.0%}"] if share else [])]
        name = line["name"] if feature == "feature" else line["name"].removeprefix("direction ")
        result.add_row(escape(name), *numbers, bar(value, largest, min(_BAR, max(0, width - _BARE))))
    yield result
    if facts["left_out"]:
        yield f"[dim]{facts['left_out']:,} smaller contributions are not shown; use --top to show more.[/dim]"
