"""Compare learners with each other and with the Euclidean distance by cross-validation."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.gml import GML
from mahala.batch.itml import ITML
from mahala.batch.lda import LDA
from mahala.batch.lmnn import LMNN
from mahala.batch.nca import NCA
from mahala.batch.pca import PCA
from mahala.batch.rca import RCA
from mahala.data.scaling import Scaling, divided, feature_scales
from mahala.evaluation.knn import DEFAULT_NEIGHBORS, misclassified
from mahala.evaluation.leaderboard import EUCLIDEAN, EUCLIDEAN_SCALED, Entry, Leaderboard
from mahala.evaluation.statistics import holm
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.online.passive_aggressive import PA
from mahala.support.arrays import BoolArray, FloatArray, IndexArray
from mahala.support.config import config_context, get_config
from mahala.support.threads import one_thread
from mahala.support.validation import Count, check_labels, check_rows, check_value, class_codes

# Larger tables are sampled: fewer rows already show what a learner gains.
MOST_ROWS = 20_000
# A metric of d features is a d × d matrix, which is decomposed in O(d³).
MOST_FEATURES = 5_000

Progress = Callable[[int, int, str], object]


def default_panel(n_rows: int, n_features: int, random_state: int = 0) -> dict[str, Learner]:
    """Return learners by name, with settings that suit many tables of about this size.

    Up to 100 features, PA projects its matrix to a positive semi-definite one in every step, above that only at the
    end. NCA has at most 32 components. ITML is left out above 128 features, NCA and LMNN above 10,000 rows. GML uses
    all pairs if n_rows² · n_features is at most 2e9; otherwise it uses 100,000 pairs, and is left out above 128
    features. Above 1,000 features the panel consists of PCA, LDA and NCA.

    >>> ", ".join(default_panel(150, 4))
    'PA-I, LDA, RCA, NCA, LMNN, ITML, GML, GML weights, BoostMetric'
    >>> ", ".join(default_panel(5000, 784))
    'PA-I, LDA, RCA, NCA, LMNN, BoostMetric'
    """
    work = n_rows**2 * n_features
    nca = NCA(n_components=None if n_features <= 32 else 32, max_iter=50, random_state=random_state)
    if n_features > 1000:
        panel: dict[str, Learner] = {"PCA": PCA(n_components=min(64, n_rows // 2)), "LDA": LDA(shrinkage="auto")}
        return panel | ({"NCA": nca} if n_rows <= 10_000 else {})
    psd: Any = "every" if n_features <= 100 else "end"
    panel = {
        "PA-I": PA("I", C="auto", psd=psd, record=False, random_state=random_state),
        "LDA": LDA(shrinkage="auto"),
        "RCA": RCA(),
    }
    if n_rows <= 10_000:
        panel |= {"NCA": nca, "LMNN": LMNN(max_iter=100 if work <= 2e9 else 30)}
    if n_features <= 128:
        panel["ITML"] = ITML(max_iter=200, random_state=random_state)
    if work <= 2e9 or n_features <= 128:
        n_pairs: Literal["auto"] | int = "auto" if work <= 2e9 else 100_000
        panel["GML"] = GML(n_pairs=n_pairs, random_state=random_state)
        panel["GML weights"] = GML(diagonal=True, n_pairs=n_pairs, random_state=random_state)
    panel["BoostMetric"] = BoostMetric(max_iter=100)
    return panel


def compare(
    X: Any,
    y: Any,
    learners: Mapping[str, Learner] | None = None,
    *,
    folds: int = 5,
    repeats: int = 2,
    n_neighbors: int = 3,
    scaling: Scaling = "standard",
    random_state: int = 0,
    n_jobs: int = 1,
    callback: Progress | None = None,
) -> Leaderboard:
    """Compare learners, and the Euclidean distance on raw and on scaled features, by repeated cross-validation.

    All learners are evaluated on the same stratified folds. In each training part the scales of the features are
    computed and the learner is fitted; the test part is then classified by nearest neighbours in the training part,
    with 1 to 25 neighbours (or up to `n_neighbors` if that is more). Intervals and tests use the corrected resampled t
    (Nadeau, Bengio, 2003), because training parts overlap. p-values are adjusted for the number of learners, so the
    winner's p-value remains valid although it was selected on the same folds; its error is slightly optimistic.

    Parameters
    ----------
    X, y : rows (dense or CSR, up to 5,000 features) and their class labels. Tables of more than 20,000 rows are
        sampled, and if a class has fewer rows than `folds`, fewer folds are used; `notes` of the result say so.
    learners : learners by name; None for :func:`default_panel`
    folds, repeats : number of folds, and how often the cross-validation is repeated with other folds
    n_neighbors : number of neighbours whose error ranks the learners
    scaling : "standard" divides each feature by its standard deviation, "none" leaves features as they are
    random_state : seed of the folds, and of learners whose own `random_state` is None
    n_jobs : number of processes
    callback : called after each fit with the number of fits done, their total and the name of the learner

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> leaderboard = compare(X, y, {"LDA": LDA()}, repeats=1)
    >>> [entry.name for entry in leaderboard.entries]
    ['LDA', 'Euclidean, scaled', 'Euclidean']
    """
    for value, name in ((folds, "folds"), (repeats, "repeats"), (n_neighbors, "n_neighbors"), (n_jobs, "n_jobs")):
        check_value(value, name, Count)
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}")
    X = check_rows(X)
    if X.shape[1] > MOST_FEATURES:
        raise ValueError(
            f"X has {X.shape[1]} features, but at most {MOST_FEATURES} can be compared: reduce them first, "
            "for instance with scikit-learn's TruncatedSVD"
        )
    codes = class_codes(y, X.shape[0])
    classes = tuple(str(label) for label in np.unique(check_labels(y, X.shape[0])))
    notes: list[str] = []
    folds = _possible_folds(codes, classes, folds, notes)
    n_rows = X.shape[0]
    rows = _sample(codes, folds, random_state, notes)
    X, codes = X[rows], codes[rows]
    if learners is None:
        learners = default_panel(X.shape[0], X.shape[1], random_state)
    _check_learners(learners)

    parts = _parts(codes, folds, repeats, random_state)
    least = min(len(train) for train, _ in parts)
    if n_neighbors > least:
        raise ValueError(f"n_neighbors must be at most {least}, the number of training rows, got {n_neighbors}")
    counts = np.arange(1, min(max(n_neighbors, DEFAULT_NEIGHBORS[-1]), least) + 1)

    names = [EUCLIDEAN, EUCLIDEAN_SCALED] if np.ptp(feature_scales(X, scaling)) else [EUCLIDEAN]
    candidates: dict[str, Learner | None] = {**dict.fromkeys(names), **learners}
    tasks = [_Task(name, part, random_state + part) for part in range(len(parts)) for name in candidates]
    calls = (
        delayed(_measure)(task, X, codes, *parts[task.part], candidates[task.name], scaling, counts, get_config())
        for task in tasks
    )
    found: dict[str, dict[int, _Measured]] = {name: {} for name in candidates}
    for done, (task, measured) in enumerate(Parallel(n_jobs, return_as="generator_unordered")(calls), 1):
        found[task.name][task.part] = measured
        if callback is not None:
            callback(done, len(tasks), task.name)

    results = {name: [own[part] for part in range(len(parts))] for name, own in found.items()}
    return Leaderboard(
        entries=_ranked(results, set(learners), n_neighbors - 1, folds, len(rows)),
        neighbor_counts=counts,
        n_neighbors=n_neighbors,
        folds=folds,
        repeats=repeats,
        scaling=scaling,
        random_state=random_state,
        n_rows=n_rows,
        n_features=X.shape[1],
        classes=classes,
        rows=rows,
        notes=tuple(notes),
    )


def refit(
    X: Any, y: Any, learner: Learner | None, scaling: Scaling = "standard", feature_names: Sequence[str] | None = None
) -> MahalanobisMetric:
    """Fit a learner to scaled features and return its metric, which scales raw features itself.

    If `learner` is None, return the Euclidean distance of the scaled features. The learner itself is not changed.

    Parameters
    ----------
    X, y : rows (dense or CSR) and their class labels
    learner : a learner of a Mahalanobis metric, or None
    scaling : "standard" divides each feature by its standard deviation, "none" leaves features as they are
    feature_names : names of the columns of X, stored in the metric

    >>> metric = refit([[0.0, 10.0], [1.0, 30.0], [4.0, 10.0], [5.0, 30.0]], ["a", "a", "b", "b"], None)
    >>> metric.scales.round(1).tolist()
    [2.1, 10.0]
    """
    X = check_rows(X)
    names = None if feature_names is None else tuple(feature_names)
    return replace(_fitted(X, class_codes(y, X.shape[0]), learner, scaling), feature_names=names)


def _fitted(X: Any, codes: IndexArray, learner: Learner | None, scaling: Scaling) -> MahalanobisMetric:
    """Do the work of `refit`, on valid rows and the codes of their classes."""
    scales = feature_scales(X, scaling)
    if learner is None:
        metric = replace(MahalanobisMetric.euclidean(X.shape[1]), origin={"learner": "Euclidean", "params": {}})
    else:
        metric = clone(learner).fit(divided(X, scales), codes).metric_
        if not isinstance(metric, MahalanobisMetric):
            raise ValueError(f"{type(learner).__name__} learns a bilinear similarity, which has no distances")
    return metric if scaling == "none" else replace(metric, scales=scales)


def held_out(X: Any, y: Any, learner: Learner | None, leaderboard: Leaderboard) -> tuple[MahalanobisMetric, BoolArray]:
    """Return the learner's metric from the first training part, and a mask of the `leaderboard.rows` held out."""
    X, y = check_rows(X)[leaderboard.rows], np.asarray(y)[leaderboard.rows]
    codes = class_codes(y, len(y))
    train, test = _parts(codes, leaderboard.folds, leaderboard.repeats, leaderboard.random_state)[0]
    metric = _fitted(X[train], codes[train], learner, cast(Scaling, leaderboard.scaling))
    mask = np.zeros(len(codes), dtype=bool)
    mask[test] = True
    return metric, mask


