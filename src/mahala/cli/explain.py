"""`mahala explain DATA ROW ROW2`: contributions of the features to the distance of two rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahala.cli.models import load_metric
from mahala.cli.options import Decimal, FirstIndex, FittedData, Model, check_row_number
from mahala.cli.output import Json, bar, print_json, terminal
from mahala.cli.tables import read_rows

if TYPE_CHECKING:
    from mahala.metric import Metric

# Widths of the longest bar and of a line without bars; narrower terminals do not show the values of the rows.
_BAR, _BARE = 24, 60


def explain(
    data: FittedData,
    row: Annotated[int, typer.Argument(metavar="ROW", help="Number of a row, counted from 0.")],
    row2: Annotated[int, typer.Argument(metavar="ROW2", help="Number of another row.")],
    model: Model,
    top: Annotated[int, typer.Option(help="Number of contributions to show.", min=1)] = 10,
    decimal: Decimal = None,
    first_index: FirstIndex = 1,
    as_json: Json = False,
) -> None:
    """Explain the distance (or similarity) of two rows by the contribution of each feature.

    Row numbers count from 0. The contributions of all features sum to the squared distance; a negative one brings the
    rows closer together. With a kernel, contributions are those of directions instead of features.

    Examples:

        mahala explain wine.csv 0 17 --model wine.safetensors

        mahala explain wine.csv 0 17 --model wine.safetensors --top 3 --json
    """
    metric = load_metric(model)
    X = read_rows(data, metric, decimal=decimal, first_index=first_index).X
    rows = [check_row_number(number, X.shape[0], name) for number, name in ((row, "ROW"), (row2, "ROW2"))]
    x, x2 = (_dense(X[[number]]) for number in rows)
    told = _facts(metric, x, x2) | {"rows": rows}
    explanation = metric.explain(x, x2)
    names = explanation.feature_names
    told["contributions"] = []
    for name, value in explanation.top(top):
        line: dict[str, Any] = {"name": name, "contribution": value}
        if names is not None and explanation.features is not None:
            at = names.index(name)
            line["values"] = [float(x[at]), float(x2[at])]
        told["contributions"].append(line)
    parts = explanation.features if explanation.features is not None else explanation.directions
    told["left_out"] = 0 if parts is None else max(0, int((parts != 0.0).sum()) - top)
    if as_json:
        print_json(told)
    else:
        _show(told)


def _dense(row: Any) -> Any:
    return (row.toarray() if hasattr(row, "toarray") else row).ravel()


def _facts(metric: Metric, x: Any, x2: Any) -> dict[str, Any]:
    """Return the learned and the plain distance or similarity of two rows."""
    from mahala.metric import MahalanobisMetric

    if not isinstance(metric, MahalanobisMetric):
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


def _show(told: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    console = terminal()
    one, other = (str(number) for number in told["rows"])
    if told["kind"] == "bilinear":
        total = told["similarity"]
        plain = "" if told["inner_product"] is None else f" (inner product {told['inner_product']:.4g})"
        console.print(f"The similarity of rows {one} and {other} is [bold]{total:.4g}[/bold]{plain}.")
    else:
        total = told["squared_distance"]
        shown = f"{told['distance']:.4g}" if told["distance"] is not None else f"the root of {total:.4g}"
        scaled = " of the scaled features" if told["scaled"] else ""
        console.print(
            f"The learned distance of rows {one} and {other} is [bold]{shown}[/bold], squared {total:.4g}; "
            f"the Euclidean distance{scaled} is {told['euclidean']:.4g}."
        )
        if told["threshold"] is not None:
            word = "similar" if told["similar"] else "dissimilar"
            console.print(f"The model calls them {word}: up to {told['threshold']:.4g} squared counts as similar.")
    lines = told["contributions"]
    if not any(line["contribution"] for line in lines):
        console.print("No feature contributes.")
        return
    with_values = "values" in lines[0]
    table = Table(box=SIMPLE_HEAD)
    table.add_column("feature" if with_values else "direction", overflow="fold")
    numbers = (one, other) if with_values and console.width >= _BARE else ()
    for number in numbers:
        table.add_column(f"row {number}", justify="right", no_wrap=True)
    table.add_column("contribution", justify="right", no_wrap=True)
    # Contributions to a similarity cancel each other, so shares of their sum would be meaningless.
    with_shares = told["kind"] != "bilinear" and total > 0.0
    if with_shares:
        table.add_column("share", justify="right", no_wrap=True)
    width = min(_BAR, max(0, console.width - _BARE))
    table.add_column("", no_wrap=True)
    largest = max(abs(line["contribution"]) for line in lines)
    for line in lines:
        value = line["contribution"]
        share = [f"{value / total:.0%}"] if with_shares else []
        name = line["name"] if with_values else line["name"].removeprefix("direction ")
        values = [f"{number:.4g}" for number in line["values"]] if numbers else []
        table.add_row(escape(name), *values, f"{value:.4g}", *share, bar(value, largest, width))
    console.print(table)
    if told["left_out"]:
        console.print(f"[dim]{told['left_out']:,} smaller contributions are not shown; use --top to show more.[/dim]")
