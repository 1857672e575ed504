"""Random tables in every spelling of numbers and labels, written to files and read back, and hostile cells.

What was written is what is read: numbers with decimal points or commas, groups of thousands, currencies, percentages
and minus signs of accountants; labels that look alike stay different. Cells of a megabyte take linear time.
"""

from __future__ import annotations

import csv
import tempfile
import time
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mahala.data import TablePreprocessor
from mahala.data.tables import read_table

from .runner import Failed
from .values import Rng, chance, pick

AMOUNT, SHORT = 40_000, 24  # tables
CPU_SECONDS = 20.0
_LONG = 1_000_000
_WORDS = ("ash", "Ash", "None", "-", "none", "no", "n/a.", "é", "a,b", 'a"b', "1 a", "=1+1", "0x1", "1e", "a\tb", "()")
# Spellings of labels that may not be merged.
_ALIKE = (
    ("1.1", "1.10", "1.100"),
    ("2", "2.0", "02", "+2"),
    ("1000", "1,000", "1e3", "1.000"),
    ("true", "True", "TRUE", "1"),
    ("0", "-0", "00", "0.0"),
    ("5%", "5 %", "5"),
    ("ash", "Ash", "ASH"),
)


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Nothing is shared: Polars, which has threads, must not be used before a process is forked."""


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    kinds = (_check_numbers, _check_numbers, _check_labels, _check_decimals, _check_cells, _check_hostile)
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a table says about its columns
        kinds[case % len(kinds)](rng, Path(folder, pick(rng, ("t.csv", "t.tsv", "t.txt"))))
    return 1


def _write(rng: Rng, path: Path, columns: dict[str, list[str]]) -> None:
    delimiter = "\t" if path.suffix == ".tsv" else pick(rng, (",", ";", "|"))
    encoding = pick(rng, ("utf-8", "utf-8", "utf-8-sig", "utf-16"))
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator=pick(rng, ("\n", "\r\n")))
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _spelling(rng: Rng, mark: str) -> tuple[Callable[[float, int], str], float]:
    """A way to write numbers with so many decimals, and the largest number that it suits."""
    other = "," if mark == "." else "."
    group = pick(rng, ("", "", other, " ", "'", "\u00a0"))
    unit = pick(rng, ("{}", "{}", "{}", "${}", "{} €", "{} %", "{}%", "CHF {}"))
    minus = pick(rng, ("-{}", "-{}", "\u2212{}", "({})", "{}-"))

    def write(value: float, decimals: int) -> str:
        text = f"{abs(value):,.{decimals}f}".replace(",", "g").replace(".", mark).replace("g", group)
        if value < 0.0 and minus == "{}-":  # which follows digits
            return unit.format(minus.format(text)) if unit == "{}" else "-" + unit.format(text)
        return minus.format(unit.format(text)) if value < 0.0 else unit.format(text)

    return write, 10.0 ** int(rng.integers(0, 7))


def _check_numbers(rng: Rng, path: Path) -> None:
    """Numbers of several columns, all with the same decimal mark, which each of them shows."""
    n, mark = int(rng.integers(8, 40)), pick(rng, (".", ","))
    columns, written = {}, {}
    for name in ("a", "b", "c")[: int(rng.integers(1, 4))]:
        write, largest = _spelling(rng, mark)
        decimals = int(rng.integers(1, 7))
        # Without three decimals, no number could be one of thousands.
        decimals = decimals + 1 if decimals == 3 else decimals
        values = np.round(largest * rng.uniform(-1.0, 1.0, size=n), decimals) + 0.0
        columns[name] = values
        written[name] = [write(value, decimals) for value in values]
    written["y"] = [pick(rng, ("u", "v")) for _ in range(n)]
    written["y"][:2] = "u", "v"
    _write(rng, path, written)
    table = read_table(path, label="y", identifiers=True)
    for name, values in columns.items():
        names = [at for at, feature in enumerate(table.feature_names or ()) if feature == name]
        if len(set(values.tolist())) < 2:
            continue
        if len(names) != 1:
            raise Failed(f"column {written[name][:4]} became {table.feature_names}: {table.columns}")
        if not np.allclose(table.X[:, names[0]], values, rtol=1e-12, atol=0.0):
            raise Failed(f"column {written[name][:4]} was read as {table.X[:4, names[0]]}")


def _check_labels(rng: Rng, path: Path) -> None:
    """Labels that are the same number, but are not written alike, are different classes."""
    classes = list(pick(rng, _ALIKE))[: int(rng.integers(2, 5))]
    if chance(rng, 0.5):
        classes += [pick(rng, _WORDS)]
    n = int(rng.integers(len(classes), 40))
    given = [*classes, *(pick(rng, classes) for _ in range(n - len(classes)))]
    _write(rng, path, {"x": [f"{value:.2f}" for value in rng.normal(size=n)], "y": given})
    table = read_table(path, label="y")
    rows = np.arange(n) if table.rows is None else table.rows
    texts, labels = np.array(given, dtype=object)[rows], np.asarray(table.labels)
    flags = {text.lower() for text in texts} <= {"true", "false"}
    pairs = {(text, repr(label)) for text, label in zip(texts.tolist(), labels.tolist(), strict=True)}
    if len({text for text, _ in pairs}) < len(pairs):
        raise Failed(f"equal labels became different: {sorted(pairs)}")
    if len({label for _, label in pairs}) < len(pairs) and not flags:
        raise Failed(f"labels were merged: {sorted(pairs)}")


def _check_decimals(rng: Rng, path: Path) -> None:
    """A model of points does not take commas for thousands, nor the reverse."""
    n = int(rng.integers(5, 30))
    marks = rng.permutation([".", ","]).tolist()
    values = np.round(rng.uniform(0.0, 1.0, size=n), 3)
    values[:2] = 0.126, 0.5  # a comma or point after 0 is always a decimal mark
    first, second = (pd.DataFrame({"a": [f"{value:.3f}".replace(".", mark) for value in values]}) for mark in marks)
    fitted = TablePreprocessor().fit(first)
    if not np.allclose(fitted.transform(first)[:, 0], values):
        raise Failed(f"{first['a'].tolist()[:4]} was read as {fitted.transform(first)[:4, 0]}")
    try:
        read = fitted.transform(second)[:, 0]
    except ValueError as error:
        if "decimal mark" not in str(error):
            raise Failed(f"the error does not name the decimal mark: {error}") from error
        return
    if not np.allclose(read, values):
        raise Failed(f"{second['a'].tolist()[:4]} was read as {read[:4]} by a model of {first['a'].tolist()[:2]}")


def _check_cells(rng: Rng, path: Path) -> None:
    """Cells of data frames: decimals as of SQL, NumPy arrays, integers without bounds, bytes, gaps."""
    n = int(rng.integers(6, 30))
    values = np.round(rng.normal(size=n), 2)
    odd = (
        *(np.arange(3.0), np.array(1.5), np.array([], dtype=float), 10**400, -(10**400), b"x", b"\0", "\0", "1\0"),
        *(Decimal("NaN"), Decimal("1E+999"), Decimal("sNaN"), Decimal("-Infinity"), [1], {}, (), {1}, 1j, object()),
        *(None, float("nan"), pd.NA, pd.NaT, True, "", "1,5", "1.5", np.float32(2.5), np.datetime64("2024-01-01")),
    )
    decimals: list[Any] = [Decimal(f"{value:.2f}") for value in values]
    frame = pd.DataFrame({"a": decimals, "b": values})
    if not np.allclose(TablePreprocessor().fit_transform(frame), values[:, np.newaxis]):
        raise Failed("a column of Decimal is another one than that of its numbers")
    cells: list[Any] = pick(rng, (decimals, values.tolist(), [f"{value:.2f}" for value in values]))[:]
    for _ in range(int(rng.integers(1, 4))):
        cells[int(rng.integers(n))] = pick(rng, odd)
    column = pd.Series(cells, dtype=object)
    try:
        fitted = TablePreprocessor().fit(pd.DataFrame({"a": column, "b": values}))
        X = fitted.transform(pd.DataFrame({"a": column, "b": values}))
    except ValueError as error:
        if "'a'" not in str(error):
            raise Failed(f"the error does not name the column: {error}") from error
        return
    if not np.isfinite(X).all():
        raise Failed(f"cells {cells} became {X}")


def _check_hostile(rng: Rng, path: Path) -> None:
    """A megabyte in one cell, in any column, is read in linear time."""
    alphabet = " 0159()[]{}+-\u2212%$€.,:'\"AaeE/_#"
    pattern = "".join(pick(rng, alphabet) for _ in range(int(rng.integers(1, 5))))
    length = 50_000 if chance(rng, 0.8) else _LONG
    cell = pick(rng, ("", "1", "(", "$", "x"))
    cell += pattern * (length // len(pattern))
    cell += pick(rng, ("", "", "x", "%", " €", ")", "1", "\0"))
    n = 8
    number = pick(rng, ("{:.2f}", "${:.2f}", "{:.2f} %", "({:.2f})", "2024-01-0{:.0f}", "{:.0f}:30", "w{:.0f}"))
    column = [number.format(1.0 + value) for value in np.arange(n)]
    column[int(rng.integers(n))] = cell
    given = {"a": column, "b": [f"{value:.2f}" for value in rng.normal(size=n)], "y": ["u", "v"] * (n // 2)}
    _write(rng, path, given)
    started = time.process_time()
    label = "a" if chance(rng, 0.2) else "y"
    try:
        table = read_table(path, label=label, identifiers=True)
        TablePreprocessor().fit(pd.DataFrame(given))
    except ValueError as error:
        if not any(word in str(error) for word in (path.name, "column", "'a'", "label")):
            raise Failed(f"{pattern!r}: the error names neither file nor column: {str(error)[:300]}") from error
        table = None
    if (seconds := time.process_time() - started) > 4.0:
        raise Failed(f"a cell {cell[:20]!r} of {len(cell):,} characters took {seconds:.1f} s")
    if table is not None and not np.isfinite(table.X).all():
        raise Failed(f"{pattern!r}: X is not finite")
