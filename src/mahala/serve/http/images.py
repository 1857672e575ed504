"""Images of items, from the one folder that was named at the start."""

from __future__ import annotations

import os
from pathlib import Path

from mahala.serve.service import Unknown

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif"}


def image_names(folder: Path) -> list[str]:
    """Return the names of the images in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir() if path.suffix.lower() in TYPES and path.is_file())


def image_file(folder: Path | None, file: str) -> tuple[Path, int, None, str]:
    """Return the path of an image in a folder, with the status, headers and type of the answer.

    Unknown is raised for all that is not an image inside of the folder, whatever `..` and links lead to.
    """
    if folder is not None and "\x00" not in file:
        root = folder.resolve()
        path = (root / file).resolve()
        kind = TYPES.get(path.suffix.lower())
        if (
            kind is not None and path.is_relative_to(root) and os.path.isfile(path)
        ):  # false for names that are too long, too
            return path, 200, None, kind
    raise Unknown(f"there is no image {file[:64]!r}")
