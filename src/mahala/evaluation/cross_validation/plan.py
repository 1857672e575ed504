"""The plan of a comparison: its rows, training and test parts, candidates, and the cells to measure."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mahala.data.copies import Copies
from mahala.data.labels import binned, is_continuous
from mahala.data.preprocessing import TablePreprocessor, rows_of_table
from mahala.data.scaling import Scaling, feature_scales, tried_scalings
from mahala.evaluation.cross_validation.measures import Measure
from mahala.evaluation.cross_validation.panel import EUCLIDEAN, EUCLIDEAN_ALL, EUCLIDEAN_SCALED
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.splits import Parts
from mahala.learner import Learner
from mahala.neighbors.model import NeighborModel
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.validation import check_labels, check_rows, class_codes, is_sparse

# A metric of d features is a d × d matrix, which is decomposed in O(d³).
MOST_FEATURES = 5_000
# Rows that models predict, if two test parts have fewer.
_ROWS_OF_MODELS = 300
# Classes of a target that is a number, for learners that learn from classes.
_BINS = 4


class Key(NamedTuple):
    """A candidate or baseline, and the number of a test part."""

    name: str
    part: int


class Target(NamedTuple):
    """What is predicted: classes, or numbers divided by their deviation.

    `codes` are the classes of the rows; if the target is a number, those of its range, for learners of classes. Numbers
    have `mean` subtracted and are divided by `unit`.
    """

    values: Any
    codes: IndexArray
    classes: tuple[str, ...]
    unit: float = 1.0
    mean: float = 0.0

    @property
    def is_number(self) -> bool:
        """Whether the target is a number."""
        return not self.classes

    def numbers(self, values: Any) -> FloatArray:
        """Return numbers as they were given."""
        return np.asarray(values) * self.unit + self.mean

    def select(self, rows: IndexArray) -> Self:
        """Return the targets of some rows."""
        return self._replace(values=self.values[rows], codes=self.codes[rows])

    def of(self, learner: Learner, rows: Any = slice(None)) -> Any:
        """Return what a learner learns from."""
        return self.values[rows] if learner._learns_numbers else self.codes[rows]


def target_of(y: Any, n_rows: int, numbers: bool | None) -> Target:
    """Return the target; `numbers` says whether it is a number, and None to see from the values."""
    labels = check_labels(y, n_rows)
    if numbers is None:
        numbers = is_continuous(labels)
    if not numbers:
        codes = class_codes(y, n_rows)
        return Target(codes, codes, tuple(str(label) for label in np.unique(labels)))
    if labels.dtype.kind not in "iuf" or not np.isfinite(labels.astype(np.float64)).all():
        raise ValueError(f"y must be finite numbers for the metric 'r2', got {labels[0]!r}")
    values = labels.astype(np.float64)
    unit = float(values.std())
    if not unit > 0.0:
        raise ValueError(f"y must have at least two different values, got only {values[0]:g}")
    codes = np.unique(binned(values, _BINS), return_inverse=True)[1]
    mean = float(values.mean())
    return Target((values - mean) / unit, codes, (), unit, mean)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is measured, and how.

    Attributes
    ----------
    X, target : the rows that are compared, and their targets
    rows, n_rows : their numbers among all rows, and how many rows there are
    parts : training and test rows of each test part
    counts : numbers of neighbours
    groups : number of the group of each row, or of the set of copies that it is in; None if there are neither
    unit : what is independent of each other: "rows", "different rows" if some are copies, or "groups"
    copies : the copies among all rows, or None
    settings : how it is measured
    learners : candidates besides the plain distances
    models : names of methods that predict by themselves, without a metric
    predictors : those among them that are estimators of mahala
    baselines : names of other distances, which are context unless the cosine or PCA is clearly better than `plain`
    left_out : reasons why members of the default panel are left out
    is_halved : whether only learners that can still win are measured after the first repetition
    n_screening : number of first parts, of rows that no other part tests, on which all learners are compared before
    """

    X: Any
    target: Target
    rows: IndexArray
    n_rows: int
    parts: Parts
    counts: IndexArray
    groups: IndexArray | None
    measure: Measure
    settings: Settings
    learners: Mapping[str, Learner]
    models: Sequence[str] = ()
    predictors: Mapping[str, NeighborModel] = field(default_factory=dict)
    baselines: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    is_halved: bool = False
    unit: str = "rows"
    copies: Copies | None = None
    n_screening: int = 0

    @cached_property
    def scalings(self) -> tuple[Scaling, ...]:
        """Scalings that are tried, the usual one first."""
        return tried_scalings(self.X) if self.settings.scaling == "auto" else (self.settings.scaling,)

    @cached_property
    def plain(self) -> list[str]:
        """Names of the plain distances; features are scaled if that changes distances."""
        hows = [how for how in self.scalings if how != "none"]
        scaling_matters = any(bool(np.ptp(feature_scales(self.X, how))) for how in hows)
        if not scaling_matters:
            return [EUCLIDEAN]
        names = [EUCLIDEAN, EUCLIDEAN_SCALED]
        return [*names, EUCLIDEAN_ALL] if len(self.scalings) > 1 and self.scalings[0] == "numbers" else names

    @cached_property
    def records(self) -> dict[str, str]:
        """Columns that say when or as which number a row was recorded, and what they hold."""
        preprocessor = self.settings.preprocessor
        return {} if preprocessor is None else preprocessor.record_columns(self.X)

    @cached_property
    def repetitions(self) -> list[list[int]]:
        """The numbers of the test parts of each repetition of the cross-validation, without those of the screening."""
        result: list[list[int]] = []
        seen = np.ones(len(self.target.codes), dtype=bool)
        for part, (_, test) in enumerate(self.parts):
            if part < self.n_screening:
                continue
            if seen[test].any():  # a row is tested once in each repetition
                result.append([])
                seen[:] = False
            seen[test] = True
            result[-1].append(part)
        return result

    @property
    def model_parts(self) -> list[int]:
        """The test parts of models, which may take long: the first two of a repetition, or more if they are small."""
        parts = self.repetitions[0]
        tested = np.cumsum([len(self.parts[part][1]) for part in parts])
        return parts[: max(2, 1 + int(np.searchsorted(tested, _ROWS_OF_MODELS)))]

    @property
    def candidates(self) -> list[str]:
        """Names of the plain distances and of the learners."""
        return [*self.plain, *self.learners]

    @property
    def distances(self) -> list[str]:
        """Names of all distances: the candidates and the baselines."""
        return [*self.candidates, *self.baselines]

    @cached_property
    def keys(self) -> list[Key]:
        """The cells to measure, part by part: in the first repetition models and baselines before the candidates.

        So what ends early has both on the same rows. Where units are test parts, baselines are measured on all of them.
        """
        keys = [Key(name, part) for part in range(self.n_screening) for name in self.candidates]
        for part in self.repetitions[0]:
            models = self.models if part in self.model_parts else ()
            keys += [Key(name, part) for name in (*self.baselines, *models, *self.candidates)]
        others = (part for parts in self.repetitions[1:] for part in parts)
        beside = self.baselines if self.measure in ("f1", "roc_auc") else ()
        return keys + [Key(name, part) for part in others for name in (*beside, *self.candidates)]

    def split(self, train: IndexArray, test: IndexArray) -> tuple[Any, Any]:
        """Return training and test rows, in which medians and categories are those of the training rows."""
        X, X_test = self.X[train], self.X[test]
        preprocessor = self.settings.preprocessor
        return (X, X_test) if preprocessor is None else preprocessor.refitted(X, X_test)

    def digest(self) -> str:
        """Return a digest of what the cells depend on."""
        table = None if self.settings.preprocessor is None else self.settings.preprocessor.to_header()
        settings = {**vars(self.settings), "metric": self.measure, "baselines": None, "preprocessor": table}
        tests = np.concatenate([test for _, test in self.parts])
        return digest_of(self.X, [self.target.values, tests], {**self.learners, **self.predictors}, settings)


