"""What `mahala show MODEL DATA ROW...` says: why a row is predicted so, or what makes two rows near or far."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import mahala
from mahala.cli.parts.model_rows import NewRows, read_rows
from mahala.cli.parts.options import check_row_number
from mahala.cli.parts.output import Facts, bar, escape, table, terminal
from mahala.cli.parts.predictors import percent, value_text
from mahala.support.validation import is_sparse

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from mahala.cli.parts.predictors import Predictor
    from mahala.data.columns.cells import Decimal
    from mahala.support.arrays import FloatArray

# Widths of the longest bar and of a line without bars; narrower terminals do not show the values of the rows.
_BAR, _BARE = 24, 60


def prediction_facts(model: Predictor, data: str, row: int, k: int, decimal: Decimal | None, first_index: int) -> Facts:
    """Return why the prediction for a row of a table is what it is."""
    new = NewRows.read(data, model, decimal, first_index)
    check_row_number(row, new.data.shape[0], "ROW")
    with new.named():
        reasons = next(model.explain_each(new.data, k, rows=[row]))
    labels = new.labels(model, model.target_name_)
    label = None if labels is None else dict(zip(labels.rows.tolist(), labels.texts, strict=True)).get(row)
    voters = [dict(zip(("row", "label", "share"), voter, strict=True)) for voter in reasons.rows]
    return {"row": row, "label": label, **vars(reasons), "rows": voters, "text": str(reasons)}


def prediction_parts(facts: Facts) -> Iterator[RenderableType]:
    """Yield the text of why a row is predicted so."""
    sentences, _, _ = facts["text"].partition("Rows that voted:")
    yield from map(escape, sentences.splitlines())
    if facts["label"] is not None:
        yield escape(f"The label in the table is {facts['label']}.")
    grid = table(["row that voted", "label", "share"], ["row that voted", "label"], ruled=True)
    for voter in facts["rows"]:
        grid.add_row(escape(str(voter["row"])), escape(value_text(voter["label"])), percent(voter["share"], 1))
    yield grid


def distance_facts(metric: mahala.Metric, data: str, rows: Sequence[int], top: int, **reading: Any) -> Facts:
    """Return the distance or similarity of two rows of a table, and what contributes to it."""
    X = read_rows(data, metric, **reading).X
    for row in rows:
        check_row_number(row, X.shape[0], "ROW")
    x, x2 = X[rows].toarray() if is_sparse(X) else X[rows]
    explanation = metric.explain(x, x2)
    names, features = explanation.feature_names, explanation.features
    contributions: list[Facts] = []
    for name, value in explanation.top(top):
        line: Facts = {"name": name, "contribution": value}
        if names is not None and features is not None:
            feature = names.index(name)
            line["values"] = [float(x[feature]), float(x2[feature])]
        contributions.append(line)
    every = features if features is not None else explanation.directions
    left_out = 0 if every is None else max(0, int((every != 0.0).sum()) - top)
    facts = _distance(metric, x, x2) if isinstance(metric, mahala.MahalanobisMetric) else _similarity(metric, x, x2)
    return facts | {"kind": metric.kind, "rows": rows, "contributions": contributions, "left_out": left_out}


def _similarity(metric: mahala.Metric, x: FloatArray, x2: FloatArray) -> Facts:
    square = metric.matrix.shape[0] == metric.matrix.shape[1]
    return {"similarity": metric.similarity(x, x2), "inner_product": float(x @ x2) if square else None}


def _distance(metric: mahala.MahalanobisMetric, x: FloatArray, x2: FloatArray) -> Facts:
    squared = metric.distance(x, x2, squared=True)
    return {
        "distance": math.sqrt(squared) if squared >= 0.0 else None,
        "squared_distance": squared,
        "euclidean": metric.plain().distance(x, x2),
        "scaled": bool(metric.steps),
        "threshold": metric.threshold,
        "similar": None if metric.threshold is None else squared <= metric.threshold,
    }


def distance_parts(facts: Facts) -> Iterator[RenderableType]:
    """Yield the text of how far apart or how similar two rows are, and why."""
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
    if facts.get("threshold") is not None:
        word = "similar" if facts["similar"] else "dissimilar"
        yield f"The model calls them {word}: up to {facts['threshold']:.4g} squared counts as similar."
    contributions = facts["contributions"]
    if not any(line["contribution"] for line in contributions):
        yield "No feature contributes."
        return
    # Contributions to a similarity cancel each other, so shares of their sum would be meaningless.
    yield _contributions(facts, total if facts["kind"] != "bilinear" and total > 0.0 else None)
    if facts["left_out"]:
        yield f"[dim]{facts['left_out']:,} smaller contributions are not shown; use --top to show more.[/dim]"


def _contributions(facts: Facts, total: float | None) -> Table:
    """Return the table of contributions, with their shares of a total if there is one."""
    lines, width = facts["contributions"], terminal().width
    of_features = "values" in lines[0]
    title = "feature" if of_features else "direction"
    rows = [f"row {row}" for row in facts["rows"]] if of_features and width >= _BARE else []
    result = table([title, *rows, "contribution", *(["share"] if total else [])], [title], ruled=True)
    result.add_column("", no_wrap=True)
    largest = max(abs(line["contribution"]) for line in lines)
    for line in lines:
        value = line["contribution"]
        cells = [escape(line["name"].removeprefix("" if of_features else "direction "))]
        cells += [f"{number:.4g}" for number in line["values"]] if rows else []
        cells += [f"{value:.4g}", *([f"{value / total:.0%}"] if total else [])]
        result.add_row(*cells, bar(value, largest, min(_BAR, max(0, width - _BARE))))
    return result
