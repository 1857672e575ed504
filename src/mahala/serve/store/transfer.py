"""A collection as files: its log in JSON Lines, and its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mahala.serve.store.collection_store import Store
from mahala.serve.store.rows import Collection, LogEntry, NewItem, check_vector
from mahala.support.files import whole_file

# The other fields of a line, which `mahala stream` passes on.
_MORE = ("query_id", "user", "kind", "at", "version", "key")
# Lines that are written to the log in one transaction.
_BLOCK = 500


def log_lines(store: Store, name: str) -> Iterator[str]:
    """Yield the log as lines that `mahala stream --learner adapter` reads; numbers are rows of `items.npy`."""
    for entry in store.read_log(name):
        query = entry.query if entry.vector is None else entry.vector.tolist()
        line: dict[str, Any] = {"query": query, "shown": list(entry.shown), "clicked": list(entry.clicked)}
        yield json.dumps(line | {key: value for key in _MORE if (value := getattr(entry, key)) is not None}) + "\n"


def export(store: Store, name: str, folder: Path) -> int:
    """Write the log, the rows and the items of a collection to a folder; return the number of entries of the log.

    The files are log.jsonl, items.npy with all rows that the log names, and items.jsonl with their ids and payloads.
    """
    width = store.collection(name).width
    folder.mkdir(parents=True, exist_ok=True)
    rows = sorted(store.changed_items(name, 0))
    n = 0
    with whole_file(folder / "log.jsonl") as path, open(path, "w", encoding="utf-8") as file:
        for n, line in enumerate(log_lines(store, name), start=1):  # noqa: B007
            file.write(line)
    with whole_file(folder / "items.npy") as path, open(path, "wb") as binary:
        np.save(binary, np.array([item.vector for item in rows], dtype=np.float32).reshape(len(rows), width))
    with whole_file(folder / "items.jsonl") as path, open(path, "w", encoding="utf-8") as file:
        for item in rows:
            file.write(json.dumps({"id": item.id, "payload": item.payload, "live": item.live}) + "\n")
    return n


def restore(store: Store, name: str, folder: Path) -> int:
    """Make a collection from a folder that `export` wrote: it has the same rows, and learns the same models."""
    vectors = np.load(folder / "items.npy", allow_pickle=False)
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text(encoding="utf-8").splitlines()]
    if len(items) != len(vectors):
        raise ValueError(f"{folder}: items.jsonl must have a line for each of the {len(vectors)} rows of items.npy")
    store.create(name, width=vectors.shape[1], settings={})
    # Rows of one id follow each other in separate calls, so that each gets the number that it had.
    block: dict[str, NewItem] = {}
    for item, vector in zip(items, vectors, strict=True):
        if item["id"] in block:
            store.put_items(name, list(block.values()))
            block = {}
        block[item["id"]] = NewItem(item["id"], check_vector(vector, vectors.shape[1], "items.npy"), item["payload"])
    store.put_items(name, list(block.values()))
    live = {item["id"] for item in items if item["live"]}
    store.delete_items(name, sorted({item["id"] for item in items} - live))
    with open(folder / "log.jsonl", encoding="utf-8") as file:
        return import_log(store, name, file)


def import_log(store: Store, name: str, lines: Iterable[str]) -> int:
    """Append the lines of an exported log to that of a collection with the same rows; return how many."""
    collection, n = store.collection(name), 0
    entries = (_entry(line, number, collection) for number, line in enumerate(lines, start=1))
    while block := list(islice(entries, _BLOCK)):
        n += len(store.append(name, block))
    return n


def _entry(line: str, number: int, collection: Collection) -> LogEntry:
    try:
        given = json.loads(line)
        query, shown = given["query"], [int(row) for row in given["shown"]]
        fields: dict[str, Any] = {key: given[key] for key in _MORE if key in given and key != "kind"}
        if isinstance(query, list):
            fields["vector"] = check_vector(query, collection.width, "query")
        else:
            fields["query"] = int(query)
        if not all(0 <= row < collection.n_rows for row in [*shown, fields.get("query", 0)]):
            raise ValueError(f"rows must be among the {collection.n_rows} rows of {collection.name!r}")
        clicked = [float(value) for value in given["clicked"]]
        if len(clicked) != len(shown) or not np.isfinite(clicked).all():
            raise ValueError("clicked must have a finite number for each item shown")
        return LogEntry(given.get("kind", "impression"), shown, clicked, **fields)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"line {number} is not one of an exported log: {error}") from None