def corrected_t(values: FloatArray, folds: int, step: float) -> tuple[float, float, float, float]:
    """Return the mean, its 95 % interval and the p-value of a zero mean, for the values of all repeated folds.

    The variance of the mean is (1/J + n_test/n_train) s² for J folds (Nadeau, Bengio, 2003); the usual s²/J would
    treat training parts as independent although they share most of their rows. Errors are multiples of `step`, one
    row, so s is at least the deviation that rounding to such multiples causes, step/√12.
    """
    mean, n = float(values.mean()), len(values)
    mean = 0.0 if abs(mean) < 1e-12 else mean  # a tie, except for rounding
    deviation = max(float(values.std(ddof=1)), step / math.sqrt(12.0)) * math.sqrt(1.0 / n + 1.0 / (folds - 1))
    reach = float(stats.t.ppf(0.975, n - 1)) * deviation
    return mean, mean - reach, mean + reach, float(2.0 * stats.t.sf(abs(mean) / deviation, n - 1))


class _Task(NamedTuple):
    name: str
    part: int
    seed: int


@dataclass(frozen=True, eq=False)
class _Measured:
    """Errors on a test part for every number of neighbours, or the reason why there are none."""

    errors: FloatArray | None
    seconds: float
    failure: str | None = None


def _measure(
    task: _Task,
    X: Any,
    codes: IndexArray,
    train: IndexArray,
    test: IndexArray,
    learner: Learner | None,
    scaling: Scaling,
    counts: IndexArray,
    settings: dict[str, Any],
) -> tuple[_Task, _Measured]:
    X_train, X_test, y_train, y_test = X[train], X[test], codes[train], codes[test]
    # One thread: several are slow on small matrices, and would count CPU seconds spent waiting.
    with config_context(**settings), one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that stops early shows in its error
        start = time.process_time()
        try:
            if learner is not None:
                learner = cast(Learner, clone(learner))
                if learner.get_params().get("random_state", 0) is None:
                    learner.set_params(random_state=task.seed)
                metric = _fitted(X_train, y_train, learner, scaling)
                seconds = time.process_time() - start
                if not metric.is_psd:
                    raise ValueError(f"{type(learner).__name__} learned a metric that is not positive semi-definite")
                X_train, X_test = metric.transform(X_train), metric.transform(X_test)
            else:
                if task.name == EUCLIDEAN_SCALED:
                    scales = feature_scales(X_train, scaling)
                    X_train, X_test = divided(X_train, scales), divided(X_test, scales)
                seconds = time.process_time() - start
            return task, _Measured(misclassified(X_train, y_train, X_test, y_test, counts).mean(axis=0), seconds)
        except Exception as error:  # an error of one learner must not lose the results of the others
            if learner is None:
                raise
            return task, _Measured(None, time.process_time() - start, str(error) or type(error).__name__)


