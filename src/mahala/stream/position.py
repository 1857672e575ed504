"""The position in an input, and digests by which the input and the items that it refers to are recognised."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mahala.stream.lines import content
from mahala.support.model_files import ModelFileError, count_value, header_value
from mahala.support.validation import is_sparse

# Number of lines by which an input is recognised.
HEAD = 100
# Rows, and bytes of them, by which items are recognised.
_SAMPLED_ROWS, _SAMPLED_BYTES = 256, 2**24


@dataclass(frozen=True)
class Position:
    """Position in an input, with digests by which the input is recognised.

    `digest` is the digest of all lines read; `head` holds the digest up to each of the first hundred lines, so that
    the first different line of another input is known, and `marks` the digest of each of these lines alone. `ended`
    tells whether the end of the input was reached.
    """

    lines: int = 0
    digest: str = ""
    head: list[str] = field(default_factory=list)
    ended: bool = False
    marks: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, header: dict[str, Any]) -> Position:
        """Read the position from the header of a model file."""
        head: list[str] = header_value(header, "head", list)
        self = cls(
            lines=count_value(header, "lines"),
            digest=header_value(header, "digest", str),
            head=head,
            ended=header_value(header, "ended", bool),
            marks=header_value(header, "marks", list) if "marks" in header else [],
        )
        if len(head) != min(self.lines, HEAD):
            raise ModelFileError(f"header entry 'head' should have {min(self.lines, HEAD)} digests, found {len(head)}")
        return self


class Progress:
    """The position while lines are read."""

    def __init__(self) -> None:
        self.lines = 0
        self.head: list[str] = []
        self.marks: list[str] = []
        self.ended = False
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        self._digest.update(content(line) + b"\n")
        self.lines += 1
        if self.lines <= HEAD:
            self.head.append(self._digest.hexdigest())
            self.marks.append(mark(line))

    def position(self) -> Position:
        return Position(self.lines, self._digest.hexdigest(), list(self.head), self.ended, list(self.marks))


def mark(line: bytes) -> str:
    """Return a digest by which a line is recognised."""
    return hashlib.sha256(content(line)).hexdigest()[:16]


def digest_of_rows(items: Any, n_rows: int) -> str:
    """Return a digest of some of the first `n_rows` rows, the same ones for the same number."""
    digest = hashlib.sha256(f"{items.dtype.str} {items.shape[1]}".encode())
    most = max(1, min(_SAMPLED_ROWS, _SAMPLED_BYTES // max(1, items.shape[1] * items.dtype.itemsize)))
    for row in np.unique(np.linspace(0, n_rows - 1, most).astype(np.intp)) if n_rows else ():
        part = items[[row]]
        for array in (part.indices.astype(np.int64), part.data) if is_sparse(items) else (np.ascontiguousarray(part),):
            digest.update(array.tobytes())
    return digest.hexdigest()
