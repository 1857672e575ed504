"""The plan of a comparison: its rows, training and test parts, candidates, and the cells to measure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.gml import GML
from mahala.batch.itml import ITML
from mahala.batch.lda import LDA
from mahala.batch.lmnn import LMNN
from mahala.batch.nca import NCA
from mahala.batch.pca import PCA
from mahala.batch.rca import RCA
from mahala.data.preprocessing import TablePreprocessor, rows_of_table
from mahala.data.scaling import Scaling, feature_scales
from mahala.evaluation.measures import Measure
from mahala.learner import Learner
from mahala.online.passive_aggressive import PA
from mahala.support.arrays import IndexArray
from mahala.support.validation import check_rows, is_sparse

# A metric of d features is a d × d matrix, which is decomposed in O(d³).
MOST_FEATURES = 5_000
# Larger tables are sampled: fewer rows already show what a learner gains.
MOST_ROWS = 20_000
# Test parts on which baselines are measured: boosting may take longer than all learners.
BASELINE_PARTS = 3
# Neighbours that vote unless another number is given or chosen.
USUAL_NEIGHBORS = 3
EUCLIDEAN = "Euclidean"
EUCLIDEAN_SCALED = "Euclidean, scaled"


class Key(NamedTuple):
    """A candidate or baseline, and the number of a test part."""

    name: str
    part: int


@dataclass(frozen=True, eq=False)
class Plan:
    """What is measured, and how.

    Attributes
    ----------
    X, codes : the rows that are compared, and the codes of their classes
    rows, n_rows : their numbers among all rows, and how many rows there are
    parts : training and test rows of each test part, `folds` of each repetition
    counts : numbers of neighbours
    n_neighbors : the number of neighbours that ranks, or None to choose it
    learners, baselines : candidates besides the Euclidean distances, and names of methods that are context only
    left_out : reasons why members of the default panel are left out
    preprocessor : what made X of a table
    """

    X: Any
    codes: IndexArray
    classes: tuple[str, ...]
    rows: IndexArray
    n_rows: int
    parts: Sequence[tuple[IndexArray, IndexArray]]
    folds: int
    repeats: int
    counts: IndexArray
    n_neighbors: int | None
    measure: Measure
    scaling: Literal["auto"] | Scaling
    random_state: int
    budget: float | None
    learners: Mapping[str, Learner]
    baselines: Sequence[str]
    left_out: Mapping[str, str]
    preprocessor: TablePreprocessor | None
    notes: list[str]

    @property
    def usual_neighbors(self) -> int:
        """Number of neighbours with which scalings are tried and confusions counted."""
        return self.n_neighbors or USUAL_NEIGHBORS

    @cached_property
    def candidates(self) -> list[str]:
        """Names of the Euclidean distances and of the learners; features are scaled if that changes distances."""
        hows: tuple[Scaling, ...] = ("standard", "minmax", "robust") if self.scaling == "auto" else (self.scaling,)
        scaling_matters = any(bool(np.ptp(feature_scales(self.X, how))) for how in hows)
        return [EUCLIDEAN, *([EUCLIDEAN_SCALED] if scaling_matters else []), *self.learners]

    @cached_property
    def keys(self) -> list[Key]:
        """The cells to measure, those of the candidates first."""
        keys = [Key(name, part) for part in range(len(self.parts)) for name in self.candidates]
        return keys + [Key(name, part) for part in range(min(self.folds, BASELINE_PARTS)) for name in self.baselines]

    def split(self, train: IndexArray, test: IndexArray) -> tuple[Any, Any]:
        """Return training and test rows, in which medians and categories are those of the training rows."""
        X, X_test = self.X[train], self.X[test]
        return (X, X_test) if self.preprocessor is None else self.preprocessor.refitted(X, X_test)

    def digest(self) -> str:
        """Return a digest of what the cells depend on."""
        from mahala import __version__

        result = hashlib.sha256()
        arrays = (self.X.data, self.X.indices, self.X.indptr) if is_sparse(self.X) else (self.X,)
        for array in (*arrays, self.codes):
            result.update(f"{array.dtype} {array.shape}".encode())
            result.update(np.ascontiguousarray(array).data)
        learners = {name: f"{type(learner).__name__}{learner.get_params()}" for name, learner in self.learners.items()}
        names = ("measure", "scaling", "n_neighbors", "budget", "folds", "repeats", "random_state")
        settings = [getattr(self, name) for name in names]
        table = None if self.preprocessor is None else self.preprocessor.to_header()
        result.update(json.dumps([__version__, learners, settings, table], default=repr).encode())
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
        raise ValueError(
            f"X has {n_features} features, but at most {MOST_FEATURES} can be compared: reduce them first, "
            "for instance with scikit-learn's TruncatedSVD"
        )
    return X, preprocessor


def check_learners(learners: Mapping[str, Learner]) -> None:
    """Raise an error unless these are learners of a metric from classes, by names that are free."""
    if not isinstance(learners, Mapping) or not learners:
        raise ValueError(f"learners must be one or more learners by name, got {learners!r}")
    for name, learner in learners.items():
        if not isinstance(name, str) or name in (EUCLIDEAN, EUCLIDEAN_SCALED):
            raise ValueError(
                f"learners must have names other than {EUCLIDEAN!r} and {EUCLIDEAN_SCALED!r}, got {name!r}"
            )
        if not isinstance(learner, Learner):
            raise TypeError(f"learners must be learners of mahala, got {learner!r} for {name!r}")
        if learner._learns_numbers:
            raise ValueError(f"learners must learn from classes, but {type(learner).__name__} learns target values")


def parts_of(codes: IndexArray, folds: int, repeats: int, seed: int) -> list[tuple[IndexArray, IndexArray]]:
    """Return the training and test rows of each fold."""
    splits = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    return list(splits.split(np.empty(len(codes)), codes))


def possible_folds(codes: IndexArray, classes: Sequence[str], folds: int, notes: list[str]) -> int:
    """Return the number of folds, at most the rows of the smallest class; raise ValueError if that is one."""
    counts = np.bincount(codes)
    if len(counts) < 2:
        raise ValueError(f"the labels y must have at least two classes, got only {classes[0]!r}")
    single = [name for name, count in zip(classes, counts, strict=True) if count < 2]
    if single:
        named = ", ".join(map(repr, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        raise ValueError(
            f"the labels y must have at least two rows of each class, to train and to test, but have one of {named}: "
            "drop these rows or merge classes"
        )
    least = int(counts.min())
    if least < folds:
        name = classes[int(counts.argmin())]
        notes.append(f"{least} folds instead of {folds}, because class {name!r} has only {least} rows.")
    return min(folds, least)


def sample_of(codes: IndexArray, folds: int, seed: int, notes: list[str]) -> IndexArray:
    """Return all rows or, if there are many, a stratified sample with at least one row of each class per fold."""
    if len(codes) <= MOST_ROWS:
        return np.arange(len(codes))
    rng = np.random.default_rng(seed)
    share = MOST_ROWS / len(codes)
    chosen = [
        rng.choice(members, max(min(folds, len(members)), round(share * len(members))), replace=False)
        for members in (np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1))
    ]
    rows = np.sort(np.concatenate(chosen))
    notes.append(
        f"A sample of {len(rows):,} of the {len(codes):,} rows was compared, with the same share of each class."
    )
    return rows


def default_panel(n_rows: int, n_features: int, random_state: int = 0) -> dict[str, Learner]:
    """Return learners by name, with settings that suit many tables of about this size.

    Up to 50 features, PA projects its matrix to a positive semi-definite one in every step, above that only at the
    end. NCA has at most 32 components; NCA and LMNN are left out above 10,000 rows. GML uses all pairs if
    n_rows² · n_features is at most 2e9; otherwise it uses 100,000 pairs, and is left out above 128 features. Above
    1,000 features the panel consists of PCA, LDA and NCA.

    >>> ", ".join(default_panel(150, 4))
    'PA-I, LDA, RCA, NCA, LMNN, ITML, GML, GML weights, BoostMetric'
    >>> ", ".join(default_panel(5000, 784))
    'PA-I, LDA, RCA, NCA, LMNN, ITML, BoostMetric'
    """
    without = left_out(n_rows, n_features)
    return {name: learner for name, learner in members(n_rows, n_features, random_state).items() if name not in without}


def left_out(n_rows: int, n_features: int) -> dict[str, str]:
    """Return why members of the panel are left out for a table of this size, by name.

    >>> left_out(12_000, 300)["NCA"]
    '12,000 rows, and above 10,000 each iteration takes long'
    """
    reasons: dict[str, str] = {}
    if n_features > 1000:
        many = f"{n_features:,} features, and above 1,000 its {n_features:,} × {n_features:,} matrix takes long"
        reasons = dict.fromkeys(("PA-I", "RCA", "LMNN", "ITML", "GML", "GML weights", "BoostMetric"), many)
    elif n_features > 128 and _work(n_rows, n_features) > 2e9:
        many = f"{n_rows:,} rows of {n_features:,} features, all pairs of which take long"
        reasons = dict.fromkeys(("GML", "GML weights"), many)
    if n_rows > 10_000:
        few = f"{n_rows:,} rows, and above 10,000 each iteration takes long"
        reasons |= {"NCA": few} | ({"LMNN": few} if n_features <= 1000 else {})
    return reasons


def members(n_rows: int, n_features: int, random_state: int = 0) -> dict[str, Learner]:
    """Return all members of the panel by name, those that are left out for a table of this size included."""
    work = _work(n_rows, n_features)
    psd: Any = "every" if n_features <= 50 else "end"
    n_pairs: Literal["auto"] | int = "auto" if work <= 2e9 else 100_000
    # Up to 1,000 features the other learners are as fast as PCA, and use the labels.
    pca: dict[str, Learner] = {} if n_features <= 1000 else {"PCA": PCA(n_components=min(64, n_rows // 2))}
    return pca | {
        "PA-I": PA("I", C="auto", psd=psd, record=False, random_state=random_state),
        "LDA": LDA(shrinkage="auto"),
        "RCA": RCA(),
        "NCA": NCA(n_components=None if n_features <= 32 else 32, max_iter=50, random_state=random_state),
        "LMNN": LMNN(max_iter=100 if work <= 2e9 else 30),
        "ITML": ITML(random_state=random_state),
        "GML": GML(n_pairs=n_pairs, random_state=random_state),
        "GML weights": GML(diagonal=True, n_pairs=n_pairs, random_state=random_state),
        "BoostMetric": BoostMetric(max_iter=100),
    }


def _work(n_rows: int, n_features: int) -> int:
    return n_rows**2 * n_features
