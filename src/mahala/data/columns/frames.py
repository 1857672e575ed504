"""Read tables with named columns into Polars data frames: CSV, Parquet, Feather and Excel files, and standard input."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import IO, TYPE_CHECKING, NamedTuple

from mahala.data.array_files import open_data
from mahala.data.columns.cells import ISO, MISSING, Decimal, day_number, number
from mahala.support.arrays import check_room

if TYPE_CHECKING:
    from polars import DataFrame


CSV = (".csv", ".tsv", ".txt")
EXCEL = (".xlsx", ".xls", ".xlsb", ".ods")
FRAMES = (*CSV, *EXCEL, ".parquet", ".feather", ".arrow")
_SEPARATOR = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([\x09\x20-\x7e])"?(?:\r\n?|\n)')
# Characters of the longest field; the default of Python's reader is 131,072.
_LONGEST_FIELD = 2**27
# Rows that Python's reader turns into columns at a time, and records that show what a file is like.
_ROWS, _HEAD = 65_536, 100
# Memory that a byte of a CSV file takes at least, and cells of 16 bytes.
_BYTES_PER_BYTE = 2.0


class Frame(NamedTuple):
    """A Polars data frame, what had to be done to read it, and the decimal mark of numbers that do not show it.

    Cells of CSV files are text.
    """

    data: DataFrame
    notes: tuple[str, ...] = ()
    decimal: Decimal = "."
    named: bool | None = True  # whether the file has column names; None if its first line, 0,1,..., may also be values


def read_frame(path: str, suffix: str) -> Frame:
    """Read a file of one of the formats in `FRAMES`, or standard input if the path is "-"."""
    try:
        import polars
    except ImportError:
        raise ImportError("tables need polars: pip install 'mahala[tables]'") from None
    if suffix in CSV:
        return _read_csv(path)
    try:
        if suffix in EXCEL:
            frame = polars.read_excel(path)
        elif suffix == ".parquet":
            scan = polars.scan_parquet(path, glob=False)
            n_rows, n_columns = scan.select(polars.len()).collect().item(), len(scan.collect_schema())
            check_room(8.0 * n_rows * n_columns, None, path, "split it")
            frame = polars.read_parquet(path, glob=False)
        else:
            frame = polars.read_ipc(path)
    except ImportError:
        raise ImportError(f"{path}: Excel files need fastexcel: pip install 'mahala[excel]'") from None
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # each format has its own exceptions; that of a panic derives from this one
        kind = "Excel" if suffix in EXCEL else "Parquet" if suffix == ".parquet" else "Feather"
        raise ValueError(f"{path} is not a readable {kind} file ({error})") from error
    if len(frame) == 0:
        raise ValueError(f"{path} has no rows")
    return Frame(frame)


@contextmanager
def text_file(path: str) -> Iterator[IO[str]]:
    """Open a text file in UTF-8, also .gz; raise a ValueError that names it if it cannot be decoded."""
    try:
        with _gzip_errors(path), io.TextIOWrapper(open_data(path), encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error.reason}): save it as UTF-8") from None


def json_lines(path: str) -> Iterator[tuple[int, object]]:
    """Yield the values in a file of JSON Lines, also .gz, with the numbers of their lines; blank lines are skipped."""
    with text_file(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}: line {number} is not JSON ({error})") from None
            yield number, value


@contextmanager
def _gzip_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error})") from None


def _read_csv(path: str) -> Frame:
    source, notes = _in_utf8(path)
    source, order = _separator(source, "\t;|," if ".tsv" in path.lower() else ";\t|,")
    head, delimiter = _head(path, source, order)
    if not head:
        raise ValueError(f"{path} is empty: it must have a line of column names and lines of values")
    width, named = len(head[0]), _has_names(head)
    frame = _with_polars(source, delimiter, width)
    if frame is None:
        frame = _with_python(path, source, delimiter, width)
    if named:
        frame = frame.slice(1)
        names = [name.strip() for name in head[0][:width]]
        if width < 4 and all(map(str.isdecimal, names)):
            notes.append(f"the first line is read as names, not as values: {', '.join(names)}")
    else:
        names = [""] * width
        missing = "no line of column names" if named is False else "the first line is read as values, not as names"
        notes.append(f"{missing}: the columns are called column 1 to column {width}")
    if len(frame) == 0:
        raise ValueError(f"{path} has column names, but no rows")
    frame.columns = _different(names, notes if named else [])
    return Frame(frame, tuple(notes), "," if delimiter == ";" else ".", named)


def _encoding(file: IO[bytes]) -> str:
    """Return the encoding of a text file: UTF-16 if it says so or has zeros, UTF-8, else Windows' Western European."""
    start = block = file.read(2**20)
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    utf_16 = "utf-16-be" if block[:1] == b"\0" else "utf-16-le"
    if 4 * block.count(b"\0") > len(block):
        return utf_16
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block:
            decoder.decode(block)
            block = file.read(2**20)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        # Text in UTF-16 of few Latin letters has ends of lines, other bytes among which are zeros have none.
        has_lines = b"\0" in start and re.search("[\r\n]", start.decode(utf_16, "ignore"))
        return utf_16 if has_lines else "cp1252"
    return "utf-8"


