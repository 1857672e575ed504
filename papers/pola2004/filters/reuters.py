"""Reuters-21578: documents with their topics."""

from __future__ import annotations

import gzip
import json
import os
from typing import NamedTuple

from mahala.data.datasets import data_folder


class Document(NamedTuple):
    """A text and its topics, of which there may be none or several."""

    text: str
    topics: frozenset[str]


def load_reuters(folder: str | os.PathLike[str] | None = None, split: str = "train") -> list[Document]:
    """Load the "train" or "test" documents of Reuters-21578 (ModApte split) in chronological order.

    They are read from `reuters21578.jsonl.gz` in the folder (default: MAHALA_DATA), which holds one JSON object per
    line with id, split, title, body and topics. The text of a document is its title and its body.
    """
    place = data_folder(folder)
    path = None if place is None else place / "reuters21578.jsonl.gz"
    if path is None or not path.exists():
        where = "MAHALA_DATA is not set" if path is None else f"there is no file {path}"
        raise FileNotFoundError(f"Reuters-21578 must be the file reuters21578.jsonl.gz of the data folder: {where}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = [record for record in map(json.loads, file) if record["split"] == split]
    if not records:
        raise ValueError(f"split must be one of those in {path}, 'train' or 'test', got {split!r}")
    # The ids are in the order of publication.
    records.sort(key=lambda record: int(record["id"]))
    return [Document(f"{record['title']} {record['body']}", frozenset(record["topics"])) for record in records]