def digest_of(X: Any, arrays: Iterable[NDArray[Any]], learners: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return a digest of what is measured: rows and other arrays, learners by name, settings, and the version."""
    from mahala import __version__

    result = hashlib.sha256()
    for array in (*((X.data, X.indices, X.indptr) if is_sparse(X) else (X,)), *arrays):
        result.update(f"{array.dtype} {array.shape}".encode())
        result.update(np.ascontiguousarray(array).data)
    named = {name: f"{type(learner).__name__}{learner.get_params()}" for name, learner in learners.items()}
    result.update(json.dumps([__version__, named, settings], default=repr).encode())
    return result.hexdigest()


def rows_and_preprocessor(X: Any, preprocessor: TablePreprocessor | None) -> tuple[Any, TablePreprocessor | None]:
    """Return valid rows, and what made them of a table."""
    X, made = rows_of_table(X)
    preprocessor = preprocessor if made is None else made
    X = check_rows(X)
    n_features = X.shape[1]
    if preprocessor is not None and n_features != len(preprocessor.get_feature_names_out()):
        raise ValueError(f"preprocessor must have made X, but it makes other than the {n_features} features of X")
    if n_features > MOST_FEATURES:
        problem = f"X has {n_features} features, but at most {MOST_FEATURES} can be compared"
        raise ValueError(f"{problem}: reduce them first, for instance with scikit-learn's TruncatedSVD")
    return X, preprocessor


def check_groups(groups: Any, n_rows: int) -> IndexArray | None:
    """Return the number of the group of each row, or None if none are given."""
    if groups is None:
        return None
    values = check_labels(groups, n_rows, "groups")
    codes: IndexArray = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)[1]
    if codes.max() < 1:
        raise ValueError(f"groups must have at least two different values, got only {values[0]!r}")
    return codes


def check_times(times: Any, n_rows: int) -> FloatArray | None:
    """Return the time of each row as a number, or None if none are given."""
    if times is None:
        return None
    values = np.asarray(times)
    if values.dtype.kind == "O" and len(values) and hasattr(values[0], "toordinal"):  # dates, also with time zones
        values = np.array([_seconds(time) for time in values.tolist()])
    if values.shape != (n_rows,):
        raise ValueError(f"times must have one value for each of the {n_rows} rows, got shape {values.shape}")
    if values.dtype.kind not in "iufM":
        raise ValueError(f"times must be numbers or dates, got {str(values[0])!r}")
    missing = np.isnat(values) if values.dtype.kind == "M" else ~np.isfinite(values)
    numbers: FloatArray = values.astype(np.int64 if values.dtype.kind == "M" else np.float64).astype(np.float64)
    if missing.any():
        raise ValueError("times must have no missing values")
    return numbers


def _seconds(time: Any) -> float:
    """Return a date or time as seconds; NaN if it is missing."""
    if time is None or time != time:
        return np.nan
    return float(time.timestamp()) if hasattr(time, "timestamp") else 86400.0 * time.toordinal()
