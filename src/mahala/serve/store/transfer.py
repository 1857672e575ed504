"""A collection as files: its log in JSON Lines, and its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mahala.serve.service import Service
from mahala.serve.store.checks import check_vector
from mahala.serve.store.records import Entry, NewItem
from mahala.support.files import whole_file

# The other entries of a line, which `mahala stream` takes along.
_MORE = ("query_id", "user", "kind", "at", "version", "key")


def log_lines(service: Service, name: str) -> Iterator[str]:
    """Yield the log as lines that `mahala stream --learner adapter` reads; numbers are rows of `items.npy`."""
    service.served(name)
    for entry in service.store.read_log(name):
        query = entry.query if entry.vector is None else entry.vector.tolist()
        line: dict[str, Any] = {"query": query, "shown": list(entry.shown), "clicked": list(entry.clicked)}
        yield json.dumps(line | {key: value for key in _MORE if (value := getattr(entry, key)) is not None}) + "\n"


def export(service: Service, name: str, folder: Path) -> int:
    """Write the log, the rows and the items of a collection to a folder; return the number of entries of the log.

    The files are log.jsonl, items.npy with all rows that the log names, and items.jsonl with their ids and payloads.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = sorted(service.store.changed_items(name, 0))
    n = 0
    with whole_file(folder / "log.jsonl") as path, open(path, "w", encoding="utf-8") as file:
        for n, line in enumerate(log_lines(service, name), start=1):  # noqa: B007
            file.write(line)
    with whole_file(folder / "items.npy") as path, open(path, "wb") as binary:
        width = service.served(name).collection.width
        np.save(binary, np.array([item.vector for item in rows], dtype=np.float32).reshape(len(rows), width))
    with whole_file(folder / "items.jsonl") as path, open(path, "w", encoding="utf-8") as file:
        for item in rows:
            file.write(json.dumps({"id": item.id, "payload": item.payload, "live": item.live}) + "\n")
    return n


def restore(service: Service, name: str, folder: Path) -> int:
    """Make a collection from a folder that `export` wrote: it has the same rows, and learns the same models."""
    vectors = np.load(folder / "items.npy", allow_pickle=False)
    told = [json.loads(line) for line in (folder / "items.jsonl").read_text(encoding="utf-8").splitlines()]
    if len(told) != len(vectors):
        raise ValueError(f"{folder}: items.jsonl must have a line for each of the {len(vectors)} rows of items.npy")
    service.create(name, width=vectors.shape[1])
    # Rows of one id follow each other in separate calls, so that each gets the number that it had.
    block: dict[str, NewItem] = {}
    for item, vector in zip(told, vectors, strict=True):
        if item["id"] in block:
            service.store.put_items(name, list(block.values()))
            block = {}
        block[item["id"]] = NewItem(item["id"], check_vector(vector, vectors.shape[1], "items.npy"), item["payload"])
    service.store.put_items(name, list(block.values()))
    live = {item["id"] for item in told if item["live"]}
    service.store.delete_items(name, sorted({item["id"] for item in told} - live))
    service.refresh()
    with open(folder / "log.jsonl", encoding="utf-8") as file:
        return import_log(service, name, file)


def import_log(service: Service, name: str, lines: Iterable[str], block: int = 500) -> int:
    """Append the lines of an exported log to that of a collection with the same rows; return how many."""
    n, waiting = 0, []
    for number, line in enumerate(lines, start=1):
        waiting.append(_entry(service, name, line, number))
        if len(waiting) == block:
            n += len(service.append(name, waiting).result())
            waiting = []
    return n + (len(service.append(name, waiting).result()) if waiting else 0)


def _entry(service: Service, name: str, line: str, number: int) -> Entry:
    width = service.served(name).collection.width
    try:
        given = json.loads(line)
        query, shown = given["query"], [int(row) for row in given["shown"]]
        own: dict[str, Any] = {"query": query}
        if isinstance(query, list):
            own = {"vector": check_vector(query, width, "query")}
        service.vectors(name, shown if "vector" in own else [*shown, int(query)])
        clicked = [float(value) for value in given["clicked"]]
        if len(clicked) != len(shown) or not np.isfinite(clicked).all():
            raise ValueError("clicked must have a finite number for each item shown")
        own |= {key: given[key] for key in _MORE if key in given and key != "kind"}
        return Entry(given.get("kind", "impression"), shown, clicked, **own)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"line {number} is not one of an exported log: {error}") from None
