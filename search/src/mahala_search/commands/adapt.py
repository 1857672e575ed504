"""`mahala adapt`: learn a map of queries from judgments, clicks or events."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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
    provenance,
    read_items,
    report_malformed,
    show,
    table,
    task_bar,
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

# Number of queries that are named because they lose or gain the most.
_NAMED = 5


def adapt(
    output: Annotated[Path, typer.Option(help="The model file to write: the adapter with its whole state.")],
    qrels: Annotated[
        Path | None, typer.Option(help="Relevance judgments, BEIR's .tsv or TREC's; without ids, row numbers from 0.")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="With --qrels or --events: vectors of queries, .npy, .npz or .parquet.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option(help="Vectors as for --queries; with --clicks, rows that points refer to.")
    ] = None,
    clicks: Annotated[Path | None, typer.Option(help="A file of impressions in JSON Lines, also .gz.")] = None,
    events: Annotated[
        Path | None, typer.Option(help="A file of searches and what people did later, in JSON Lines, also .gz.")
    ] = None,
    event_format: EventFormat = None,
    features: Annotated[
        int | None, typer.Option(help="With --clicks: number of features, if points are objects.", min=1)
    ] = None,
    max_errors: Annotated[
        int | None, typer.Option(help="With --clicks or --events: malformed lines to tolerate.", min=0)
    ] = None,
    metric: Annotated[Path | None, typer.Option(help="Write the map alone to this model file.")] = None,
    report: Annotated[Path | None, typer.Option(help="With --qrels: write a report to this .html file.")] = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="The random_state of the adapter.", min=0)] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a map of queries, for an index over frozen vectors that ranks by inner product.

    From judgments (--qrels), cross-validation over the queries decides how much of the learned map is used, if any, and
    measures what it gains. From clicks (--clicks), trust in the map grows with the impressions it ranks better than the
    inner product; a line is an impression as for `mahala stream --learner adapter`,
    `{"query": [1, 2], "shown": [[1, 3], [5, 0]], "clicked": [false, true], "query_id": 7}`.

    Events (--events) are searches and clicks apart, as `mahala serve`, OpenSearch UBI or Metarank log them. They are
    joined by the ids of searches, and learned from as clicks are. Vectors of queries are in the events, or in --queries
    with their texts or ids.

    The adapter continues to learn with `mahala stream --model FILE`, which after --clicks reads only the lines that the
    log has gained. `search` and `evaluate` take it as a model, as they take the map alone (--metric), which is
    smaller and does not learn. Files are written whole or not at all.

    Malformed lines are reported on stderr, counted and skipped; the exit code is then 3.

    Examples:

        mahala adapt --qrels qrels.tsv --queries queries.npy --items items.npy --output adapter.safetensors

        mahala adapt --clicks impressions.jsonl --items items.npy --output adapter.safetensors

        mahala adapt --events events.jsonl --format ubi --items items.npy --queries queries.npz --output a.safetensors
    """
    _check_options(
        {"qrels": qrels, "clicks": clicks, "events": events},
        {
            "queries": (queries, ("qrels", "events"), ("qrels",)),
            "items": (items, ("qrels", "clicks", "events"), ("qrels", "events")),
            "report": (report, ("qrels",), ()),
            "features": (features, ("clicks",), ()),
            "max-errors": (max_errors, ("clicks", "events"), ()),
            "format": (event_format, ("events",), ()),
        },
    )
    options = {"--output": output, "--metric": metric, "--report": report}
    paths = {option: path for option, path in options.items() if path is not None}
    for option, path in paths.items():
        suffixes = [".html"] if option == "--report" else []
        check_output(path, *suffixes, option=option, inputs=[queries, items, qrels, clicks, events], force=force)
    if len({os.path.realpath(path) for path in paths.values()}) < len(paths):
        raise ValueError(f"{' and '.join(paths)} must name different files")
    adapter = configured(mahala_search.QueryAdapter(), settings or [], seed)
    started = time.perf_counter()
    facts: dict[str, Any] = {}
    names: list[str] = []

    def learn(place: Path) -> None:
        if qrels is not None and queries is not None and items is not None:
            names.extend(_from_judgments(adapter, queries, items, qrels, facts))
            adapter.save(place)
        else:
            if clicks is not None:
                unused = _from_clicks(adapter, clicks, items, features, max_errors, place)
            elif events is not None and items is not None:
                unused = _from_events(adapter, events, event_format, items, queries, max_errors)
                adapter.save(place)
            counts = {"impressions": adapter.n_impressions_, "learned": adapter.n_learned_}
            facts.update(counts | {"ignored": adapter.n_ignored_} | unused)
        facts.update({"trust": adapter.trust_, "verdict": adapter.verdict_.as_dict()})

    writers: dict[Path, Callable[[Path], object]] = {output: learn}
    if metric is not None:
        writers[metric] = lambda place: adapter.metric_.save(place)
    if report is not None:
        writers[report] = lambda place: place.write_text(
            _page(adapter, names, str(queries), str(items), str(output)), encoding="utf-8", errors="backslashreplace"
        )
    write_files(writers)
    facts |= {"seconds": time.perf_counter() - started}
    facts |= {option.removeprefix("--"): None if path is None else str(path) for option, path in options.items()}
    show(facts, as_json, _parts)
    if facts.get("malformed"):
        raise typer.Exit(MALFORMED)


