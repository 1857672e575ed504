"""Compile ahead what the learners and evaluations would compile on first use."""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import mahala
from mahala.batch.batch_learner import BatchLearner
from mahala.comparisons import Pairs, Triplets
from mahala.compiled.search import neighbors
from mahala.compiled.search.quantised import compile_search
from mahala.compiled.sums import lmnn, pair_sums, softmax_sums, vote_sums, weighting
from mahala.learner import Learner
from mahala.metric import BilinearMetric
from mahala.online.pair_learner import PairLearner
from mahala.online.similarity_learner import SimilarityLearner
from mahala.saved_estimator import estimator_names, kind_named
from mahala.support.limits import COMPILING
from mahala.support.parameters import config_context

# Settings beside the defaults that run functions of their own.
_SETTINGS: dict[str, list[dict[str, Any]]] = {
    "PA": [
        {"psd": "end"},
        {"psd": "end", "n_steps": 1000},
        {"psd": 3},
        {"kernel": "rbf"},
        {"psd": "end", "variant": "LS"},
    ],
    "POLA": [{"gamma": 1.0}],
    "GML": [{"diagonal": True}, {"solver": "vsgd", "max_iter": 3}],
    "MMC": [{"diagonal": True}],
    "AROMA": [{"covariance": "diagonal"}],
    "SORS": [{"penalty": "offdiagonal"}],
}


def warm_up(tell: Callable[[int, str, int], None] | None = None) -> int:
    """Compile ahead what would be compiled on first use; return how many functions were compiled.

    What was compiled before, for this version of the package and this processor, is found in Numba's cache and not
    compiled again. A first run takes minutes. It covers every learner on rows of float64, those from all the data on
    float32, the online ones on sparse rows, and the evaluations; rare combinations of types are left to
    their first use.

    Parameters
    ----------
    tell : function of (parts done, the name of the next part, number of parts), called before each part and at the end
    """
    before, jobs = COMPILING.n_compiled, _jobs()
    # What is learned from so few rows is of no interest, nor is what there is to warn of.
    with _compiled_for_few_rows(), warnings.catch_warnings(), np.errstate(all="ignore"), config_context(engine=None):
        warnings.simplefilter("ignore")
        drawn = np.random.get_state()  # noqa: NPY002  (what the caller draws next is to stay the same)
        try:
            for number, (name, job) in enumerate(jobs):
                if tell is not None:
                    tell(number, name, len(jobs))
                job()
        finally:
            np.random.set_state(drawn)  # noqa: NPY002
    if tell is not None:
        tell(len(jobs), "", len(jobs))
    return COMPILING.n_compiled - before


@contextmanager
def _compiled_for_few_rows() -> Iterator[None]:
    """Let a few rows take the compiled ways of many."""
    limits = [(module, "FEW_PAIRS") for module in (lmnn, neighbors, pair_sums, softmax_sums, vote_sums, weighting)]
    limits += [(pair_sums, "FEW_PRODUCTS"), (pair_sums, "SPARSE_SHARE")]
    before = [getattr(module, name) for module, name in limits]
    try:
        for module, name in limits:
            setattr(module, name, 0)
        yield
    finally:
        for (module, name), value in zip(limits, before, strict=True):
            setattr(module, name, value)


