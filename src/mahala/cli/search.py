"""`mahala search ITEMS`: find the items nearest to queries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import mahala
from mahala.cli.parts.model_rows import read_rows
from mahala.cli.parts.models import load_metric
from mahala.cli.parts.options import Decimal, FirstIndex, Force, Model, check_output, check_row_number
from mahala.cli.parts.output import csv_writer, escape, print_json, show, table, terminal, write_files
from mahala.support.arrays import slices

if TYPE_CHECKING:
    from mahala.support.arrays import Array, Rows


# Number of queries whose distances are computed at a time.
_BLOCK = 256

# A query, and the row numbers, labels (or None) and scores of the items nearest to it, nearest first.
Result = tuple[int, list[int], list[object] | None, list[float]]


def search(
    items: Annotated[str, typer.Argument(metavar="ITEMS", help="A table of the items to search.")],
    model: Model,
    queries: Annotated[str | None, typer.Option(help="A table of queries.")] = None,
    row: Annotated[list[int] | None, typer.Option(help="A row of ITEMS as query; may be repeated.")] = None,
    k: Annotated[int, typer.Option("-k", help="Maximum number of items to find per query.", min=1)] = 10,
    label: Annotated[str | None, typer.Option(help="Column of ITEMS to show with the results.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the results to this .csv file.")] = None,
    decimal: Decimal = None,
    first_index: FirstIndex = 1,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per query, for scripts.")] = False,
) -> None:
    """Find the items nearest to each query under the learned distance, or the most similar ones.

    Row numbers count from 0. A query that is a row of ITEMS is left out of its own results. In the
    .csv file, a text label that a spreadsheet would take for a formula gets an apostrophe before it.

    Examples:

        mahala search wine.csv --row 17 --model wine.safetensors --label maker

        mahala search items.npy --queries queries.npy --model m.safetensors -k 5 --json
    """
    if (queries is None) == (not row):
        raise ValueError("give either --queries (a table) or --row (a row number of ITEMS)")
    if output is not None:
        check_output(output, ".csv", inputs=[Path(items), Path(queries) if queries else None, model], force=force)
    metric = load_metric(model)
    items_read = read_rows(items, metric, items=True, label=label, decimal=decimal, first_index=first_index)
    if row:
        rows = [check_row_number(number, items_read.X.shape[0], "--row") for number in row]
        if metric.matrix.shape[0] != metric.matrix.shape[1]:
            raise ValueError("--row needs items with the features of queries, but the model's differ: use --queries")
        query_vectors, numbers = items_read.X[rows], rows
    else:
        assert queries is not None, "either is given"
        query_vectors = read_rows(queries, metric, decimal=decimal, first_index=first_index).X
        numbers = list(range(query_vectors.shape[0]))
    score = "distance" if isinstance(metric, mahala.MahalanobisMetric) else "similarity"
    results = _find(metric, query_vectors, numbers, items_read.X, items_read.labels, k, exclude_self=bool(row))
    label_title = [] if items_read.labels is None else ["label"]
    if output is not None:
        titles = ["query", "rank", "row", *label_title, score]
        write_files({output: csv_writer(chain([titles], chain.from_iterable(map(_lines, results))))})
        facts = {"queries": len(numbers), "file": str(output)}
        show(facts, as_json, f"Wrote the results of {len(numbers):,} queries to {output}")
    elif as_json:
        plural = "similarities" if score == "similarity" else "distances"
        for result in results:
            print_json(dict(zip(("query", "rows", "labels", plural), result, strict=True)))
    else:
        grid = table(["query", "rank", "item", *label_title, score], ["label"], ruled=True)
        for result in results:
            for query, rank, item, *text, value in _lines(result):
                grid.add_row("" if rank > 1 else str(query), str(rank), str(item), *map(escape, text), f"{value:.4g}")
            grid.add_section()
        terminal().print(grid)


def _find(
    metric: mahala.Metric,
    queries: Rows,
    numbers: list[int],
    items: Rows,
    labels: Array | None,
    k: int,
    exclude_self: bool,
) -> Iterator[Result]:
    n_items = items.shape[0]
    k = min(k, n_items - exclude_self)
    if k == 0:
        raise ValueError("ITEMS has only one row, which is the query: there is nothing to find")
    for part in slices(queries.shape[0], _BLOCK):
        block, names = queries[part], np.array(numbers[part])
        order = metric.rank(block, items, k + exclude_self)
        if exclude_self:
            # Leave out the query itself, or the last item if items equal to the query come before it.
            is_query = order == names[:, None]
            is_query[~is_query.any(axis=1), -1] = True
            order = order[~is_query].reshape(len(order), k)
        left, right = block[np.repeat(np.arange(len(names)), k)], items[order.ravel()]
        compare = metric.distance if isinstance(metric, mahala.MahalanobisMetric) else metric.similarity
        scores = compare(left, right).reshape(order.shape)
        for name, rows, values in zip(names.tolist(), order, scores, strict=True):
            yield name, rows.tolist(), None if labels is None else labels[rows].tolist(), values.tolist()


def _lines(result: Result) -> Iterator[list[Any]]:
    """Yield a line for each item of a result: the query, the rank, the row, perhaps its label, and the score."""
    query, rows, labels, scores = result
    for at, (row, score) in enumerate(zip(rows, scores, strict=True)):
        yield [query, at + 1, row, *([] if labels is None else [str(labels[at])]), score]