def _ranked(
    results: Mapping[str, list[_Measured]], learned: set[str], at: int, folds: int, n_rows: int
) -> tuple[Entry, ...]:
    """Return the entries with intervals and tests; `at` is the column of the errors that rank them."""
    failures = {name: next((m.failure for m in own if m.failure is not None), None) for name, own in results.items()}
    errors = {name: np.array([m.errors for m in own]) for name, own in results.items() if failures[name] is None}
    base = min((name for name in errors if name not in learned), key=lambda name: errors[name][:, at].mean())
    step = folds / n_rows  # one row of a test part
    tests = {name: corrected_t(own[:, at] - errors[base][:, at], folds, step) for name, own in errors.items()}
    tested = [name for name in tests if name in learned]
    adjusted = dict(zip(tested, holm([tests[name][3] for name in tested]).tolist(), strict=True))
    entries, nothing = [], (math.nan, math.nan, math.nan, math.nan)
    for name, own in results.items():
        found = errors.get(name, np.empty((0, 0)))
        mean, low, high, _ = corrected_t(found[:, at], folds, step) if name in errors else nothing
        difference = (0.0, 0.0, 0.0) if name == base else tests.get(name, nothing)[:3]
        measured = adjusted.get(name, math.nan), float(np.median([part.seconds for part in own])), failures[name]
        entries.append(Entry(name, name in learned, found, mean, max(low, 0.0), min(high, 1.0), *difference, *measured))
    # Rounding must not break a tie with the Euclidean distance, which is simpler.
    return tuple(sorted(entries, key=lambda e: (e.failure is not None, round(e.error, 12), e.learned)))


