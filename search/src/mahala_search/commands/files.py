"""The files of searches that commands are given, as options, and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import mahala_search
from mahala import data

if TYPE_CHECKING:
    from mahala_search.quality.judgments import Judgments


Queries = Annotated[Path, typer.Option(help="Vectors of queries: .npy, .npz or .parquet, with or without ids.")]
Items = Annotated[Path, typer.Option(help="Vectors of items, as for --queries.")]
Qrels = Annotated[
    Path, typer.Option(help="Relevance judgments, BEIR's .tsv or TREC's; without ids, row numbers from 0.")
]


def read_collection(queries: Path, items: Path, qrels: Path) -> tuple[Any, Any, Judgments, list[str]]:
    """Read the vectors of queries and items, the judgments, and the ids of the queries.

    The ids of a file without ids are row numbers.
    """
    records = mahala_search.read_qrels(qrels)
    (query_vectors, query_ids), (rows, item_ids) = map(_read_with_ids, (queries, items))
    return query_vectors, rows, mahala_search.Judgments.from_ids(records, query_ids, item_ids), query_ids


def _read_with_ids(path: Path) -> tuple[Any, list[str]]:
    """Return the vectors of a file and their ids as text, row numbers if there are none."""
    rows, ids = data.read_vectors(path)
    return rows, [str(name) for name in (range(rows.shape[0]) if ids is None else ids.tolist())]
