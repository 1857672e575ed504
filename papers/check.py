"""`--check`: recompute stored cells that are drawn at random, and say what differs and why it may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from mahala.evaluation.cells import measure_cell
from mahala.support.parameters import get_config
from papers.results import read_origin, versions
from papers.study import Cell, Folder, Numbers, Study, read_cells

# The cells that come with the repository.
RESULTS = Path(__file__).parents[1] / "docs" / "results"
# Rows of tables whose data come with mahala or scikit-learn, or are drawn.
FREE = frozenset({"iris", "wine", "balance", "Iris", "Wine", "Bal", "2 and 5"})
# A cell that takes longer is not cheap.
CHEAP_SECONDS = 0.5
# Larger relative differences than this are not those of another order of additions.
ROUNDING = 1e-3
ROUNDED = "rounding, which another processor or library does otherwise, changes the order of nearly equal distances"


class Stored(NamedTuple):
    """A stored cell, the versions that may have measured it, and the deviations of its numbers over the runs."""

    study: Study
    cell: Cell
    versions: list[dict[str, str]]
    deviations: dict[str, float]


class Checked(NamedTuple):
    """A stored cell, its numbers as the program of today measures them, and what explains that they differ."""

    stored: Stored
    numbers: Numbers
    # The numbers that differ: as stored, and as measured now.
    differences: dict[str, tuple[float | None, float | None]]
    # Why they may, or None if nothing is known that explains it.
    reason: str | None

    @property
    def wrong(self) -> bool:
        return bool(self.differences) and self.reason is None

    def as_row(self) -> dict[str, object]:
        """Return what `--json` prints."""
        study, cell = self.stored.study, self.stored.cell
        where = {"paper": study.paper, "study": study.name, **cell.key._asdict()}
        return where | {"differences": self.differences, "reason": self.reason}


def stored_cells(
    studies: Iterable[Study],
    folder: Path,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    cheap: bool = False,
) -> list[Stored]:
    """Return the stored cells of some studies, or only those that need no file and are measured within a moment."""
    found: list[Stored] = []
    for study in studies:
        path = folder / study.paper / study.cells_file
        if study.cells_of is not None or not path.exists():
            continue
        origin = read_origin(path.with_suffix(".json"))
        cells = [cell for cell in read_cells(path) if (cell.dataset, cell.method) not in study.left_out]
        deviations = _deviations(cells)
        for cell in cells:
            slow = cell.dataset not in FREE or cell.numbers.get("seconds", 0.0) > CHEAP_SECONDS
            listed = cell.dataset in study.datasets and cell.method in study.methods
            chosen = cell.dataset in (datasets or (cell.dataset,)) and cell.method in (methods or (cell.method,))
            if listed and chosen and not (cheap and slow):
                versions = [] if origin is None else origin.versions
                found.append(Stored(study, cell, versions, deviations[cell.dataset, cell.method]))
    return found


def _deviations(cells: Sequence[Cell]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the standard deviations of the numbers over the runs, by data set and method.

    With few runs they may be too small by chance, so each is at least the median of the methods on its data set.
    """
    runs: dict[tuple[str, str], dict[str, list[float]]] = {}
    for cell in cells:
        own = runs.setdefault((cell.dataset, cell.method), {})
        for name, value in cell.numbers.items():
            own.setdefault(name, []).append(value)
    found = {
        key: {name: float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 for name, values in own.items()}
        for key, own in runs.items()
    }
    by_dataset: dict[tuple[str, str], list[float]] = {}
    for (dataset, _), own_deviations in found.items():
        for name, value in own_deviations.items():
            by_dataset.setdefault((dataset, name), []).append(value)
    medians = {key: float(np.median(values)) for key, values in by_dataset.items()}
    return {
        (dataset, method): {name: max(value, medians[dataset, name]) for name, value in own_deviations.items()}
        for (dataset, method), own_deviations in found.items()
    }


def draw_cells(cells: Sequence[Stored], n: int, seed: int) -> list[Stored]:
    """Draw so many of the cells."""
    chosen = np.random.default_rng(seed).choice(len(cells), min(n, len(cells)), replace=False)
    return [cells[at] for at in chosen]


def check_cells(cells: Sequence[Stored], folder: Folder, n_jobs: int = 1) -> Iterator[Checked]:
    """Measure the cells again, and compare."""
    tasks = (
        delayed(measure_cell)(partial(stored.study.measure, *stored.cell.key, folder), stored.cell.key, get_config())
        for stored in cells
    )
    for stored, cell in zip(cells, Parallel(n_jobs, return_as="generator")(tasks), strict=True):
        yield compared(stored, cell.numbers)


def compared(stored: Stored, numbers: Numbers) -> Checked:
    """Compare a stored cell with what was measured now; seconds differ between machines, and are not compared."""
    before = stored.cell.numbers
    differences = {
        name: (before.get(name), numbers.get(name))
        for name in {**before, **numbers}
        if not name.startswith("seconds")
        and (name not in before or name not in numbers or not np.isclose(before[name], numbers[name], ROUNDING, 1e-9))
    }
    return Checked(stored, numbers, differences, _reason(stored, numbers, differences) if differences else None)


def _reason(stored: Stored, numbers: Numbers, differences: dict[str, tuple[float | None, float | None]]) -> str | None:
    """Return why these numbers may differ, or None if nothing is known that explains it."""
    if "stopped" in stored.cell.numbers or "stopped" in numbers:
        return "the fit is stopped after some CPU seconds, in which another machine gets farther or less far"
    if stored.cell.method in stored.study.chaotic:
        return stored.study.chaotic[stored.cell.method]
    now = versions()
    others = {
        f"{name} {number}": None for own in stored.versions for name, number in own.items() if now[name] != number
    }
    if others:
        return f"it was measured with {', '.join(others)}"
    near = all(
        a is not None and b is not None and abs(a - b) <= 2.0 * stored.deviations[name]
        for name, (a, b) in differences.items()
    )
    return ROUNDED if near else None


def time_ratio(checked: Sequence[Checked]) -> float | None:
    """Return the median of how many times the stored seconds the fits took, or None if none was timed."""
    ratios = [
        one.numbers["seconds"] / one.stored.cell.numbers["seconds"]
        for one in checked
        if one.numbers.get("seconds") and one.stored.cell.numbers.get("seconds")
    ]
    return float(np.median(ratios)) if ratios else None
