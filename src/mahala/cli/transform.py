"""`mahala transform DATA`: map rows so that Euclidean distances are the learned ones."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import mahala
from mahala.cli.parts.model_rows import read_rows
from mahala.cli.parts.models import load_metric
from mahala.cli.parts.options import Decimal, FirstIndex, FittedData, Force, Model, check_output
from mahala.cli.parts.output import Json, Writer, columns_writer, show, write_files
from mahala.support.validation import is_sparse


def transform(
    data: FittedData,
    model: Model,
    output: Annotated[Path, typer.Option(help="File to write: .npy, .npz, .csv or .parquet.")],
    components: Annotated[int | None, typer.Option(help="Keep this many leading directions.", min=1)] = None,
    label: Annotated[str | None, typer.Option(help="A column of labels to copy; not for .npy files.")] = None,
    decimal: Decimal = None,
    first_index: FirstIndex = 1,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Map rows so that their Euclidean distances are the learned distances, for use in any index or classifier.

    With a bilinear similarity, the rows are queries, and their inner products with raw items are the similarities.
    Columns are named z0, z1, ...; .npz files hold the rows as X (or as the parts of a CSR matrix) and labels as y.
    In .csv files, a text label that a spreadsheet would take for a formula gets an apostrophe before it.

    Examples:

        mahala transform wine.csv --model wine.safetensors --output rows.npy

        mahala transform wine.csv --model wine.safetensors --components 2 --label maker --output plane.csv
    """
    check_output(output, ".npy", ".npz", ".csv", ".parquet", inputs=[Path(data), model], force=force)
    if label is not None and output.suffix.lower() == ".npy":
        raise ValueError("--label cannot be used with .npy, which holds rows only: write .npz, .csv or .parquet")
    metric = load_metric(model)
    table = read_rows(data, metric, label=label, decimal=decimal, first_index=first_index)
    if components is not None:
        metric = metric.truncate(components)
    rows = metric.embed(table.X)
    write_files({output: _writer(output, rows, label or "y", table.labels)})
    what = "queries" if isinstance(metric, mahala.BilinearMetric) else "rows"
    facts = {"rows": rows.shape[0], "columns": rows.shape[1], "kind": metric.kind, "file": str(output)}
    labelled = "" if label is None else " and the label"
    show(facts, as_json, f"Wrote {rows.shape[0]:,} {what} with {rows.shape[1]:,} columns{labelled} to {output}")


def _writer(path: Path, rows: Any, label: str, labels: Any) -> Writer:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        arrays = {"X": rows}
        if is_sparse(rows):
            arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
        if labels is not None:
            arrays["y"] = labels if labels.dtype != object else labels.astype(str)
        return lambda path: np.savez_compressed(path, **arrays)
    if is_sparse(rows):
        rows = rows.toarray()
    if suffix == ".npy":
        return lambda path: np.save(path, rows)
    columns = {f"z{j}": rows[:, j].tolist() for j in range(rows.shape[1])}
    if labels is not None:
        columns[label if label not in columns else f"{label}_label"] = labels.tolist()
    return columns_writer(path, columns)
