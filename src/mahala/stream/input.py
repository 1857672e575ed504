"""The input of a stream: its lines, and the position in it."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from mahala.support.parameters import ParameterError

# Bytes read at a time: enough to empty a pipe, and few enough to react to a signal soon.
BLOCK = 2**16
# Bytes of the longest line that is accepted by default.
LONGEST = 2**24


class Blocks(Protocol):
    """A binary file, or what reads like one."""

    def read1(self, size: int, /) -> bytes:
        """Return at most `size` available bytes; block only if there are none."""


class LongLine(bytes):
    """Stands for a line that is too long to hold."""

    length: int
    digest: bytes


def read_lines(file: Blocks, longest: int = LONGEST) -> Iterator[bytes]:
    """Yield the lines of a binary file with their newlines, each as soon as it is available.

    A line of more than `longest` bytes is not held: a `LongLine` stands for it, which `Stream` reports as malformed.

    >>> import io
    >>> list(read_lines(io.BytesIO(b"1\\n\\r2")))
    [b'1\\n', b'\\r2']
    """
    held, length, digest = bytearray(), 0, hashlib.sha256()  # of the line whose end was not read yet

    def line(end: bytes) -> bytes:
        if length <= longest:
            return bytes(held) + end
        long = LongLine(b"a line of %d bytes" % length + end)
        long.length, long.digest = length, digest.digest()
        return long

    try:
        while block := file.read1(BLOCK):
            parts = block.split(b"\n")
            for number, part in enumerate(parts, start=1):
                has_end = number < len(parts)
                if has_end and length == 0 and len(part) <= longest:  # nearly always
                    yield part + b"\n"
                    continue
                held += part
                length += len(part)
                if length > longest:
                    digest.update(held)
                    held.clear()
                if has_end:
                    yield line(b"\n")
                    held, length, digest = bytearray(), 0, hashlib.sha256()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"the input is not a complete gzip file: {error}") from error
    if length:
        yield line(b"")


@dataclass(frozen=True)
class Position:
    """The number of lines read of an input, and a digest by which they are recognised."""

    lines: int = 0
    digest: str = ""


class Progress:
    """The position while lines are read."""

    def __init__(self) -> None:
        self.lines = 0
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Move past a line; its newline does not count, because the last line may get it later."""
        content = line.digest if isinstance(line, LongLine) else hashlib.sha256(line.rstrip(b"\r\n")).digest()
        self._digest.update(content)
        self.lines += 1

    def position(self) -> Position:
        return Position(self.lines, self._digest.hexdigest())


def skip_read(lines: Iterator[bytes], read: Position, path: str) -> Progress:
    """Skip the lines of an input that were read before; raise ParameterError if they are not those that were read."""
    progress = Progress()
    for line in islice(lines, read.lines):
        progress.add(line)
    if progress.lines < read.lines:
        problem = f"the input ends after {progress.lines:,} lines, but {path} has read {read.lines:,}"
    elif read.lines and progress.position() != read:
        problem = f"the input differs from the one of which {path} has read {read.lines:,} lines"
    else:
        return progress
    advice = "give that one with all its lines, or pass new_input=True to read this one from its first line"
    raise ParameterError(f"{problem}: {advice}", "new_input")
