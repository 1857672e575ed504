"""Which learner is best for this table, and is any better than the Euclidean distance? By cross-validation."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold
from threadpoolctl import threadpool_limits

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.gml import GML
from mahala.batch.itml import ITML
from mahala.batch.lda import LDA
from mahala.batch.lmnn import LMNN
from mahala.batch.nca import NCA
from mahala.batch.pca import PCA
from mahala.batch.rca import RCA
from mahala.data.scaling import Scaling, divided, feature_scales
from mahala.evaluation.knn import DEFAULT_K, knn_error
from mahala.evaluation.leaderboard import EUCLIDEAN, EUCLIDEAN_SCALED, Entry, Leaderboard
from mahala.evaluation.statistics import holm
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.online.passive_aggressive import PA
from mahala.support.validation import check_count, check_labels, check_rows, class_codes

# Of larger tables a sample is compared: what a learner gains shows well before.
MOST_ROWS = 20_000
# A metric of d features is a d × d matrix, which is decomposed in O(d³).
MOST_FEATURES = 5_000

Progress = Callable[[int, int, str], object]


def default_panel(n_rows: int, n_features: int, random_state: int = 0) -> dict[str, Learner]:
    """Learners with settings that suit many tables of about this size, by name.

    Up to 100 features PA keeps its matrix positive semi-definite in every step, above that only at the end. NCA has
    at most 32 components. Left out are ITML above 128 features, NCA and LMNN above 10,000 rows. GML takes all pairs
    where n_rows² · n_features is up to 2e9, else 100,000 of them, and is left out where there are more than 128
    features, too. Above 1,000 features only PCA, LDA and NCA are left.

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
        n_pairs = None if work <= 2e9 else 100_000
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
    k: int = 3,
    scaling: Scaling = "standard",
    random_state: int = 0,
    jobs: int = 1,
    callback: Progress | None = None,
) -> Leaderboard:
    """Cross-validate learners, and the Euclidean distance on raw and on scaled features, on a table with classes.

    Every learner sees the same parts of a repeated stratified cross-validation. In each training part the scales of the
    features are computed and the learner is fitted; the test part is classified by its nearest rows of the training
    part, for 1 to 25 neighbours (or k, where that is more). Intervals and tests are those of the corrected resampled t
    (Nadeau, Bengio, 2003), as training parts overlap. p-values are adjusted for the number of learners, so that the
    winner's holds though it was picked on the same parts; its error itself is a little optimistic for that reason.

    Parameters
    ----------
    X, y : rows (dense or CSR, up to 5,000 features), and a label of any kind for each. Of more than 20,000 rows a
        sample is compared, and of a class with fewer rows than `folds` there are fewer folds: `notes` say so.
    learners : by name; None is the default panel
    folds, repeats : test parts of one cross-validation, and how often it is repeated with other parts
    k : neighbours by which entries are ranked
    scaling : "standard" divides each feature by its standard deviation, "none" leaves all as they are
    random_state : seed of the parts, and of learners that have none of their own
    jobs : processes
    callback : called after each fit with the number done, the number of all, and the name of the one just done

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> leaderboard = compare(X, y, {"LDA": LDA()}, repeats=1)
    >>> [entry.name for entry in leaderboard.entries]
    ['LDA', 'Euclidean, scaled', 'Euclidean']
    """
    for value, name in ((folds, "folds"), (repeats, "repeats"), (k, "k"), (jobs, "jobs")):
        check_count(value, name)
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
    if k > least:
        raise ValueError(f"k must be at most {least}, the number of training rows, got {k}")
    ks = np.arange(1, min(max(k, DEFAULT_K[-1]), least) + 1)

    names = [EUCLIDEAN, EUCLIDEAN_SCALED] if _scaling_matters(X, scaling) else [EUCLIDEAN]
    candidates: dict[str, Learner | None] = {**dict.fromkeys(names), **learners}
    tasks = [_Task(name, part, random_state + part) for part in range(len(parts)) for name in candidates]
    calls = (delayed(_measure)(task, X, codes, *parts[task.part], candidates[task.name], scaling, ks) for task in tasks)
    found: dict[str, dict[int, _Measured]] = {name: {} for name in candidates}
    for done, (task, measured) in enumerate(Parallel(jobs, return_as="generator_unordered")(calls), 1):
        found[task.name][task.part] = measured
        if callback is not None:
            callback(done, len(tasks), task.name)

    results = {name: [own[part] for part in range(len(parts))] for name, own in found.items()}
    return Leaderboard(
        entries=_ranked(results, set(learners), int(np.flatnonzero(ks == k)[0]), folds, len(rows)),
        ks=ks,
        k=k,
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
    """The metric that a learner (None: the Euclidean distance) gives on these rows, for raw features.

    >>> metric = refit([[0.0, 10.0], [1.0, 30.0], [4.0, 10.0], [5.0, 30.0]], ["a", "a", "b", "b"], None)
    >>> metric.scales.round(1).tolist()
    [2.1, 10.0]
    """
    X = check_rows(X)
    scales = feature_scales(X, scaling)
    if learner is None:
        metric = replace(MahalanobisMetric.euclidean(X.shape[1]), origin={"learner": "Euclidean", "params": {}})
    else:
        metric = clone(learner).fit(divided(X, scales), class_codes(y, X.shape[0])).metric_
        if not isinstance(metric, MahalanobisMetric):
            raise ValueError(f"{type(learner).__name__} learns a bilinear similarity, which gives no distances")
    names = None if feature_names is None else tuple(feature_names)
    return replace(metric, feature_names=names, scales=None if scaling == "none" else scales)


def held_out(
    X: Any, y: Any, learner: Learner | None, leaderboard: Leaderboard
) -> tuple[MahalanobisMetric, NDArray[np.bool_]]:
    """The learner's metric from the first training part, and which of `leaderboard.rows` it was not fitted on."""
    X, y = check_rows(X)[leaderboard.rows], np.asarray(y)[leaderboard.rows]
    codes = class_codes(y, len(y))
    train, test = _parts(codes, leaderboard.folds, leaderboard.repeats, leaderboard.random_state)[0]
    metric = refit(X[train], codes[train], learner, cast(Scaling, leaderboard.scaling))
    mask = np.zeros(len(codes), dtype=bool)
    mask[test] = True
    return metric, mask


def corrected_t(values: NDArray[np.float64], folds: int, step: float) -> tuple[float, float, float, float]:
    """Mean, 95 % interval and two-sided p-value of mean zero, for numbers from each part of repeated k-fold CV.

    The variance of the mean is (1/J + n_test/n_train) s² for J parts (Nadeau, Bengio, 2003): the plain s²/J would take
    training parts that share most of their rows for independent. Errors come in steps of one row, so that s below what
    rounding to such steps gives, step/√12, tells nothing.
    """
    mean, n = float(values.mean()), len(values)
    mean = 0.0 if abs(mean) < 1e-12 else mean  # a tie, but for rounding
    deviation = max(float(values.std(ddof=1)), step / math.sqrt(12.0)) * math.sqrt(1.0 / n + 1.0 / (folds - 1))
    reach = float(stats.t.ppf(0.975, n - 1)) * deviation
    return mean, mean - reach, mean + reach, float(2.0 * stats.t.sf(abs(mean) / deviation, n - 1))


class _Task(NamedTuple):
    name: str
    part: int
    seed: int


@dataclass(frozen=True, eq=False)
class _Measured:
    """Errors for every k on a test part, or why there are none."""

    errors: NDArray[np.float64] | None
    seconds: float
    failure: str | None = None


def _measure(
    task: _Task,
    X: Any,
    codes: NDArray[np.intp],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    learner: Learner | None,
    scaling: Scaling,
    ks: NDArray[np.intp],
) -> tuple[_Task, _Measured]:
    X_train, X_test, y_train, y_test = X[train], X[test], codes[train], codes[test]
    # One BLAS thread: several are slow on small matrices, and seconds are then those of the work.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that stops early shows in its error
        start = time.process_time()
        if learner is None:
            if task.name == EUCLIDEAN_SCALED:
                scales = feature_scales(X_train, scaling)
                X_train, X_test = divided(X_train, scales), divided(X_test, scales)
            seconds = time.process_time() - start
            return task, _Measured(knn_error(None, X_train, y_train, X_test, y_test, ks).error, seconds)
        try:
            learner = cast(Learner, clone(learner))
            if learner.get_params().get("random_state", 0) is None:
                learner.set_params(random_state=task.seed)
            metric = refit(X_train, y_train, learner, scaling)
            seconds = time.process_time() - start
            return task, _Measured(knn_error(metric, X_train, y_train, X_test, y_test, ks).error, seconds)
        except Exception as error:  # whatever it is, the other learners are of use
            words = str(error) or type(error).__name__
            return task, _Measured(None, time.process_time() - start, words)


def _ranked(
    results: Mapping[str, list[_Measured]], learned: set[str], at: int, folds: int, n_rows: int
) -> tuple[Entry, ...]:
    """Entries with their intervals and tests, `at` being the place of the k that ranks."""
    failures = {name: next((m.failure for m in own if m.failure is not None), None) for name, own in results.items()}
    errors = {name: np.array([m.errors for m in own]) for name, own in results.items() if failures[name] is None}
    base = min((name for name in errors if name not in learned), key=lambda name: errors[name][:, at].mean())
    step = folds / n_rows  # a row of a test part
    tests = {name: corrected_t(own[:, at] - errors[base][:, at], folds, step) for name, own in errors.items()}
    tested = [name for name in tests if name in learned]
    adjusted = dict(zip(tested, holm([tests[name][3] for name in tested]).tolist(), strict=True))
    entries = []
    for name, own in results.items():
        numbers = [math.nan] * 6
        if name in errors:
            mean, least, most, _ = corrected_t(errors[name][:, at], folds, step)
            beyond_base = (0.0, 0.0, 0.0) if name == base else tests[name][:3]
            numbers = [mean, max(least, 0.0), min(most, 1.0), *beyond_base]
        error, low, high, difference, difference_low, difference_high = numbers
        entries.append(
            Entry(
                name=name,
                learned=name in learned,
                errors=errors.get(name, np.empty((0, 0))),
                error=error,
                low=low,
                high=high,
                difference=difference,
                difference_low=difference_low,
                difference_high=difference_high,
                p_value=adjusted.get(name, math.nan),
                seconds=float(np.median([measured.seconds for measured in own])),
                failure=failures[name],
            )
        )
    # Rounding must not break a tie with Euclidean, which is the simpler of the two.
    return tuple(sorted(entries, key=lambda e: (e.failure is not None, round(e.error, 12), e.learned)))


def _parts(
    codes: NDArray[np.intp], folds: int, repeats: int, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and test rows of each part."""
    splits = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    return list(splits.split(np.empty(len(codes)), codes))


def _possible_folds(codes: NDArray[np.intp], classes: Sequence[str], folds: int, notes: list[str]) -> int:
    counts = np.bincount(codes)
    if len(counts) < 2:
        raise ValueError(f"the labels y must have at least two classes, got only {classes[0]!r}")
    single = [name for name, count in zip(classes, counts, strict=True) if count < 2]
    if single:
        named = ", ".join(map(repr, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        raise ValueError(
            f"the labels y must have at least two rows of each class, to train and to test, but have one of {named}: "
            "drop these rows or join classes"
        )
    least = int(counts.min())
    if least >= folds:
        return folds
    notes.append(f"{least} folds instead of {folds}, as class {classes[int(counts.argmin())]!r} has only {least} rows.")
    return least


def _sample(codes: NDArray[np.intp], folds: int, seed: int, notes: list[str]) -> NDArray[np.intp]:
    """All rows, or of many a sample with the classes' shares and at least a row of each class for every fold."""
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


def _scaling_matters(X: Any, scaling: Scaling) -> bool:
    scales = feature_scales(X, scaling)
    return not np.array_equal(scales, np.full_like(scales, scales[0]))


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
