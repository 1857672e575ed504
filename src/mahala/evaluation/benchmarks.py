"""Learners on several data sets: cells that are kept in a folder, mean ranks, and tests of differences."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pickle import PicklingError
from types import CodeType
from typing import Literal, Protocol, TypeVar

import joblib
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata, wilcoxon
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from mahala.data.datasets import load
from mahala.evaluation.cell_file import CellFile
from mahala.evaluation.cells import Cell, Key, Numbers, measured
from mahala.evaluation.knn import knn_error
from mahala.metric import Metric
from mahala.support.arrays import FloatArray
from mahala.support.display import task_bar
from mahala.support.files import whole_file
from mahala.support.validation import as_floats
from mahala.support.versions import versions

L = TypeVar("L")
D = TypeVar("D")
L_contra = TypeVar("L_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
Table = str | tuple[ArrayLike, ArrayLike]


class Measure(Protocol[L_contra, D_contra]):
    """Measures one run of a learner on a data set; equal arguments give equal numbers but for seconds."""

    def __call__(self, learner: L_contra, dataset: D_contra, run: int, /) -> Numbers: ...


@dataclass(frozen=True)
class Holdout:
    """Errors of k-NN on random test rows, and the CPU seconds of the fit.

    A data set is a pair (X, y) or a name that :func:`mahala.data.load` knows. A learner has `fit(X, y)` and then a
    `metric_`, or else `transform`, whose rows are compared by Euclidean distances, or else `predict`. None is the
    Euclidean distance. Learners with a `random_state` get the number of the run.

    Parameters
    ----------
    test_size : float, default=0.3
        Share of the rows of each class that test.
    scaling : "standard", "minmax" or "none", default="standard"
        Whether features are divided by their standard deviation or range, those of the training rows.
    n_neighbors : int, default=3
    """

    test_size: float = 0.3
    scaling: Literal["standard", "minmax", "none"] = "standard"
    n_neighbors: int = 3

    def __call__(self, learner: BaseEstimator | None, dataset: Table, run: int, /) -> Numbers:
        X, y = load(dataset)[:2] if isinstance(dataset, str) else dataset
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        split = train_test_split(X, y, test_size=self.test_size, stratify=y, random_state=run)
        X_train, X_test, y_train, y_test = split
        if self.scaling != "none":
            scaler = (StandardScaler() if self.scaling == "standard" else MinMaxScaler()).fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        metric, seconds = None, 0.0
        if learner is not None:
            fitted = clone(learner)
            if "random_state" in fitted.get_params(deep=False):
                fitted.set_params(random_state=run)
            start = time.process_time()
            fitted.fit(X_train, y_train)
            seconds = time.process_time() - start
            if isinstance(getattr(fitted, "metric_", None), Metric):
                metric = fitted.metric_
            elif hasattr(fitted, "transform"):
                X_train, X_test = fitted.transform(X_train), fitted.transform(X_test)
            else:
                return {"error": float(np.mean(fitted.predict(X_test) != y_test)), "seconds": seconds}
        errors = knn_error(metric, X_train, y_train, X_test, y_test, n_neighbors=self.n_neighbors)
        return {"error": errors.at(self.n_neighbors), "seconds": seconds}


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What :func:`benchmark` has measured.

    Attributes
    ----------
    learners, datasets : their names
    cells : the runs, each with `dataset`, `method`, `run` and its `numbers`
    versions : the versions of libraries that measured the cells in the cache, a dictionary for each installation
    """

    learners: tuple[str, ...]
    datasets: tuple[str, ...]
    cells: tuple[Cell, ...]
    versions: tuple[dict[str, str], ...]

    def means(self, number: str = "error") -> FloatArray:
        """Return the means over the runs: a row per data set, and a column per learner."""
        numbers = np.array([cell.numbers[number] for cell in self.cells])  # by data set, run and learner
        return np.asarray(numbers.reshape(len(self.datasets), -1, len(self.learners)).mean(axis=1))

    def wilcoxon(self, first: str, second: str, number: str = "error") -> float:
        """Return the p-value of Wilcoxon's signed-rank test that two learners are equal over the data sets."""
        return float(wilcoxon(self._differences(first, second, number)).pvalue)

    def signed_rank(self, first: str, second: str, rope: float = 0.01, number: str = "error") -> SignedRank:
        """Return the probabilities that the first learner is better, as good within `rope`, or worse, in the next
        data set, by the Bayesian signed-rank test."""
        return bayesian_signed_rank(self._differences(first, second, number), rope)

    def _differences(self, first: str, second: str, number: str) -> FloatArray:
        """Return by how much the second learner has more than the first, by data set."""
        for name in (first, second):
            if name not in self.learners:
                raise ValueError(f"learners to compare must be some of {', '.join(self.learners)}, got {name!r}")
        means = self.means(number)
        result: FloatArray = means[:, self.learners.index(second)] - means[:, self.learners.index(first)]
        return result

    def __str__(self) -> str:
        """A table in Markdown: mean errors in per cent, and mean ranks."""
        rows = [["", *self.learners]]
        rows += [[n, *(f"{100.0 * e:.1f}" for e in own)] for n, own in zip(self.datasets, self.means(), strict=True)]
        if len(self.learners) > 2 and len(self.datasets) > 1:
            rows.append(["mean rank", *(f"{rank:.2f}" for rank in rankdata(self.means(), axis=1).mean(axis=0))])
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


