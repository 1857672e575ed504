"""`mahala adapt`: learn a map of queries from judgments or events."""

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
from mahala.extend.commands import (
    Force,
    Json,
    Settings,
    check_output,
    configured,
    fact_grid,
    open_input,
    show,
    table,
    write_files,
)
from mahala.stream import read_lines
from mahala_search.commands.files import (
    MALFORMED,
    EventFormat,
    query_vectors,
    read_collection,
    read_with_ids,
    report_events,
)
from mahala_search.events.formats import read_events
from mahala_search.events.joining import join

# Number of queries that are named because they lose or gain the most.
_NAMED = 5


def adapt(
    items: Annotated[Path, typer.Option(help="Vectors of items, .npy, .npz or .parquet.")],
    output: Annotated[Path, typer.Option(help="The model file to write: the adapter with its whole state.")],
    qrels: Annotated[
        Path | None, typer.Option(help="Relevance judgments, BEIR's .tsv or TREC's; without ids, row numbers from 0.")
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="Vectors of queries, as for --items.")] = None,
    events: Annotated[
        Path | None, typer.Option(help="A file of searches and what people did later, in JSON Lines, also .gz.")
    ] = None,
    event_format: EventFormat = None,
    max_errors: Annotated[int | None, typer.Option(help="With --events: malformed lines to tolerate.", min=0)] = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="The random_state of the adapter.", min=0)] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a map of queries, for an index over frozen vectors that ranks by inner product.

    From judgments (--qrels), cross-validation over the queries decides how much of the learned map is used, if any, and
    measures what it gains.

    Events (--events) are searches and clicks apart, as `mahala serve`, OpenSearch UBI or Metarank log them. They are
    joined by the ids of searches. Trust in the map grows with the impressions that it ranks better than the inner
    product does. Vectors of queries are in the events, or in --queries with their texts or ids. Clicks that are joined
    already are for `mahala stream --learner adapter`.

    The adapter continues to learn with `mahala stream --model FILE`. `search` and `evaluate` take it as a model.

    Malformed lines are reported on stderr, counted and skipped; the exit code is then 3.

    Examples:

        mahala adapt --qrels qrels.tsv --queries queries.npy --items items.npy --output adapter.safetensors

        mahala adapt --events events.jsonl --format ubi --items items.npy --queries queries.npz --output a.safetensors
    """
    if (qrels is None) == (events is None):
        raise ValueError("give one of --qrels (judgments) and --events (searches and what people did)")
    check_output(output, option="--output", inputs=[queries, items, qrels, events], force=force)
    adapter = configured(mahala_search.QueryAdapter(), settings or [], seed)
    started = time.perf_counter()
    if events is not None:
        facts = _from_events(adapter, events, event_format, items, queries, max_errors)
    elif event_format is not None or max_errors is not None:
        raise ValueError("--format and --max-errors go with --events, but --qrels is given: leave them out")
    elif queries is None or qrels is None:
        raise ValueError("--qrels needs --queries too: the vectors of the queries that it names")
    else:
        facts = _from_judgments(adapter, queries, items, qrels)
    write_files({output: adapter.save})
    facts |= {"trust": adapter.trust_, "verdict": adapter.verdict_.as_dict()}
    facts |= {"seconds": time.perf_counter() - started, "output": str(output)}
    show(facts, as_json, _parts)
    if facts.get("malformed"):
        raise typer.Exit(MALFORMED)


def _from_judgments(adapter: mahala_search.QueryAdapter, queries: Path, items: Path, qrels: Path) -> dict[str, Any]:
    """Fit the adapter, and return what to tell of it."""
    query_vectors, rows, judgments, names = read_collection(queries, items, qrels)
    with mahala.show_progress() if sys.stderr.isatty() else nullcontext():
        adapter.fit(query_vectors, rows, judgments)
    values = adapter.cross_validation_
    gains = values.gains

    def named(places: Any) -> list[dict[str, Any]]:
        lines = ((names[values.query[at]], values.raw[at], values.learned[at]) for at in places)
        return [{"query": query, "raw": raw, "learned": learned} for query, raw, learned in lines]

    return {
        "queries": len(values.query),
        "left_out": query_vectors.shape[0] - len(values.query),
        "items": rows.shape[0],
        "measure": f"nDCG@{adapter.k}",
        "means": {"raw": values.raw.mean(), "learned": values.learned.mean()},
        "changes": {"gain": (gains > 0.0).sum(), "lose": (gains < 0.0).sum(), "stay": (gains == 0.0).sum()},
        "losers": named(values.losers(_NAMED)),
        "winners": named(values.winners(_NAMED)),
    }


def _from_events(
    adapter: mahala_search.QueryAdapter,
    events: Path,
    event_format: EventFormat,
    items: Path,
    queries: Path | None,
    max_errors: int | None,
) -> dict[str, Any]:
    """Learn from the impressions of a file of events, and return what to tell of it."""
    X, ids = read_with_ids(items)
    rows, vectors = {id: row for row, id in enumerate(ids)}, query_vectors(queries)
    with open_input(events) as file:
        read = read_events(read_lines(file), event_format)
    for page in join(read.shown, read.reactions, rows, read.ignored):
        query = page.shown.query
        names = query.get("text"), query.get("id"), page.shown.search
        x = next((vectors[name] for name in names if name in vectors), query.get("vector"))
        x = X[rows[query["item"]]] if query.get("item") in rows else x
        if x is None:
            read.ignored["the query has no vector: give one by --queries, with its text or id as the id"] += 1
            continue
        clicked, id = X[[rows[item] for item in page.items]], query.get("id") or query.get("text")
        try:
            adapter.learn_one(x, clicked, page.values, query_id=id, user=page.user)
        except (TypeError, ValueError, OverflowError) as error:  # a vector of an event that is none
            read.ignored[f"the query cannot be used: {error}"] += 1
    report_events(read.malformed, read.ignored)
    if max_errors is not None and len(read.malformed) > max_errors:
        raise ValueError(f"{len(read.malformed)} malformed lines, but --max-errors is {max_errors}: nothing written")
    if not adapter.__sklearn_is_fitted__():
        raise ValueError(f"--events {events} has no impressions to learn from")
    counts = {"impressions": adapter.n_impressions_, "learned": adapter.n_learned_, "ignored": adapter.n_ignored_}
    return counts | {"malformed": len(read.malformed), "events_ignored": read.ignored.total()}


def _parts(facts: dict[str, Any]) -> Iterator[Any]:
    lines: list[tuple[str, str | None]] = []
    if "queries" in facts:
        left_out = f" with a relevant item ({facts['left_out']:,} without)" if facts["left_out"] else ""
        means = f"{facts['means']['raw']:.3f} plain → [bold]{facts['means']['learned']:.3f}[/bold] learned"
        lines += [
            ("learned from", f"{facts['queries']:,} queries{left_out}, {facts['items']:,} items"),
            (facts["measure"], f"{means}, in cross-validation over queries"),
            ("queries", ", ".join(f"{count:,} {change}" for change, count in facts["changes"].items())),
        ]
    else:
        equal = f"; in the other {facts['ignored']:,}, all reactions are equal" if facts["ignored"] else ""
        lines += [
            ("learned from", f"{facts['learned']:,} of {facts['impressions']:,} impressions{equal}"),
            ("malformed", f"{facts['malformed']:,} lines" if facts["malformed"] else None),
            ("ignored", f"{facts['events_ignored']:,} events" if facts.get("events_ignored") else None),
        ]
    if facts["verdict"]["share"]:  # otherwise the map is the identity
        lines.append(("trust", ", ".join(f"{share:.2f} for {kind} queries" for kind, share in facts["trust"].items())))
    lines.append(("verdict", f"[bold]{escape(facts['verdict']['sentence'])}[/bold]"))
    if "impressions" in facts:
        new = "The verdict is for new queries: it counts only the first impression of each query."
        lines.append(("", f"[dim]{new} To test the map, run mahala evaluate on judged queries.[/dim]"))
    lines += [("took", f"{facts['seconds']:.1f} s"), ("adapter", escape(facts["output"]))]
    yield fact_grid(lines)
    for name, title in (("losers", "Queries that lose the most"), ("winners", "Queries that gain the most")):
        if facts.get(name):
            yield f"\n[bold]{title}[/bold]"
            result = table(["query", "plain", "learned", "gain"], ["query"])
            for line in facts[name]:
                numbers = f"{line['raw']:.3f}", f"{line['learned']:.3f}", f"{line['learned'] - line['raw']:+.3f}"
                result.add_row(escape(line["query"]), *numbers)
            yield result
