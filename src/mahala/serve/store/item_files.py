"""Items from files: a Parquet file with a column of vectors, vectors and lines of JSON, or vectors and images."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mahala.data.frames import read_frame
from mahala.data.search_files import read_vectors
from mahala.serve.store.database import Unknown

IMAGE_TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif",
}  # fmt: skip


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
        payloads = list(_lines(lines))
        key = id or "id"
        ids = np.array([str(one.get(key, row)) for row, one in enumerate(payloads)], dtype=object)
        if len(payloads) != len(X):
            raise ValueError(
                f"{lines} must have a line for each of the {len(X):,} rows of {array}, got {len(payloads):,}"
            )
    else:
        given = " and ".join(map(str, files)) or "nothing"
        raise ValueError(
            f"items must be a .parquet file, an .npy and a .jsonl file, or a folder of images, got {given}"
        )
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
    kept = [name for name in frame.columns if not str(frame[name].dtype).startswith(("List", "Array"))]
    return [{name: _plain(value) for name, value in row.items()} for row in frame.select(kept).to_dicts()]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                given = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}: line {number} is not JSON: {error}") from None
            if not isinstance(given, dict):
                raise ValueError(f"{path}: line {number} must be an object {{...}}")
            yield given


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
