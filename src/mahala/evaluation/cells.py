"""Cells of a benchmark: one run of a method on a data set each, measured once and kept in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from joblib import Parallel, delayed

from mahala.compiled.threads import one_thread
from mahala.evaluation.cell_file import CellFile
from mahala.support.parameters import config_context, get_config

Numbers = dict[str, float]


class Key(NamedTuple):
    """A run of a method on a data set."""

    dataset: str
    method: str
    run: int


class Cell(NamedTuple):
    """Results of one run of a method on a data set."""

    dataset: str
    method: str
    run: int
    numbers: Numbers

    @property
    def key(self) -> Key:
        return Key(self.dataset, self.method, self.run)


def measure_cell(measure: Callable[[], Numbers], key: Key, settings: Mapping[str, object]) -> Cell:
    """Measure a cell on one thread, with these settings of mahala; numbers have six digits."""
    # Several threads are slow on small matrices, and would count CPU seconds spent waiting.
    with config_context(**settings), one_thread():
        numbers = measure()
    return Cell(*key, {name: float(f"{value:.6g}") for name, value in numbers.items()})


def measured(
    file: CellFile[Key], wanted: Sequence[Key], task: Callable[[Key], Callable[[], Numbers]], n_jobs: int = 1
) -> Iterator[tuple[int, int, Cell]]:
    """Measure the cells that the file does not hold yet, and append each as soon as it is measured.

    `task` returns what measures a cell, in a process of its own. Yields the number of cells done, their total and the
    cell just measured.
    """
    missing = [key for key in wanted if key not in file.cells]
    done = len(wanted) - len(missing)
    if file.path is not None:
        file.path.parent.mkdir(parents=True, exist_ok=True)  # fail before measuring if the folder cannot be created
    tasks = (delayed(measure_cell)(task(key), key, get_config()) for key in missing)
    for cell in Parallel(n_jobs, return_as="generator_unordered")(tasks):
        file.add(cell.key, cell.numbers)
        done += 1
        yield done, len(wanted), cell
