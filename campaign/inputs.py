"""Calls with generated arguments: each gives a documented error that names an argument, or a sound result.

A sound result is finite, positive semi-definite where that is promised, and the same in a second run of the case; the
caller's arguments are left as they were, and nothing warns. What a learner saves, it loads.
"""

from __future__ import annotations

import inspect
import re
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

import mahala
import mahala_search
from contract.learners import ALL
from mahala import BilinearMetric, MahalanobisMetric, Metric
from mahala.online.online_learner import OnlineLearner
from mahala.saved_estimator import SavedEstimator
from papers.pola2004.filters.nearest import NearestFilter
from papers.pola2004.filters.paum import PAUM
from papers.pola2004.filters.perceptron import Perceptron
from papers.ranks import friedman_holm

from .runner import Failed
from .values import Rng, array, chance, classes, count, numbers, pick, rows, signs, vector

AMOUNT, SHORT = 420_000, 16  # of 2.4 calls on average
CPU_SECONDS = 20.0

# What keeps a call short.
_FEW = {"max_iter": 3, "n_triplets": 20, "n_pairs": 20, "n_starts": 1, "n_samples": 5, "max_passes": 3}
_VALUES = (None, 0, -1, 2.5, 1e-300, 1e300, np.nan, np.inf, "x", "auto", True, [], 10**30, np.float32(0.5), np.int64(2))
# Warnings that are documented: POLA's max_loss was not reached; few triplets, whose metric is mixed with the plain one;
# and scikit-learn's of feature names in only one of two X, and of sparse columns.
_WARNINGS = (ConvergenceWarning,)
_WARNED = re.compile("feature names|DataFrame with sparse columns|mixture of the learned|column-vector y")
# scikit-learn's own words about X, which its checks of estimators ask for, and what they say of features and classes.
_WORDS = re.compile(
    r"array with|Expected 2D|Expected a 2-dimensional|Complex data|dense data is required|could not convert|"
    r"Unknown label type|feature names|convert string|must be real number|Pandas DataFrame|inhomogeneous|"
    r"arrays of bytes/strings|\b(features?|class(es)?|labels?|pairs?|triplets?|rows?|judgments|array)\b"
)
# Of comparisons and judgments.
_PARTS = ("X", "items", "left", "right", "similar", "anchor", "positive", "negative", "query", "item", "grade")
_PLAIN = (int, float, str, bool, bytes, type(None))
_WIDE = 6
_FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a disk would be the slowest part of a call


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Load the kernels; polars, which has threads, must not be used before a process is forked."""
    # Half of a small call would be spent on the signatures of classes.
    BaseEstimator._get_param_names = classmethod(cache(BaseEstimator._get_param_names.__func__))
    rng = np.random.default_rng(0)
    for learner in ALL if amount > SHORT else ():
        for X in (rng.normal(size=(12, 4)), sp.csr_array(rng.normal(size=(12, 4)))):
            _quick(learner).fit(X, np.arange(12) % 3).score(X, np.arange(12) % 3)


def _quick(learner: Any) -> Any:
    """Return a copy with few iterations."""
    known = learner.get_params(deep=False)
    return clone(learner).set_params(**{name: value for name, value in _FEW.items() if name in known})


def content(value: Any) -> Any:
    """What a value holds, to be compared with ==."""
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, np.ndarray):
        plain = value.dtype.char not in "OgG"  # a long double has bytes that mean nothing
        return value.dtype.str, value.shape, value.tobytes() if plain else repr(value.tolist())
    if sp.issparse(value):
        if hasattr(value, "indptr"):
            return value.format, value.shape, *map(content, (value.data, value.indices, value.indptr))
        return value.format, value.shape, *map(content, (value.tocoo().data, *value.tocoo().coords))
    if isinstance(value, pd.DataFrame):
        return repr(value.dtypes), *(repr(column.tolist()) for _, column in value.items())
    if isinstance(value, pd.Series | pd.Categorical | pl.Series):
        return repr(value.tolist() if isinstance(value, pd.Categorical) else value.to_list())
    if isinstance(value, pl.DataFrame):
        return repr(value.schema), repr(value.rows())
    if isinstance(value, SavedEstimator):
        return content(value.to_parts()) if value.__sklearn_is_fitted__() else content(value.get_params(deep=False))
    if isinstance(value, Metric):
        return content(value.matrix), getattr(value, "threshold", None)
    if isinstance(value, mahala.Pairs | mahala.Triplets | mahala_search.Judgments):
        return content([getattr(value, name, None) for name in _PARTS])
    if isinstance(value, dict):
        return sorted((repr(key), content(own)) for key, own in value.items())
    if isinstance(value, list | tuple):
        return [content(own) for own in value]
    return re.sub(r"0x[0-9a-f]+", "", repr(value))


def check_sound(value: Any, where: str) -> None:
    """Raise Failed if a result holds NaN or infinity."""
    if isinstance(value, Metric):
        check_sound(value.matrix, where)
    elif isinstance(value, list | tuple):
        for own in value:
            check_sound(own, where)
    elif sp.issparse(value):
        check_sound(value.data, where)
    elif isinstance(value, float | np.ndarray) and np.asarray(value).dtype.kind == "f" and not np.isfinite(value).all():
        raise Failed(f"{where}: the result is not finite: {np.asarray(value).ravel()[:5]}")


def check_learned(learner: Any) -> None:
    """Raise Failed unless the metric of a learner is finite and, if it is a distance, positive semi-definite."""
    metric, name = learner.metric_, f"{type(learner).__name__}.metric_"
    check_sound(metric, name)
    if isinstance(metric, MahalanobisMetric) and metric.matrix.size:
        eigenvalues = np.linalg.eigvalsh(metric.matrix)
        if eigenvalues[0] < -1e-9 * abs(eigenvalues[-1]) - np.finfo(float).tiny:
            raise Failed(f"{name} is not positive semi-definite: {eigenvalues}")


@cache
def _names(kind: Any, function: Any) -> re.Pattern[str]:
    names = set(inspect.signature(function).parameters)
    if inspect.isclass(kind):
        names |= set(inspect.signature(kind).parameters)
    return re.compile(r"\b(" + "|".join(sorted(names - {"self", "args", "kwargs"})) + r")\b")


class Log:
    """The calls of a case: what each was given and what it gave."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.before: list[Any] = []
        self.after: list[Any] = []

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call; return the result, or None after an error, and check both."""
        owner = getattr(function, "__self__", None)
        kind = owner if inspect.isclass(owner) else type(owner) if owner is not None else function
        name = f"{kind.__name__}.{function.__name__}" if owner is not None else function.__qualname__
        self.before.append((name, content(args), content(kwargs)))
        result = None
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                result = function(*args, **kwargs)
            outcome = content(result) if result is not owner or isinstance(owner, SavedEstimator) else None
        except (ValueError, TypeError, MemoryError) as error:  # the last of a learner beyond its max_memory
            plain = getattr(function, "__func__", function)
            if not (_names(kind, plain).search(str(error)) or _WORDS.search(str(error))):
                raise Failed(f"{name}: the error names no argument: {type(error).__name__}: {error}") from error
            outcome = type(error).__name__, re.sub(r"0x[0-9a-f]+|/\S*", "", str(error))
        except Exception as error:
            raise Failed(f"{name}: {type(error).__name__} is no documented error: {error}") from error
        self.results.append((name, outcome))
        self.after.append((name, content(args), content(kwargs)))
        for warning in told:
            if not (issubclass(warning.category, _WARNINGS) or _WARNED.search(str(warning.message))):
                raise Failed(f"{name}: it warned: {warning.category.__name__}: {warning.message}")
        if not isinstance(owner, NearestFilter):  # far from documents of a kind that it has not seen
            check_sound(result, name)
        return result


def run(case: int, seed: int, amount: int) -> int:
    first, second = Log(), Log()
    for log in (first, second):
        rng = np.random.default_rng([seed, case])
        pick(rng, _SESSIONS)(rng, log, 0.5 if chance(rng, 0.4) else 0.05)
    for (name, *given), (_, *now) in zip(second.before, first.after, strict=True):
        if given != now:
            raise Failed(f"{name} changed its arguments")
    for (name, result), (_, again) in zip(first.results, second.results, strict=True):
        if result != again:
            raise Failed(f"{name} gave two results")
    return len(first.results)


def _comparisons(rng: Rng, learner: Any, n: int, d: int, wild: float) -> tuple[Any, Any]:
    """Comparisons as the learner takes them, or not, and their labels."""
    of_pairs = not hasattr(learner, "average")
    if chance(rng, wild / 4):
        of_pairs = not of_pairs
    arity = 2 if of_pairs else 3
    y = signs(rng, n, wild) if of_pairs else None
    if chance(rng, 0.5):
        given = array(rng, n, arity, d, wild=wild)
        return given.tolist() if chance(rng, 0.2) else given.astype(np.float32) if chance(rng, 0.1) else given, y
    X = array(rng, 9, d, wild=0.0) * pick(rng, (1.0, 1e-160, 1e-80, 1e30, 1e40 if chance(rng, wild) else 1.0))
    X = sp.csr_array(X) if chance(rng, 0.3) else X
    kind = mahala.Pairs if of_pairs else mahala.Triplets
    return kind(X, *(rng.integers(0, 9, size=n) for _ in range(arity))), y


def _learner(rng: Rng, log: Log, wild: float) -> None:
    learner = _quick(pick(rng, ALL))
    known = learner.get_params(deep=False)
    if known and chance(rng, wild / 3):
        learner.set_params(**{pick(rng, sorted(known)): pick(rng, _VALUES)})
        if getattr(learner, "n_steps", None) == 10**30:
            learner.set_params(n_steps=20)  # a stream of so many steps is right, but long
    learner.set_params(**{name: 0 for name in ("random_state",) if name in known})
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, _WIDE + 1))
    online = isinstance(learner, OnlineLearner)
    with_rows = not online or chance(rng, 0.5)
    begin = learner.partial_fit if online and chance(rng, 0.3) else learner.fit
    given = (rows(rng, n, d, wild), classes(rng, n, wild)) if with_rows else _comparisons(rng, learner, n, d, wild)
    if log.call(begin, *given) is None:
        return
    check_learned(learner)
    d = learner.n_features_in_
    for _ in range(3):
        what = int(rng.integers(8))
        n = int(rng.integers(1, 8))
        if what == 0:
            log.call(learner.transform, rows(rng, n, d, wild))
        elif what == 1 and online:
            log.call(
                pick(rng, (learner.predict_comparisons, learner.margins)), _comparisons(rng, learner, n, d, wild)[0]
            )
        elif what == 2:
            log.call(
                learner.score,
                *(
                    _comparisons(rng, learner, n, d, wild)
                    if online and chance(rng, 0.5)
                    else (rows(rng, n + 3, d, wild), classes(rng, n + 3, wild))
                ),
            )
        elif what == 3 and online:
            log.call(learner.partial_fit, *_comparisons(rng, learner, n, d, wild))
        elif what == 4 and online:
            points = [vector(rng, d, wild) for _ in range(3 if hasattr(learner, "average") else 2)]
            label = (
                []
                if hasattr(learner, "average")
                else [pick(rng, (True, False, 1, -1, 1.0, 0, None, "x") if chance(rng, wild) else (True, False, 1, -1))]
            )
            log.call(learner.learn_one, *points, *label)
        elif what == 5:
            _saved(log, learner)
        else:
            _metric_calls(rng, log, learner.metric_, wild)
    check_learned(learner)


def _saved(log: Log, learner: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="campaign-", dir=_FOLDER) as folder:
        path = Path(folder, "model")
        learner.save(path)
        if content(mahala.load(path)) != content(learner):
            raise Failed(f"{type(learner).__name__} is another one when it is loaded")
    log.results.append(("save", None))


def _metric_calls(rng: Rng, log: Log, metric: Any, wild: float) -> None:
    d, n = metric.n_features_in, int(rng.integers(1, 8))
    x, x2, k = vector(rng, d, wild), vector(rng, d, wild), count(rng, n, wild)
    what = int(rng.integers(7))
    if what == 0:
        log.call(metric.similarity if isinstance(metric, BilinearMetric) else metric.distance, x, x2)
    elif what == 1:
        log.call(metric.pairwise, rows(rng, n, d, wild), rows(rng, 3, d, wild) if chance(rng, 0.5) else None)
    elif what == 2:
        log.call(metric.rank, x, rows(rng, n, d, wild), k)
    elif what == 3:
        log.call(
            metric.embed,
            rows(rng, n, d, wild),
            pick(rng, ("query", "item", "x", None) if chance(rng, wild) else ("query", "item")),
        )
    elif what == 4:
        told = log.call(metric.explain, x, x2)
        if told is not None:
            log.call(told.top, k)
    elif what == 5:
        log.call(metric.truncate, count(rng, d, wild))
    else:
        log.call(metric.margins, _comparisons(rng, pick(rng, ALL), n, d, wild)[0])


def _metric(rng: Rng, log: Log, wild: float) -> None:
    d = int(rng.integers(1, _WIDE + 1))
    A = array(rng, d, d, wild=wild)
    with np.errstate(all="ignore"):
        matrix: Any = A @ A.T if chance(rng, 0.8) else A
    if chance(rng, wild / 3):
        matrix = rows(rng, d, d, wild)
    if chance(rng, 0.5):
        metric = log.call(
            MahalanobisMetric,
            matrix,
            pick(rng, (None, 1.0, 0, np.nan, np.inf, "x") if chance(rng, wild) else (None, 1.0)),
        )
    else:
        metric = log.call(BilinearMetric, sp.csr_array(A) if chance(rng, 0.3) else matrix)
    for _ in range(3 if metric is not None else 0):
        _metric_calls(rng, log, metric, wild)


def _filter(rng: Rng, log: Log, wild: float) -> None:
    own = pick(rng, (Perceptron, PAUM, NearestFilter))()
    if chance(rng, wild / 3):
        own.set_params(**{pick(rng, sorted(own.get_params(deep=False))): pick(rng, _VALUES)})
        if getattr(own, "n_passes", None) == 10**30:
            own.set_params(n_passes=2)  # so many are right, but long
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, _WIDE + 1))
    if (
        log.call(
            own.fit, rows(rng, n, d, wild), rng.integers(0, 2, n) == 1 if chance(rng, 0.5) else classes(rng, n, wild)
        )
        is None
    ):
        return
    d = own.n_features_in_
    for _ in range(3):
        what, n = int(rng.integers(4)), int(rng.integers(1, 8))
        if what == 0:
            log.call(own.decision_function, rows(rng, n, d, wild))
        elif what == 1:
            log.call(own.predict, rows(rng, n, d, wild))
        elif what == 2:
            log.call(
                own.learn_one,
                vector(rng, d, wild),
                pick(rng, (True, False, 1, None, "x") if chance(rng, wild) else (True, False)),
            )
        else:
            log.call(
                own.partial_fit,
                rows(rng, n, d, wild),
                pick(rng, own.classes_.tolist()) if chance(rng, wild) else rng.choice(own.classes_, n),
            )


def _errors(X: Any, y: Any) -> list[Any]:
    """What `compare` gives, without the time that it took."""
    return [
        entry.errors for entry in mahala.compare(X, y, {"LDA": mahala.LDA()}, folds=2, repeats=1, n_neighbors=1).entries
    ]


def _labelled(rng: Rng, log: Log, wild: float) -> None:
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, _WIDE + 1))
    X, y = rows(rng, n, d, wild), classes(rng, n, wild)
    A = array(rng, d, d, wild=0.0)
    metric = pick(rng, (None, MahalanobisMetric(A @ A.T), BilinearMetric(A)))
    items = (rows(rng, n, d, wild), classes(rng, n, wild)) if chance(rng, 0.4) else (None, None)
    what = int(rng.integers(8))
    if what == 0:
        log.call(
            mahala.knn_error,
            metric,
            X,
            y,
            *items,
            n_neighbors=count(rng, n, wild),
            average=pick(rng, ("sample", "class")),
        )
    elif what == 1:
        log.call(mahala.evaluation.mean_average_precision, metric, X, y, *items)
    elif what == 2:
        log.call(mahala.evaluation.precision_at_k, metric, X, y, *items, k=count(rng, n, wild))
    elif what == 3:
        log.call(
            mahala.evaluation.refit,
            X,
            y,
            mahala.PCA() if chance(rng, 0.5) else mahala.RCA(),
            pick(rng, ("standard", "none", "x") if chance(rng, wild) else ("standard", "none")),
        )
    elif what == 4:
        log.call(_errors, X, y)
    elif what == 5:
        log.call(mahala.Pairs.from_labels, X, y, count(rng, 9, wild), random_state=0)
    elif what == 6:
        log.call(mahala.Triplets.from_labels, X, y, count(rng, 9, wild), random_state=0)
    else:
        kind, arity = pick(rng, ((mahala.Pairs, 2), (mahala.Triplets, 3)))
        log.call(kind, X, *(numbers(rng, n, n, wild) for _ in range(arity)))


def _search(rng: Rng, log: Log, wild: float) -> None:
    n, m, d = int(rng.integers(1, 6)), int(rng.integers(2, 9)), int(rng.integers(1, _WIDE + 1))
    queries, items = rows(rng, n, d, wild), rows(rng, m, d, wild)
    grades = array(rng, 6, 1, wild=wild / 2)
    grades = np.abs(grades) if chance(rng, 0.8) else grades
    triples = np.column_stack([rng.integers(0, n, 6), rng.integers(0, m, 6), grades])
    qrels = pick(
        rng,
        (
            triples,
            triples.tolist(),
            {0: {0: 1.0, 1: 0}},
            *([None, [], "x", triples[:, :2], {0: 1}] if chance(rng, wild) else []),
        ),
    )
    what = int(rng.integers(4))
    if what == 0:
        log.call(mahala_search.evaluate_ranking, queries, items, qrels, k=count(rng, m, wild), n_resamples=20)
    elif what == 1:
        log.call(mahala_search.Judgments.of, qrels, n, m)
    elif what == 2:
        log.call(friedman_holm, rows(rng, n + 1, d + 1, wild))
    else:
        adapter = mahala_search.QueryAdapter(random_state=0, n_folds=2)
        d = int(rng.integers(1, _WIDE + 1))
        for _ in range(3):
            m, query_id = int(rng.integers(1, 5)), pick(rng, (None, 7, "a", 1.5, (1, 2), True, b"x"))
            reactions = pick(
                rng,
                (
                    [True, *[False] * m][:m],
                    [0] * m,
                    [0.5] * m,
                    [1, *[0] * m][:m],
                    *([None, [2] * m, [np.nan] * m, [True]] if chance(rng, wild) else []),
                ),
            )
            log.call(adapter.learn_one, vector(rng, d, wild), rows(rng, m, d, wild), reactions, query_id=query_id)
            if hasattr(adapter, "n_features_in_"):
                log.call(adapter.embed, vector(rng, d, wild), query_id=query_id)
                log.call(adapter.rank, vector(rng, d, wild), rows(rng, m, d, wild), count(rng, m, wild), query_id)
        if what == 5:
            log.call(mahala_search.QueryAdapter(random_state=0, n_folds=2).fit, queries, items, qrels)


_SESSIONS = [_learner] * 6 + [_metric, _filter, _labelled, _labelled, _search]