def _parts(codes: IndexArray, folds: int, repeats: int, seed: int) -> list[tuple[IndexArray, IndexArray]]:
    """Return the training and test rows of each fold."""
    splits = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    return list(splits.split(np.empty(len(codes)), codes))


def _possible_folds(codes: IndexArray, classes: Sequence[str], folds: int, notes: list[str]) -> int:
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
    if least >= folds:
        return folds
    name = classes[int(counts.argmin())]
    notes.append(f"{least} folds instead of {folds}, because class {name!r} has only {least} rows.")
    return least


def _sample(codes: IndexArray, folds: int, seed: int, notes: list[str]) -> IndexArray:
    """Return all rows or, if there are many, a stratified sample with at least one row of each class per fold."""
    if len(codes) <= MOST_ROWS:
        return np.arange(len(codes))
    rng = np.random.default_rng(seed)
    share = MOST_ROWS / len(codes)
    chosen = [
        rng.choice(own, max(min(folds, len(own)), round(share * len(own))), replace=False)
        for own in (np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1))
    ]
    rows = np.sort(np.concatenate(chosen))
    notes.append(
        f"A sample of {len(rows):,} of the {len(codes):,} rows was compared, with the same share of each class."
    )
    return rows


def _check_learners(learners: Mapping[str, Learner]) -> None:
    if not isinstance(learners, Mapping) or not learners:
        raise ValueError(f"learners must be one or more learners by name, got {learners!r}")
    for name, learner in learners.items():
        if not isinstance(name, str) or name in (EUCLIDEAN, EUCLIDEAN_SCALED):
            raise ValueError(
                f"learners must have names other than {EUCLIDEAN!r} and {EUCLIDEAN_SCALED!r}, got {name!r}"
            )
        if not isinstance(learner, Learner):
            raise TypeError(f"learners must be learners of mahala, got {learner!r} for {name!r}")