def _check_options(
    sources: dict[str, Path | None], options: dict[str, tuple[Any, Sequence[str], Sequence[str]]]
) -> None:
    """Raise ValueError unless there is one source, and the options that go with it, of which it needs some.

    An option is its value, the sources that it goes with, and those that need it.
    """
    named = [name for name, path in sources.items() if path is not None]
    if len(named) != 1:
        raise ValueError(
            "give one of --qrels (judgments, with --queries and --items), --clicks (impressions) and --events "
            "(searches and what people did, with --items)"
        )
    source = named[0]
    for name, (value, goes_with, needed_by) in options.items():
        if value is not None and source not in goes_with:
            others = " and ".join(f"--{other}" for other in goes_with)
            raise ValueError(f"--{name} goes with {others}, but --{source} is given: leave it out")
        if value is None and source in needed_by:
            raise ValueError(f"--{source} needs --{name} too: the vectors of the {name} that it names")


def _from_judgments(
    adapter: mahala_search.QueryAdapter, queries: Path, items: Path, qrels: Path, facts: dict[str, Any]
) -> Sequence[str]:
    """Fit the adapter, add what to tell of it to the facts, and return the ids of the queries."""
    query_vectors, rows, judgments, names = read_collection(queries, items, qrels)
    with mahala.show_progress() if sys.stderr.isatty() else nullcontext():
        adapter.fit(query_vectors, rows, judgments)
    values = adapter.cross_validation_
    gains = values.gains

    def named(places: Any) -> list[dict[str, Any]]:
        lines = ((names[values.query[at]], values.raw[at], values.learned[at]) for at in places)
        return [{"query": query, "raw": raw, "learned": learned} for query, raw, learned in lines]

    facts |= {
        "queries": len(values.query),
        "left_out": query_vectors.shape[0] - len(values.query),
        "items": rows.shape[0],
        "measure": f"nDCG@{adapter.k}",
        "means": {"raw": values.raw.mean(), "learned": values.learned.mean()},
        "changes": {"gain": (gains > 0.0).sum(), "lose": (gains < 0.0).sum(), "stay": (gains == 0.0).sum()},
        "losers": named(values.losers(_NAMED)),
        "winners": named(values.winners(_NAMED)),
    }
    return names