@dataclass(frozen=True)
class SignedRank:
    """Probabilities of the Bayesian signed-rank test; they sum to 1."""

    better: float
    """That the first method is better in the next data set, by more than `rope`."""
    same: float
    """That the two differ by at most `rope`."""
    worse: float
    """That the first method is worse by more than `rope`."""


def bayesian_signed_rank(
    differences: ArrayLike, rope: float = 0.01, n_samples: int = 20_000, random_state: int = 0
) -> SignedRank:
    """Compare two methods by their differences over data sets; positive where the first is better.

    The distribution of the differences has a Dirichlet process as prior, with the strength 1/2 at the difference 0.
    Each sample from the posterior weights the data sets. The sum of two differences, drawn by these weights, is then
    most likely below -2 rope, between, or above 2 rope; the probabilities are how often each of these is.

    References
    ----------
    Benavoli, A., Corani, G., Demšar, J., Zaffalon, M. (2017). Time for a change: a tutorial for comparing multiple
    classifiers through Bayesian analysis. JMLR 18.

    >>> bayesian_signed_rank([0.05, 0.02, 0.04, -0.005, 0.03, 0.06], rope=0.01).better > 0.9
    True
    """
    z = np.concatenate([[0.0], as_floats(differences, "differences")])
    if not rope >= 0.0:
        raise ValueError(f"rope must be a number from 0 on, got {rope}")
    weights = np.random.default_rng(random_state).dirichlet([0.5, *np.ones(len(z) - 1)], n_samples)
    sums = z[:, np.newaxis] + z
    sides = [np.einsum("si,si->s", weights @ side, weights) for side in (sums > 2.0 * rope, sums < -2.0 * rope)]
    shares = np.column_stack([sides[0], 1.0 - sides[0] - sides[1], sides[1]])
    # Two that are equally likely share the sample.
    largest = np.isclose(shares, shares.max(axis=1, keepdims=True))
    return SignedRank(*map(float, (largest / largest.sum(axis=1, keepdims=True)).mean(axis=0)))


