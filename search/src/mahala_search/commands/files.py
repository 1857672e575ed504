"""Read the files of searches that commands are given, and report what was not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import mahala_search
from mahala import data
from mahala.extend.commands import say

if TYPE_CHECKING:
    from mahala_search.quality.judgments import Judgments

EventFormat = Annotated[
    Literal["mahala", "ubi", "metarank"] | None,
    typer.Option("--format", help="Of events: mahala, ubi or metarank; by default, their fields tell."),
]
# The exit code if some lines were malformed.
MALFORMED = 3
# Malformed lines and reasons to ignore events that are printed.
_LINES, _REASONS = 20, 10


def read_collection(queries: Path, items: Path, qrels: Path) -> tuple[Any, Any, Judgments, list[str]]:
    """Read the vectors of queries and items, the judgments, and the ids of the queries.

    The ids of a file without ids are row numbers.
    """
    records = mahala_search.read_qrels(qrels)
    (query_vectors, query_ids), (rows, item_ids) = map(read_with_ids, (queries, items))
    return query_vectors, rows, mahala_search.Judgments.from_ids(records, query_ids, item_ids), query_ids


def read_with_ids(path: Path) -> tuple[Any, list[str]]:
    """Return the vectors of a file and their ids as text, row numbers if there are none."""
    rows, ids = data.read_vectors(path)
    return rows, [str(name) for name in (range(rows.shape[0]) if ids is None else ids.tolist())]


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
