"""The lines of a binary file, each as soon as it is available, and of the longest ones the digest."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

# Bytes read at a time: enough to empty a pipe, and few enough to react to a signal soon.
BLOCK = 2**16
# Bytes of the longest line that is accepted by default. Of a longer one, the position covers the digest.
LONGEST = 2**24


class Readable(Protocol):
    """A binary file with read1, which returns at most `size` available bytes and blocks only if there are none."""

    def read1(self, size: int, /) -> bytes: ...


class LongLine(bytes):
    """What is kept of a line that is too long to hold: its length and digest."""

    @classmethod
    def of(cls, length: int, digest: Any, end: bytes) -> LongLine:
        return cls(f"{length} {digest.hexdigest()}".encode() + end)


def read_lines(file: Readable, longest: int = LONGEST) -> Iterator[bytes]:
    """Yield the lines of a file with their newlines, each as soon as it is available.

    Of a line of more than `longest` bytes, only length and digest are kept; `Stream` reports it as malformed.

    >>> import io
    >>> list(read_lines(io.BytesIO(b"1\\n\\r2")))
    [b'1\\n', b'\\r2']
    """
    line = _Line(longest)
    while block := _read_block(file):
        *whole, last = block.split(b"\n")
        for end in whole:
            if line.length == 0 and len(end) <= longest:  # nearly always
                yield end + b"\n"
                continue
            line.add(end)
            yield line.ended(b"\n")
            line = _Line(longest)
        line.add(last)
    if line.length:
        yield line.ended(b"")


class _Line:
    """A line while its parts are read, of which not more than `longest` bytes are held."""

    def __init__(self, longest: int) -> None:
        self.length = 0
        self._longest = longest
        self._parts: list[bytes] = []
        self._digest = hashlib.sha256()

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self.length += len(part)
        if self.length > self._longest:
            for held in self._parts:
                self._digest.update(held)
            self._parts.clear()

    def ended(self, end: bytes) -> bytes:
        if self.length > self._longest:
            return LongLine.of(self.length, self._digest, end)
        return b"".join([*self._parts, end])


def _read_block(file: Readable) -> bytes:
    try:
        return file.read1(BLOCK)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"the input is not a complete gzip file: {error}") from error


def content(line: bytes) -> bytes:
    """Return what the position covers: the line without its newline, which the last line may get later."""
    whole = line.removesuffix(b"\n")
    if len(whole) > LONGEST:  # as if it had not been held
        whole = LongLine.of(len(whole), hashlib.sha256(whole), b"")
    return whole.rstrip(b"\r\n")