def _from_clicks(
    adapter: mahala_search.QueryAdapter,
    clicks: Path,
    items: Path | None,
    features: int | None,
    max_errors: int | None,
    place: Path,
) -> dict[str, int]:
    """Learn from a log and write the adapter with its position; return how many lines are malformed."""
    from mahala.stream import Malformed, Stream

    rows = None if items is None else read_items(items)
    # The file of a stream also has the position in the log, so that `mahala stream` resumes there.
    place.unlink(missing_ok=True)
    learning = Stream(place, adapter, items=rows, n_features=features or (None if rows is None else rows.shape[1]))
    malformed = 0
    with open_input(clicks) as file, task_bar("Learning", sys.stderr.isatty() and clicks.is_file()) as update:
        size = os.stat(clicks).st_size
        for number, result in enumerate(learning.learn(read_lines(file))):
            if isinstance(result, Malformed):
                malformed += 1
                report_malformed(result)
                if max_errors is not None and malformed > max_errors:
                    raise ValueError(f"{malformed} malformed lines, but --max-errors is {max_errors}: nothing written")
            if number % 100 == 0 and clicks.is_file():
                # The position in the file itself, also of a compressed one.
                update(os.lseek(file.fileno(), 0, os.SEEK_CUR) // 1024, f"KiB, {number:,} impressions", size // 1024)
    if not learning.save():
        raise ValueError(f"--clicks {clicks} has no impressions to learn from")
    return {"malformed": malformed}


def _from_events(
    adapter: mahala_search.QueryAdapter,
    events: Path,
    event_format: EventFormat,
    items: Path,
    queries: Path | None,
    max_errors: int | None,
) -> dict[str, int]:
    """Learn from the impressions of a file of events; return how many lines and events were not used."""
    from mahala_search.events.formats import read_events

    X, ids = read_with_ids(items)
    rows, vectors = {id: row for row, id in enumerate(ids)}, query_vectors(queries)
    with open_input(events) as file:
        read = read_events(read_lines(file), event_format)
    for shown, page in read.impressions(rows, vectors):
        query = shown.query
        x = X[rows[query["item"]]] if query.get("item") in rows else query.get("vector")
        if x is None:
            read.ignored["the query has no vector: give one by --queries, with its text or id as the id"] += 1
            continue
        clicked = X[[rows[item] for item in page.items]]
        try:
            adapter.learn_one(x, clicked, page.values, query_id=query.get("id"), user=page.user)
        except (TypeError, ValueError, OverflowError) as error:  # a vector of an event that is none
            read.ignored[f"the query cannot be used: {error}"] += 1
    report_events(read.malformed, read.ignored)
    if max_errors is not None and len(read.malformed) > max_errors:
        raise ValueError(f"{len(read.malformed)} malformed lines, but --max-errors is {max_errors}: nothing written")
    if not adapter.__sklearn_is_fitted__():
        raise ValueError(f"--events {events} has no impressions to learn from")
    return {"malformed": len(read.malformed), "events_ignored": read.ignored.total()}


def _page(adapter: mahala_search.QueryAdapter, names: Sequence[str], queries: str, items: str, output: str) -> str:
    from mahala_search.adapter.report import adaptation

    table, model = shlex.quote(items), shlex.quote(output)
    commands = [
        f"mahala search {table} --queries new.npy --model {model}",
        f"mahala evaluate --queries new.npy --items {table} --qrels new.tsv --model {model}",
        f"mahala stream --model {model} --input impressions.jsonl",
        f"import mahala\nadapter = mahala.load({output!r})\n"
        "vector = adapter.embed(query)  # to be sent to the index instead of the query",
    ]
    return adaptation(adapter, names, title=Path(queries).stem, commands=commands, measured=provenance("adapt"))


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
    lines.append(("took", f"{facts['seconds']:.1f} s"))
    files = {"adapter": facts["output"], "metric": facts["metric"], "report": facts["report"]}
    lines += [(title, None if path is None else escape(path)) for title, path in files.items()]
    yield fact_grid(lines)
    for name, title in (("losers", "Queries that lose the most"), ("winners", "Queries that gain the most")):
        if facts.get(name):
            yield f"\n[bold]{title}[/bold]"
            result = table(["query", "plain", "learned", "gain"], ["query"])
            for line in facts[name]:
                numbers = f"{line['raw']:.3f}", f"{line['learned']:.3f}", f"{line['learned'] - line['raw']:+.3f}"
                result.add_row(escape(line["query"]), *numbers)
            yield result