def _jobs() -> list[tuple[str, Callable[[], object]]]:
    """Return the parts with their names, each quick once it is compiled."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 5)) + 2.0 * np.eye(3, 5)[y]
    kinds = [kind for kind in map(kind_named, estimator_names()) if kind is not None and issubclass(kind, Learner)]
    return [
        *((kind.__name__, partial(_learn, kind, X, y)) for kind in kinds),
        ("blocks of steps", partial(mahala.SORS(n_triplets=20, random_state=0).fit, np.tile(X, 60), y)),
        ("evaluations", partial(_evaluate, X, y)),
        ("feedback", partial(_adapt, X)),
        ("models that predict", partial(_predict, X, y)),
        ("Teacher", partial(mahala.Teacher, X)),
        ("search", compile_search),
    ]


def _learn(kind: Any, X: Any, y: Any) -> None:
    for setting in ({}, *_SETTINGS.get(kind.__name__, [])):
        if issubclass(kind, BatchLearner):
            for rows in (X, X.astype(np.float32)):
                learner = _new(kind, **({"max_iter": 3} if hasattr(kind, "tol") else {}) | setting).fit(rows, y)
                learner.score(rows, y)
            if kind._learns_from is not None:
                _new(kind, **setting).fit(kind._learns_from.from_labels(X, y, 100, random_state=0))
        elif issubclass(kind, PairLearner):
            _stream(_new(kind, **setting), Pairs.from_labels(X, y, 3 if "n_steps" in setting else 100, random_state=0))
            if "kernel" not in setting:
                _new(kind, **setting).fit(Pairs.from_labels(_wide(X), y, 20, random_state=0))
        elif issubclass(kind, SimilarityLearner):
            triplets = Triplets.from_labels(X, y, 100, random_state=0)
            for average in (False, True):
                for storage in ("dense", "sparse"):
                    if storage == "sparse" and kind is mahala.AROMA and "covariance" not in setting:
                        continue  # full covariances are dense
                    learner = _new(kind, **setting, storage=storage, average=average)
                    _stream(learner, triplets)
                    learner.partial_fit(Triplets.from_labels(sp.csr_array(X), y, 50, random_state=0))
                    wide = _new(kind, **setting, storage=storage, average=average)
                    wide.fit(Triplets.from_labels(_wide(X), y, 20, random_state=0)).score(_wide(X), y)
            if setting == {} and kind in (mahala.OASIS, mahala.OGD):
                _new(kind, storage="gram").fit(triplets)


def _predict(X: Any, y: Any) -> None:
    for kind in (mahala.NeighborClassifier, mahala.NeighborRegressor):
        kind(trees=False).fit(X, y).predict(X)


def _new(kind: Any, **params: Any) -> Any:
    """Return a learner with a seed of its own, so that the caller's random numbers stay what they would be.

    It does not shrink M, since a handful of triplets would be warned of.
    """
    learner = kind(**params)
    names = learner.get_params(deep=False)
    settings = {"random_state": 0} | ({"shrinkage": 0.0} if kind._learns_from is Triplets else {})
    return learner.set_params(**{name: value for name, value in settings.items() if name in names})


def _wide(X: Any) -> Any:
    """Return sparse rows of so many features that they are not handled as dense ones."""
    return sp.csr_array((X.ravel(), np.arange(X.size) * 7 % 300, np.arange(len(X) + 1) * X.shape[1]), (len(X), 300))


def _stream(learner: Any, comparisons: Any) -> None:
    if isinstance(comparisons, Pairs):
        one = comparisons.X[comparisons.left[0]], comparisons.X[comparisons.right[0]], True
    else:
        one = tuple(comparisons.X[numbers[0]] for numbers in comparisons._columns())
    learner.fit(comparisons)
    learner.partial_fit(comparisons)
    learner.learn_one(*one)
    learner.predict_comparisons(comparisons)
    if hasattr(learner, "lam"):
        learner.set_params(lam=2.0 * learner.lam).partial_fit(comparisons)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "learner.safetensors")
        learner.save(path)
        mahala.load(path).partial_fit(comparisons)


def _evaluate(X: Any, y: Any) -> None:
    mahala.compare(X, y, folds=2, repeats=1)
    mahala.knn_error(None, X, y)
    metric = BilinearMetric(np.eye(X.shape[1]))
    mahala.evaluation.mean_average_precision(metric, X, y)
    mahala.evaluate_ranking(X[:5], X, {0: {1: 1}, 1: {2: 2}})
    BilinearMetric(sp.eye_array(X.shape[1]).tocsr()).embed(X)


def _adapt(X: Any) -> None:
    adapter = mahala.QueryAdapter(random_state=0)
    for number in (0, 1, 0):  # a known query at the end
        clicked, signals = [False, True, False, False, False], {"score": range(5)}
        adapter.learn_one(X[number], shown=X[10:15], clicked=clicked, query_id=number, signals=signals)
    assert adapter.trust_
    mahala.QueryAdapter(random_state=0).fit(X[:5], X, {0: {1: 1}, 1: {2: 2}, 2: {3: 1}, 3: {4: 1}, 4: {5: 1}})
