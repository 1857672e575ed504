"""`mahala evaluate` and `mahala simulate`: measure rankings, and what is learned from simulated clicks."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import mahala_search
from mahala.extend.commands import Json, Settings, configured, load_metric, show, task_bar
from mahala_search.commands.files import read_collection

Queries = Annotated[Path, typer.Option(help="Vectors of queries: .npy, .npz or .parquet, with or without ids.")]
Items = Annotated[Path, typer.Option(help="Vectors of items: .npy, .npz or .parquet, with or without ids.")]
Qrels = Annotated[
    Path, typer.Option(help="Relevance judgments, BEIR's .tsv or TREC's; without ids, row numbers from 0.")
]


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


def simulate(
    queries: Queries,
    items: Items,
    qrels: Qrels,
    clicks: Annotated[
        str, typer.Option(help="perfect, navigational, informational, position, random or adversarial.")
    ] = "navigational",
    impressions: Annotated[int, typer.Option(help="Number of impressions.", min=1)] = 3000,
    k: Annotated[int, typer.Option("-k", "--k", help="Number of items shown, and cut-off of the nDCG.", min=1)] = 10,
    test_share: Annotated[float, typer.Option(help="Share of the queries that are never asked.")] = 0.3,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="Seed of the queries asked and of the clicks.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Simulate people who click, and measure what QueryAdapter learns from them.

    Each impression asks a query, shows the first k items and draws clicks from the judgments. The result compares what
    was shown with what inner products would have shown, and does so at the end on queries that were never asked.

    Examples:

        mahala simulate --queries queries.npy --items items.npy --qrels qrels.tsv

        mahala simulate --queries q.npy --items i.npy --qrels qrels.tsv --clicks adversarial --set cap=0.5
    """
    adapter = configured(mahala_search.QueryAdapter(), settings or [], seed)
    with task_bar("Simulating", sys.stderr.isatty()) as update:
        result = mahala_search.simulate_clicks(
            adapter, *read_collection(queries, items, qrels)[:3], clicks=clicks, n_impressions=impressions, k=k,
            test_share=test_share, random_state=seed, progress=lambda done, total, text: update(done, text, total),
        )  # fmt: skip
    ends, gains = result.curve()
    facts = {
        "impressions": len(result.query),
        "clicks": result.n_clicks.sum(),
        f"ndcg@{k}": {"raw": result.raw.mean(), "shown": result.shown.mean(), "gain": result.gain},
        "curve": {"impressions": ends, "gain": gains},
        "held_out": len(result.held_out),
        "unseen": {name: asdict(gain) for name, gain in result.unseen.gains.items()},
    }
    show(facts, as_json, str(result))
