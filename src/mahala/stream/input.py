"""The input of a stream: its lines, the position in it, and which of its lines are new."""

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from mahala.support.model_files import ModelFileError, count_value, header_value
from mahala.support.parameters import ParameterError

# Bytes read at a time: enough to empty a pipe, and few enough to react to a signal soon.
BLOCK = 2**16
# Bytes of the longest line that is accepted by default. Of a longer one, the position covers the digest.
LONGEST = 2**24
# Number of lines by which an input is recognised.
HEAD = 100
# Lines of another input, after one that was read to its end, that are not saved before more are read.
UNSAVED = 8


class LongLine(bytes):
    """What is kept of a line that is too long to hold: its length and digest."""

    @classmethod
    def of(cls, length: int, digest: Any, end: bytes) -> Self:
        return cls(f"{length} {digest.hexdigest()}".encode() + end)


def read_lines(file: Any, longest: int = LONGEST) -> Iterator[bytes]:
    """Yield the lines of a binary file with their newlines, each as soon as it is available.

    Its `read1` returns at most as many available bytes as it is asked for, and blocks only if there are none.

    Of a line of more than `longest` bytes, only length and digest are kept; `Stream` reports it as malformed.

    >>> import io
    >>> list(read_lines(io.BytesIO(b"1\\n\\r2")))
    [b'1\\n', b'\\r2']
    """
    held, length, digest = bytearray(), 0, hashlib.sha256()  # of the line whose end was not read yet
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
                    yield LongLine.of(length, digest, b"\n") if length > longest else bytes(held) + b"\n"
                    held, length, digest = bytearray(), 0, hashlib.sha256()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"the input is not a complete gzip file: {error}") from error
    if length:
        yield LongLine.of(length, digest, b"") if length > longest else bytes(held)


def _content(line: bytes) -> bytes:
    """Return what the position covers: the line without its newline, which the last line may get later."""
    whole = line.removesuffix(b"\n")
    if len(whole) > LONGEST:  # as if it had not been held
        whole = LongLine.of(len(whole), hashlib.sha256(whole), b"")
    return whole.rstrip(b"\r\n")


def _mark(line: bytes) -> str:
    """Return a digest by which a line is recognised."""
    return hashlib.sha256(_content(line)).hexdigest()[:16]


@dataclass
class Position:
    """Position in an input, with digests by which the input is recognised.

    `digest` is the digest of all lines read, and `marks` holds that of each of the first hundred lines, so that the
    first different line of another input is known. `ended` tells whether the end of the input was reached.
    """

    lines: int = 0
    digest: str = ""
    marks: list[str] = field(default_factory=list)
    ended: bool = False

    @classmethod
    def of(cls, header: dict[str, Any]) -> Self:
        """Read the position from the header of a model file."""
        lines, marks = count_value(header, "lines"), header_value(header, "marks", list)
        if len(marks) != min(lines, HEAD):
            raise ModelFileError(f"header entry 'marks' should have {min(lines, HEAD)} digests, got {len(marks)}")
        return cls(lines, header_value(header, "digest", str), marks, header_value(header, "ended", bool))


class Progress(Position):
    """The position while lines are read."""

    def __init__(self) -> None:
        super().__init__()
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        self._digest.update(_content(line) + b"\n")
        self.lines += 1
        if self.lines <= HEAD:
            self.marks.append(_mark(line))

    def position(self) -> Position:
        return Position(self.lines, self._digest.hexdigest(), list(self.marks), self.ended)


class Input:
    """Find the lines of an input that are new: those after the saved position, or all if it is another input."""

    def __init__(self, path: str, saved: Position) -> None:
        self.progress = Progress()  # the position so far
        self.skipped = 0  # lines at the start that had been learned from before
        self.is_known = False  # whether the saved position is one in this input
        self.began_anew = False  # whether this is a new input, after another one was read to its end
        self.is_undecided = False  # whether the next lines may show that a new input is the saved one, edited
        self._saved, self._path = saved, path

    def unread(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Return the new lines; raise ValueError if the input is neither the saved one nor another one."""
        saved, progress = self._saved, Progress()
        if saved.lines == 0:
            return lines
        first: list[bytes] = []
        for line in lines:
            progress.add(line)
            if progress.lines <= HEAD:
                first.append(line)
                if progress.marks[-1] != saved.marks[progress.lines - 1]:
                    if not saved.ended:
                        raise self._refused(
                            f"the input differs in line {progress.lines} from the one that was read up to line "
                            f"{saved.lines}, but not to its end; continue with that one"
                        )
                    return self._other(first, lines)
            if progress.lines == saved.lines:
                if progress.position().digest != saved.digest:
                    raise self._refused(
                        f"the input was changed before line {saved.lines}, up to which it has been read; give the "
                        "original"
                    )
                self.progress, self.skipped, self.is_known = progress, saved.lines, True
                return lines
        if progress.lines or not saved.ended:
            raise self._refused(
                f"the input ends after {progress.lines} lines, but it had been read up to line {saved.lines}; "
                "give all of it"
            )
        return lines

    def _refused(self, reason: str) -> ParameterError:
        """Return the error for an input that is neither the known one nor another one."""
        way_out = f"or pass new_input=True to learn from its first line as a new input: {self._path}"
        return ParameterError(f"{reason}, {way_out}", "new_input")

    def _other(self, first: list[bytes], lines: Iterator[bytes]) -> Iterator[bytes]:
        """Return the lines of another input; raise ValueError once most are lines of the saved one, which was edited.

        Nothing is saved before that is decided. A line that the saved input has twice says nothing.
        """
        error = self._refused(
            "most of the first lines of the input are those of the one that was read to its end, but not all: give "
            "the original"
        )
        marks = {mark for mark, count in Counter(self._saved.marks).items() if count == 1}
        shared = marks & {_mark(line) for line in first}
        if len(shared) > 1 and 2 * len(shared) > len(first):
            raise error
        self.began_anew = True

        def watched() -> Iterator[bytes]:
            self.is_undecided = True
            yield from first
            for number, line in enumerate(lines, start=len(first) + 1):
                if number <= HEAD:
                    shared.update(marks & {_mark(line)})
                    if len(shared) > 1 and 2 * len(shared) > number:
                        raise error
                self.is_undecided = number <= UNSAVED
                yield line
            self.is_undecided = False

        return watched()
