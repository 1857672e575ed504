"""`mahala adapt`: learn a map of queries from judgments."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import mahala
import mahala_search
from mahala.extend.commands import Force, Json, Settings, check_output, configured, fact_grid, show, write_files
from mahala_search.commands.files import Items, Qrels, Queries, read_collection


def adapt(
    queries: Queries,
    items: Items,
    qrels: Qrels,
    output: Annotated[Path, typer.Option(help="The model file to write: the adapter with its whole state.")],
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="The random_state of the adapter.", min=0)] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a map of queries, for an index over frozen vectors that ranks by inner product.

    Cross-validation over the queries decides how much of the learned map is used, if any, and measures what it gains.

    `search` and `evaluate` take the adapter as a model; `mahala.load` reads it, and its `learn_one` learns from clicks.

    Examples:

        mahala adapt --qrels qrels.tsv --queries queries.npy --items items.npy --output adapter.safetensors
    """
    check_output(output, option="--output", inputs=[queries, items, qrels], force=force)
    adapter = configured(mahala_search.QueryAdapter(), settings or [], seed)
    started = time.perf_counter()
    facts = _fitted(adapter, queries, items, qrels)
    write_files({output: adapter.save})
    facts |= {"trust": adapter.trust_, "verdict": adapter.verdict_.as_dict()}
    facts |= {"seconds": time.perf_counter() - started, "output": str(output)}
    show(facts, as_json, _parts)


def _fitted(adapter: mahala_search.QueryAdapter, queries: Path, items: Path, qrels: Path) -> dict[str, Any]:
    """Fit the adapter, and return what to tell of it."""
    query_vectors, rows, judgments, names = read_collection(queries, items, qrels)
    with mahala.show_progress() if sys.stderr.isatty() else nullcontext():
        adapter.fit(query_vectors, rows, judgments)
    values = adapter.cross_validation_
    gains = values.gains
    lines = zip([names[row] for row in values.query], values.raw, values.learned, strict=True)
    return {
        "queries": len(values.query),
        "left_out": query_vectors.shape[0] - len(values.query),
        "items": rows.shape[0],
        "measure": f"nDCG@{adapter.k}",
        "means": {"raw": values.raw.mean(), "learned": values.learned.mean()},
        "changes": {"gain": (gains > 0.0).sum(), "lose": (gains < 0.0).sum(), "stay": (gains == 0.0).sum()},
        "values": [{"query": query, "raw": raw, "learned": learned} for query, raw, learned in lines],
    }


def _parts(facts: dict[str, Any]) -> Iterator[Any]:
    left_out = f" with a relevant item ({facts['left_out']:,} without)" if facts["left_out"] else ""
    means = f"{facts['means']['raw']:.3f} plain → [bold]{facts['means']['learned']:.3f}[/bold] learned"
    lines: list[tuple[str, str | None]] = [
        ("learned from", f"{facts['queries']:,} queries{left_out}, {facts['items']:,} items"),
        (facts["measure"], f"{means}, in cross-validation over queries"),
        ("queries", ", ".join(f"{count:,} {change}" for change, count in facts["changes"].items())),
    ]
    if facts["verdict"]["share"]:  # otherwise the map is the identity
        lines.append(("trust", ", ".join(f"{share:.2f} for {kind} queries" for kind, share in facts["trust"].items())))
    lines.append(("verdict", f"[bold]{escape(facts['verdict']['sentence'])}[/bold]"))
    lines += [("took", f"{facts['seconds']:.1f} s"), ("adapter", escape(facts["output"]))]
    yield fact_grid(lines)