def _in_utf8(path: str) -> tuple[str | bytes, list[str]]:
    """Return the path of a file, or what it holds in UTF-8 if that is not what is in the file itself, and notes."""
    is_zipped = path.lower().endswith(".gz")
    if path == "-":
        data = sys.stdin.buffer.read()
        file: IO[bytes] = io.BytesIO(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    elif is_zipped:
        with _gzip_errors(path), open_data(path) as zipped:
            file = io.BytesIO(zipped.read())
    else:
        check_room(_BYTES_PER_BYTE * os.path.getsize(path), None, path, "split it")
        file = open_data(path)
    with file:
        encoding = _encoding(file)
        if encoding == "utf-8" and path != "-" and not is_zipped:
            return path, []
        file.seek(0)
        data = file.read()
    if encoding == "utf-8":
        return data, []
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "cp1252":
            raise ValueError(f"{path} is not text: neither UTF-8 nor UTF-16 ({error.reason})") from None
        text, encoding = data.decode("latin-1"), "latin-1"
    if "\0" in text and encoding in ("cp1252", "latin-1"):
        raise ValueError(f"{path} is not text: neither UTF-8 nor UTF-16, and it has zero bytes")
    name = "Latin-1 (Windows-1252)" if encoding == "cp1252" else encoding.upper()
    return text.encode("utf-8", "replace"), [f"read as {name}"]


def _separator(source: str | bytes, order: str) -> tuple[str | bytes, str]:
    """Return a file and the delimiters to try. Excel's first line `sep=;` names the only one; it becomes blank."""
    with open(source, "rb") if isinstance(source, str) else io.BytesIO(source) as file:
        match = _SEPARATOR.match(file.read(20))
        if match is None:
            return source, order
        file.seek(match.end())
        return b"\n" + file.read(), match[1].decode()


def _opened(source: str | bytes) -> IO[str]:
    file = io.FileIO(source) if isinstance(source, str) else io.BytesIO(source)
    return io.TextIOWrapper(io.BufferedReader(file), encoding="utf-8-sig", newline="")


def _records(path: str, file: IO[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file with the number of their first line; blank lines are skipped."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
    line = 1
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip() or delimiter in row[0]):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        hint = "; a quotation mark may be missing" if "field limit" in str(error) else ""
        raise ValueError(f"{path} cannot be read beyond line {line}: {error}{hint}") from None


def _head(path: str, source: str | bytes, order: str) -> tuple[list[list[str]], str]:
    """Return the first records and the delimiter: one that splits all of them alike, else the first into most fields.

    They are tried in their order; the comma comes last, because it may be a decimal mark.
    """
    heads: dict[str, list[list[str]]] = {}
    problem: ValueError | None = None
    for delimiter in order:
        with _opened(source) as file:
            try:
                heads[delimiter] = [row for _, row in islice(_records(path, file, delimiter), _HEAD)]
            except ValueError as error:  # such as a comma after a quoted field, where commas do not delimit
                problem = error

    def rank(delimiter: str) -> tuple[bool, int]:
        widths = [len(row) for row in heads[delimiter]] or [0]
        alike = widths[0] > 1 and len(set(widths)) == 1
        return alike, 0 if alike else widths[0]

    best = max(heads, key=rank, default="")
    if problem is not None and (not heads or len(heads[best][0]) == 1):
        raise problem
    # In a table of one column nothing delimits.
    return heads[best], best if heads[best] and len(heads[best][0]) > 1 else ","


def _has_names(head: Sequence[Sequence[str]]) -> bool | None:
    """Return whether the first record holds names, not values; None if it may hold either."""
    first = [text.strip() for text in head[0]]
    numeric = [text for text in first if number(text) is not None or number(text, ",") is not None]
    if not numeric and any(day_number(text, ISO) is not None for text in first):
        return False
    later = [[text.strip() for text in row] for row in head[1:] if len(row) == len(first)]
    # Values of the first line are found again below.
    again = [any(row[place] == text for row in later) for place, text in enumerate(first)]
    if not numeric:
        return not (all(again) and len(head) >= 20) and any(text not in MISSING for text in first)
    if any(text in MISSING for text in first if text):
        return False
    whole = [int(text) for text in numeric if _is_whole(text)]
    n, n_words = len(whole), len([text for text in first if text and text not in numeric])
    if n < len(numeric):
        return False
    below = [[text for text, name in zip(row, first, strict=True) if name in numeric] for row in later]
    in_turn = n > 1 and whole == list(range(whole[0], whole[0] + n))
    if in_turn and (whole[0] == 0 or (n > 2 if n_words else n > 3 and whole[0] == 1)):
        if any(found and text not in numeric for text, found in zip(first, again, strict=True) if text):
            return False
        # A header of consecutive numbers differs from the rows below in kind, or they do not hold each number once.
        alike = bool(below) and all(_is_whole(text) for row in below for text in row)
        unique = all(len(set(row)) == n for row in below)
        permuted = all(sorted(row) == sorted(numeric) for row in below)
        either = n < 3 if n_words else unique or all(again) if n < 4 else permuted
        return None if alike and either else True
    # Names that are years above what is not a year.
    years = all(map(_is_year, numeric)) and len(set(whole)) == n < len(first)
    return years and bool(below) and not all(_is_year(text) for row in below[:5] for text in row)


def _is_whole(text: str) -> bool:
    return text.isdecimal() and len(text) < 16


def _is_year(text: str) -> bool:
    return text.isdecimal() and len(text) == 4 and 1900 <= int(text) <= 2100


def _different(names: list[str], notes: list[str]) -> list[str]:
    """Return column names that differ from each other; note what was renamed."""
    result: list[str] = []
    for place, name in enumerate(names, start=1):
        base = new = name or f"column {place}"
        count = 2
        while new in result or (new != base and new in names):
            new, count = f"{base}_{count}", count + 1
        if new != name:
            why = f"there is a {name!r} before it" if name else "it has no name"
            notes.append(f"column {place} is called {new!r}: {why}")
        result.append(new)
    return result


def _with_polars(source: str | bytes, delimiter: str, width: int) -> DataFrame | None:
    """Return the cells of a CSV file as text, or None if its lines are not as simple as Polars takes them to be."""
    import polars

    names = [f"c{j}" for j in range(width)]
    try:
        frame = polars.read_csv(
            source, separator=delimiter, has_header=False, schema=dict.fromkeys(names, polars.String), glob=False
        )
        frame.columns = names
        # The last cell of a short or blank line is missing, and a quotation mark after a space remains.
        quoted = polars.any_horizontal(polars.all().str.contains(' "', literal=True).any())
        if frame[:, -1].null_count() or frame.select(quoted).item():
            return None
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException:  # Polars derives that of a panic from this one; Python's reader says what is wrong
        return None
    return frame


def _with_python(path: str, source: str | bytes, delimiter: str, width: int) -> DataFrame:
    """Return the cells of a CSV file as text; raise a ValueError that lists all lines with another number of fields."""
    import polars

    names = [f"c{j}" for j in range(width)]
    parts, odd, n_odd = [], [], 0
    with _opened(source) as file:
        records = _records(path, file, delimiter)
        while chunk := list(islice(records, _ROWS)):
            # A delimiter may end the line.
            rows = [row[:-1] if len(row) == width + 1 and not row[-1].strip() else row for _, row in chunk]
            for (line, _), row in zip(chunk, rows, strict=True):
                if len(row) != width:
                    n_odd += 1
                    odd += [f"line {line} has {len(row)} fields"] if n_odd <= 5 else []
            if not n_odd:
                columns = (polars.Series(cells, dtype=polars.String) for cells in zip(*rows, strict=True))
                parts.append(polars.DataFrame(dict(zip(names, columns, strict=True))))
    if n_odd:
        rest = f" and {n_odd - 5} more lines differ" if n_odd > 5 else ""
        raise ValueError(f"{path}: {', '.join(odd)}{rest}, but there are {width} columns")
    return polars.concat(parts, rechunk=False)
