"""Compile ahead what the learners and evaluations would compile on first use."""

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import mahala
from mahala.batch.batch_learner import BatchLearner
from mahala.comparisons import Comparisons, Pairs, Triplets
from mahala.compiled.sums.pair_sums import add_pull
from mahala.learner import Learner, learner_kinds
from mahala.metric import BilinearMetric
from mahala.online.pair_learner import PairLearner
from mahala.online.similarity_learner import SimilarityLearner
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.limits import COMPILING
from mahala.support.parameters import config_context

# So many steps that a stream is not left to NumPy.
MANY_STEPS = 5000


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
    with warnings.catch_warnings(), np.errstate(all="ignore"), config_context(engine=None):
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


def _jobs() -> list[tuple[str, Callable[[], object]]]:
    """Return the parts with their names, each quick once it is compiled."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3  # so many rows that what has a way for few takes the compiled one
    X = rng.normal(size=(400, 5)) + 2.0 * np.eye(3, 5)[y]
    return [
        *((kind.__name__, partial(_learn, kind, X, y)) for kind in learner_kinds()),
        ("sums of few weights", _sum_few_weights),
        ("evaluations", partial(_evaluate, X, y)),
        ("models that predict", partial(_predict, X, y)),
        ("Teacher", partial(mahala.Teacher, X)),
        *((entry.name, lambda entry=entry: entry.load()()) for entry in entry_points(group="mahala.warming")),
    ]


def _learn(kind: type[Learner], X: FloatArray, y: IndexArray) -> None:
    for learner in kind._test_instances():
        if isinstance(learner, BatchLearner):
            _fit(learner, X, y)
        elif isinstance(learner, PairLearner):
            # With a kernel the model is as large as the number of rows.
            pairs = Pairs.from_labels(X[:12], y[:12], 60, random_state=0)[np.arange(MANY_STEPS) % 60]
            _stream(learner, pairs)
            if "n_steps" in learner.get_params():
                clone(learner).set_params(n_steps=MANY_STEPS).fit(pairs[:3])
            if learner.get_params().get("kernel") is None:
                _stream(clone(learner), Pairs.from_labels(_wide(X), y, 20, random_state=0))
        elif isinstance(learner, SimilarityLearner):
            _learn_similarity(learner, X, y)


def _fit(learner: BatchLearner, X: FloatArray, y: IndexArray) -> None:
    for rows in (X, X.astype(np.float32)):
        _short(learner).fit(rows, y).score(rows, y)
    if learner._learns_from is not None:
        _short(learner).fit(learner._learns_from.from_labels(X, y, 100, random_state=0))


def _learn_similarity(learner: SimilarityLearner, X: FloatArray, y: IndexArray) -> None:
    learner.set_params(shrinkage=0.0)  # which a handful of triplets would be warned of
    triplets = Triplets.from_labels(X, y, MANY_STEPS, random_state=0)
    if learner.storage == "gram":
        learner.fit(triplets)
        return
    for average in (False, True):
        stream = clone(learner).set_params(average=average, dtype="float64")
        _stream(stream, triplets)
        stream.partial_fit(Triplets.from_labels(sp.csr_array(X), y, 50, random_state=0))
        stream.fit(Triplets.from_labels(_wide(X), y, 1000, random_state=0)).score(_wide(X), y)


def _sum_few_weights() -> None:
    """Add the pull of few weights between so many rows that a loop over them pays."""
    for dtype in (np.float32, np.float64):
        rows, Z = slice(0, 300), np.zeros((300, 50), dtype)
        add_pull(np.zeros((300, 300), dtype), 0, Z, rows, rows, np.zeros_like(Z), np.zeros(300, dtype))


def _predict(X: FloatArray, y: IndexArray) -> None:
    for kind in (mahala.NeighborClassifier, mahala.NeighborRegressor):
        kind(trees=False).fit(X, y).predict(X)


def _short(learner: BatchLearner) -> BatchLearner:
    """Return a copy that ends after a few iterations."""
    copied: BatchLearner = clone(learner)
    return copied.set_params(**{"max_iter": 3} if "max_iter" in learner.get_params() else {})


def _wide(X: FloatArray) -> sp.csr_array:
    """Return sparse rows of so many features that they are not handled as dense ones."""
    return sp.csr_array((X.ravel(), np.arange(X.size) * 7 % 300, np.arange(len(X) + 1) * X.shape[1]), (len(X), 300))


def _stream(learner: Any, comparisons: Comparisons) -> None:
    if isinstance(comparisons, Pairs):
        one = comparisons.X[comparisons.left[0]], comparisons.X[comparisons.right[0]], True
    else:
        one = tuple(comparisons.X[numbers[0]] for numbers in comparisons._columns() if numbers is not None)
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


def _evaluate(X: FloatArray, y: IndexArray) -> None:
    mahala.compare(X, y, folds=2, repeats=1)
    mahala.knn_error(None, X, y)
    metric = BilinearMetric(np.eye(X.shape[1]))
    mahala.evaluation.mean_average_precision(metric, X, y)
    BilinearMetric(sp.eye_array(X.shape[1]).tocsr()).embed(X)