def benchmark(
    learners: Mapping[str, L],
    datasets: Mapping[str, D],
    protocol: Measure[L, D],
    *,
    runs: int = 10,
    cache: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
) -> Benchmark:
    """Measure learners on data sets in several runs; return means, ranks and tests.

    Each finished cell is kept in a file in the folder `cache`, so an interrupted benchmark resumes. A cell is measured
    again if the learner, the data set or the protocol has changed.

    Parameters
    ----------
    learners : dict of estimators by name, also from other packages; what they may be is up to the protocol
    datasets : dict of data sets by name
    protocol : callable
        Called with a learner, a data set and the number of a run; returns numbers by name, among them "error", for
        which lower is better. :class:`Holdout` is one.
    runs : int, default=10
    cache : folder of the cells and of the versions that measured them; None keeps nothing
    n_jobs : int, default=1
        Number of processes.

    Examples
    --------
    >>> from sklearn.neighbors import NeighborhoodComponentsAnalysis
    >>> import mahala
    >>> learners = {"Euclidean": None, "RCA": mahala.RCA(), "NCA": NeighborhoodComponentsAnalysis(max_iter=5)}
    >>> found = benchmark(learners, {"wine": "wine", "iris": "iris"}, Holdout(), runs=2)
    >>> found.means().shape, len(found.cells)
    ((2, 3), 12)
    """
    for what, named in (("learners", learners), ("datasets", datasets)):
        if not named:
            raise ValueError(f"{what} must hold at least one, by name, got none")
    if runs < 1:
        raise ValueError(f"runs must be at least 1, got {runs}")
    folder = None if cache is None else Path(cache)
    if folder is None:
        file: CellFile[Key] = CellFile(None, Key, "benchmark")
    else:
        of_data, of_learners = ({name: _digest(one) for name, one in named.items()} for named in (datasets, learners))
        same = _digest(protocol)
        stamps = {(d, m): _digest((of_data[d], of_learners[m], same)) for d in datasets for m in learners}
        file = _StampedFile(folder / "cells.jsonl", stamps)
    wanted = [Key(dataset, method, run) for dataset in datasets for run in range(runs) for method in learners]

    def task(key: Key) -> Callable[[], Numbers]:
        return partial(protocol, learners[key.method], datasets[key.dataset], key.run)

    packages = {type(learner).__module__.partition(".")[0] for learner in learners.values()}
    provenance = _Provenance(folder, versions(*sorted(packages - {"builtins"})))
    with task_bar("benchmark", False) as update:
        for done, total, cell in measured(file, wanted, task, n_jobs):
            provenance.record()
            update(done, f"{cell.dataset}, {cell.method}, run {cell.run}", total)
    cells = tuple(Cell(*key, file.cells[key]) for key in wanted)
    return Benchmark(tuple(learners), tuple(datasets), cells, tuple(provenance.versions))


def _digest(content: object) -> str:
    """Return a digest of a learner, a data set or a protocol; that of a function follows from its code."""
    code = getattr(content, "__code__", None)
    if isinstance(code, CodeType):
        content = code.co_code, repr(code.co_consts), code.co_names
    try:
        return str(joblib.hash(content))
    except PicklingError as error:
        raise ValueError(f"with a cache, learners and data sets must be picklable, but {content!r} is not") from error


class _StampedFile(CellFile[Key]):
    """Cells with a digest of what they depend on; those of another learner, data set or protocol are left out."""

    def __init__(self, path: Path, stamps: Mapping[tuple[str, str], str]) -> None:
        super().__init__(path, Key, "benchmark")
        self._stamps = stamps
        stored = {key: (values.pop("of"), values) for key, values in self.cells.items()}
        self.cells = {key: values for key, (of, values) in stored.items() if of == stamps.get(key[:2])}

    def add(self, key: Key, values: Numbers) -> None:
        super().add(key, {**values, "of": self._stamps[key[:2]]})
        self.cells[key] = values


class _Provenance:
    """The versions that measured the cells in a folder, in the file versions.json."""

    def __init__(self, folder: Path | None, now: dict[str, str]) -> None:
        self._path, self._now = None if folder is None else folder / "versions.json", now
        exists = self._path is not None and self._path.exists()
        self.versions: list[dict[str, str]] = json.loads(self._path.read_text("utf-8")) if self._path and exists else []

    def record(self) -> None:
        """Add the versions of this process, once."""
        if self._now not in self.versions:
            self.versions.append(self._now)
            if self._path is not None:
                with whole_file(self._path) as file:
                    file.write_text(json.dumps(self.versions, indent=1) + "\n", encoding="utf-8")
