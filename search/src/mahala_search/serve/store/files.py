"""Files: items to be served, their images, and a collection as its log in JSON Lines with its rows."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mahala.data import read_vectors
from mahala.extend import json_lines, read_frame, whole_file
from mahala_search.adapter.trust.signals import check_signals
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.database import Unknown
from mahala_search.serve.store.rows import Collection, LogEntry, NewItem, check_vector

IMAGE_TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif",
}  # fmt: skip
# The other fields of a line, which `mahala stream` passes on.
_MORE = ("query_id", "user", "kind", "at", "version", "key", "signals")
# Lines that are written to the log in one transaction.
_BLOCK = 500


def read_items(
    files: Sequence[Path], *, vectors: str | None = None, text: str | None = None, id: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the items of a .parquet file, of an .npy and a .jsonl file with their payloads, or of a folder of images.

    Parameters
    ----------
    vectors : column of the vectors of a Parquet file; for images, the .npy file with a row for each, by their names
    text : column or field that is shown as the title
    id : column or field of the ids; without one, row numbers
    """
    suffixes = [path.suffix.lower() for path in files]
    if len(files) == 1 and files[0].is_dir():
        X, ids, payloads = _images(files[0], vectors)
    elif suffixes == [".parquet"]:
        X, ids = read_vectors(files[0], vector=vectors, id=id)
        payloads = _rows(files[0])
    elif sorted(suffixes) == [".jsonl", ".npy"]:
        if vectors is not None:
            raise ValueError("--vectors names a column of a .parquet file, but the vectors are an .npy file: omit it")
        lines, array = (next(path for path in files if path.suffix.lower() == suffix) for suffix in (".jsonl", ".npy"))
        X, _ = read_vectors(array)
        payloads = []
        for number, payload in json_lines(str(lines)):
            if not isinstance(payload, dict):
                raise ValueError(f"{lines}: line {number} must be an object {{...}}")
            payloads.append(payload)
        key = id or "id"
        ids = np.array([str(one.get(key, row)) for row, one in enumerate(payloads)], dtype=object)
        if len(payloads) != len(X):
            raise ValueError(
                f"{lines} must have a line for each of the {len(X):,} rows of {array}, got {len(payloads):,}"
            )
    else:
        what = " and ".join(map(str, files)) or "nothing"
        raise ValueError(f"items must be a .parquet file, an .npy and a .jsonl file, or a folder of images, got {what}")
    if text is not None and payloads and text not in payloads[0]:
        raise ValueError(f"--text names {text!r}, but the items have {', '.join(payloads[0]) or 'no such fields'}")
    for row, (vector, payload) in enumerate(zip(X, payloads, strict=True)):
        shown = {} if text is None else {"title": str(payload.get(text, ""))}
        shown |= {name: value for name, value in payload.items() if value is not None}
        yield {"id": str(row if ids is None else ids[row]), "vector": vector, "payload": shown}


def _images(folder: Path, vectors: str | None) -> tuple[Any, Any, list[dict[str, Any]]]:
    names = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in IMAGE_TYPES and path.is_file())
    if vectors is None:
        raise ValueError(f"{folder} has images: --vectors must name the .npy file with their vectors")
    X, _ = read_vectors(Path(vectors))
    if len(X) != len(names):
        raise ValueError(f"{vectors} must have a row for each of the {len(names):,} images of {folder}, got {len(X):,}")
    return X, np.array(names, dtype=object), [{"image": name} for name in names]


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file without their vectors, as JSON."""
    frame = read_frame(str(path), ".parquet").data
    columns = [name for name in frame.columns if not str(frame[name].dtype).startswith(("List", "Array"))]
    return [{name: _plain(value) for name, value in row.items()} for row in frame.select(columns).to_dicts()]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def collection_name(path: Path) -> str:
    """Return a name of a collection for a file.

    >>> collection_name(Path("My Films (2024).parquet"))
    'my-films-2024'
    """
    return re.sub(r"[^a-z0-9_]+", "-", path.stem.lower()).strip("-_")[:64] or "items"


def image_file(folder: Path | None, file: str) -> tuple[Path, str]:
    """Return the path of an image in a folder, and its media type.

    Unknown is raised for all that is not an image inside of the folder, whatever `..` and links lead to.
    """
    if folder is not None and "\x00" not in file:
        root = folder.resolve()
        path = (root / file).resolve()
        media_type = IMAGE_TYPES.get(path.suffix.lower())
        # isfile is false for names that are too long, too
        if media_type is not None and path.is_relative_to(root) and os.path.isfile(path):
            return path, media_type
    raise Unknown(f"there is no image {file[:64]!r}")


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
    # A row that is changed meanwhile comes twice: the last one counts.
    latest = {row[0]: row for block in store.changed_blocks(name, 0) for row in zip(*block, strict=True)}
    rows = [latest[number] for number in sorted(latest)]
    vectors, n = [vector for _, _, vector, *_ in rows], 0
    with whole_file(folder / "log.jsonl") as path, open(path, "w", encoding="utf-8") as file:
        for n, line in enumerate(log_lines(store, name), start=1):  # noqa: B007
            file.write(line)
    with whole_file(folder / "items.npy") as path, open(path, "wb") as binary:
        np.save(binary, np.array(vectors, dtype=np.float32).reshape(len(rows), width))
    with whole_file(folder / "items.jsonl") as path, open(path, "w", encoding="utf-8") as file:
        for _, id, _, payload, live, _ in rows:
            file.write(json.dumps({"id": id, "payload": payload, "live": live}) + "\n")
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
        entry = json.loads(line)
        query, shown = entry["query"], [int(row) for row in entry["shown"]]
        fields: dict[str, Any] = {key: entry[key] for key in _MORE if key in entry and key != "kind"}
        if isinstance(query, list):
            fields["vector"] = check_vector(query, collection.width, "query")
        else:
            fields["query"] = int(query)
        if not all(0 <= row < collection.n_rows for row in [*shown, fields.get("query", 0)]):
            raise ValueError(f"rows must be among the {collection.n_rows} rows of {collection.name!r}")
        clicked = [float(value) for value in entry["clicked"]]
        if "signals" in fields:
            check_signals(fields["signals"], len(shown))
        if len(clicked) != len(shown) or not np.isfinite(clicked).all():
            raise ValueError("clicked must have a finite number for each item shown")
        return LogEntry(entry.get("kind", "impression"), shown, clicked, **fields)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"line {number} is not one of an exported log: {error}") from None
