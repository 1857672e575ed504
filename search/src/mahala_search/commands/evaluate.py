"""`mahala evaluate`: measure how well items are ranked for queries."""

from pathlib import Path
from typing import Annotated

import typer

import mahala_search
from mahala.extend.commands import Json, load_metric, show
from mahala_search.commands.files import Items, Qrels, Queries, read_collection


def evaluate(
    queries: Queries,
    items: Items,
    qrels: Qrels,
    model: Annotated[Path | None, typer.Option(help="A model file; without one, inner products rank.")] = None,
    k: Annotated[list[int] | None, typer.Option("-k", "--k", help="A cut-off, 10 by default; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Measure how well items are ranked for queries: nDCG, precision, recall and hits at k, MRR and MAP.

    With a model, the table shows its gain over the inner products of the vectors, with a 95 % interval from a paired
    bootstrap over queries and the p-value of a paired randomization test. Queries without a relevant item are left out.

    Examples:

        mahala evaluate --queries queries.npy --items items.npy --qrels qrels.tsv

        mahala evaluate --queries q.parquet --items i.parquet --qrels test.tsv --model m.safetensors -k 10 -k 100
    """
    metric = None if model is None else load_metric(model)
    query_vectors, rows, judgments, _ = read_collection(queries, items, qrels)
    # Vectors of different lengths have no inner products to compare with.
    baseline = "raw" if query_vectors.shape[1] == rows.shape[1] else None
    quality = mahala_search.evaluate_ranking(query_vectors, rows, judgments, metric, k=k or 10, baseline=baseline)
    n_queries = len(quality.queries)
    facts = {"queries": n_queries, "left_out": quality.n_queries - n_queries, "items": quality.n_items}
    measured = {"confidence": quality.confidence, "measures": quality.table()}
    show(facts | measured, as_json, str(quality))
