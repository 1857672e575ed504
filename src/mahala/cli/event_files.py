"""Files of events, which `mahala serve import` and `mahala adapt` read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import mahala
from mahala.cli.output import say
from mahala.cli.tables import open_input, read_with_ids
from mahala.stream.input import read_lines

if TYPE_CHECKING:
    from mahala.data.event_files import Format

# Malformed lines and reasons to ignore events that are printed.
_LINES, _REASONS = 20, 10
EventFormat = Annotated[
    Literal["mahala", "ubi", "metarank"] | None,
    typer.Option("--format", help="Of events: mahala, ubi or metarank; by default, their fields tell."),
]


def query_vectors(path: Path | None) -> dict[str, Any]:
    """Return the vectors of a file by their ids, which are texts or ids of queries; none without a file."""
    if path is None:
        return {}
    rows, ids = read_with_ids(path)
    return dict(zip(ids, rows, strict=True))


def report_events(malformed: Sequence[tuple[int, str]], ignored: Counter[str]) -> None:
    """Print malformed lines, and how many events are ignored for which reasons."""
    for number, problem in malformed[:_LINES]:
        say(f"line {number}: {problem}", err=True)
    if len(malformed) > _LINES:
        say(f"{len(malformed):,} lines are malformed", err=True)
    for reason, n in ignored.most_common(_REASONS):
        say(f"{n:,} ignored: {reason}", err=True)


def learn_events(
    adapter: mahala.QueryAdapter,
    events: Path,
    event_format: Format | None,
    items: Path,
    queries: Path | None,
    max_errors: int | None,
) -> dict[str, int]:
    """Learn from the impressions of a file of events; return how many lines and events were not used."""
    from mahala.data.event_files import read_events

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
