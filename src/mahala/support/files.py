"""Write files that are complete or absent."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file, with the suffix of `path`, that replaces `path` when the block ends.

    If the block raises, or the file cannot be flushed to the disk, `path` stays as it was and the temporary file is
    removed. If `path` is a symbolic link, the file it points to is replaced.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f"{target.stem}.{secrets.token_hex(8)}.tmp{target.suffix}")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
