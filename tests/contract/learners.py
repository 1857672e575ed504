"""Every learner that mahala exports, in the settings in which the contract must hold, and how to talk to each."""

from __future__ import annotations

import copy
import inspect
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import mahala
from mahala import BilinearMetric, Pairs, Triplets
from mahala.batch.batch_learner import BatchLearner
from mahala.learner import Learner
from mahala.online.online_learner import OnlineLearner
from mahala.online.pair_learner import PairLearner
from mahala.online.similarity_learner import SimilarityLearner
from mahala.saved_estimator import estimator_names, kind_named
from mahala.support.model_files import model_bytes, read_model

NAMES = ["ash", "beech", "elm", "fir", "oak"]  # of the features, where they have any

LEARNERS = [
    kind for kind in map(kind_named, sorted(estimator_names())) if kind is not None and issubclass(kind, Learner)
]

# One setting for each class and way to hold the model; the other parameters are spread over them. What only one class
# has is tested in its own file.
_SETTINGS = {
    "PA": [
        {"min_step": 0.02, "variant": "LS"},
        {"variant": "I", "psd": "end", "C": 0.1, "init": "random"},
        {"variant": "II", "psd": 3, "C": 0.1, "init": "identity"},
        {"kernel": "cosine", "psd": 4},
        {"kernel": "poly", "kernel_params": {"gamma": 0.3}, "psd": "end", "variant": "LS", "C": 0.1},
    ],
    "POLA": [{}, {"gamma": 1.0, "kernel": "rbf"}],
    "LEGO": [{}, {"eta": 5.0, "similar_target": 2.0, "dissimilar_target": 20.0}],
    "RDML": [{}],
    "OASIS": [
        {},
        {"storage": "gram", "average": True, "init": "zero"},
        {"storage": "sparse", "average": True, "dtype": "float32"},
    ],
    # The storages of OASIS, which takes other steps.
    "OGD": [{"eta": 0.125, "storage": "dense", "dtype": "float32", "average": True, "init": "zero"}],
    "SORS": [
        {"eta": 0.125, "lam": 0.0625, "storage": "dense", "penalty": "offdiagonal", "average": True, "init": "zero"},
        {"eta": 0.125, "lam": 0.0625, "storage": "sparse"},
    ],
    "AdaSORS": [
        {"lam": 0.01, "storage": "dense"},
        {"lam": 0.01, "storage": "sparse", "average": True, "penalty": "offdiagonal"},
    ],
    "NCA": [{"max_iter": 10, "n_components": 2}],
    "MLKR": [{"max_iter": 10, "n_components": 2}],
    "GML": [{}, {"diagonal": True}, {"solver": "vsgd", "max_iter": 3}, {"n_components": 2, "alpha": 0.5}],
    "MMC": [{}, {"diagonal": True}],
    "BoostMetric": [{"max_iter": 30, "validation_fraction": 0.2}],
    "PSDBoost": [{"max_iter": 3}],
    "LMNN": [{"max_iter": 20}, {"max_iter": 20, "n_components": 2, "n_neighbors": 1}],
    "LogisticMetric": [{}, {"prior": "covariance", "n_components": 2, "noise": 0.1}],
    "ITML": [{"prior": "covariance", "gamma": 0.1}],
    "LSML": [{"gamma": 10.0}],
    "SDML": [{"sparsity": 0.1}],
    "SCML": [{"beta": 1e-60, "max_iter": 20}],  # such that rows may have any unit
    "RCA": [{"n_components": 2}],
    "Covariance": [{}],
    "LFDA": [{"n_components": 2}],
    "LDA": [{"shrinkage": "auto", "n_components": 2}],
    "PCA": [{"n_components": 2, "whiten": True}],
    "Relief": [{"n_samples": 30}],
    "Simba": [{"n_starts": 2}],
    "MDM": [{}],
    "AROMA": [{}, {"covariance": "diagonal", "storage": "sparse", "dtype": "float32", "average": True}],
}


def few(kind):
    """What keeps a learner quick that by default draws thousands of comparisons or bases, or tries many penalties."""
    if issubclass(kind, mahala.LogisticMetric):
        return {"n_pairs": 100, "lam": 0.01}
    if issubclass(kind, mahala.batch.SCML):
        return {"n_bases": 12}
    return {"n_triplets": 150} if issubclass(kind, SimilarityLearner) else {}


def instances():
    """A fresh instance for each setting; a learner without settings of its own is tried with its defaults."""
    for kind in LEARNERS:
        for setting in _SETTINGS.get(kind.__name__, [{}]):
            seed = {"random_state": 0} if "random_state" in inspect.signature(kind).parameters else {}
            yield kind(**seed, **few(kind), **setting)


ALL = list(instances())
PAIR_LEARNERS = [learner for learner in ALL if isinstance(learner, PairLearner)]
TRIPLET_LEARNERS = [learner for learner in ALL if isinstance(learner, SimilarityLearner)]


def parametrize(learners):
    """A test for each of the learners, named after their settings."""
    return pytest.mark.parametrize("learner", learners, ids=repr)


every_learner = parametrize(ALL)
# One setting of each class, for what does not depend on settings: the checks of input are those of the base class.
every_kind = parametrize(list({type(learner): learner for learner in reversed(ALL)}.values()))
every_online_learner = parametrize([learner for learner in ALL if isinstance(learner, OnlineLearner)])
every_batch_learner = parametrize([learner for learner in ALL if isinstance(learner, BatchLearner)])
# Those that take more comparisons after the first ones.
every_stream = parametrize(
    [learner for learner in ALL if isinstance(learner, OnlineLearner) and getattr(learner, "storage", None) != "gram"]
)


def short(learner):
    """A copy that ends after two iterations, for what does not depend on their number."""
    return clone(learner).set_params(**{"max_iter": 2} if "max_iter" in learner.get_params() else {})


_FITTED = {}


def fitted_to(learner, labelled):
    """A copy of the learner that is fitted to the rows of the fixture `labelled`: each setting is fitted once."""
    if learner not in _FITTED:
        _FITTED[learner] = clone(learner).fit(*labelled)
    return copy.deepcopy(_FITTED[learner])


@contextmanager
def case(name):
    """One of many cases in one test: what fails says which one it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {name!r}")
        raise


def same_model(one, other):
    """The same to the last bit."""
    a, b = one.metric_, other.metric_
    assert sp.issparse(a.matrix) == sp.issparse(b.matrix)
    np.testing.assert_array_equal(dense(a.matrix), dense(b.matrix))
    assert getattr(a, "threshold", None) == getattr(b, "threshold", None)


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def tolerance(learner):
    """How near two ways to the same model come, relative: as near as the numbers that it is held in."""
    return 1e-4 if getattr(learner, "dtype", None) == "float32" else 1e-10


def needs_labels(learner):
    return learner.__sklearn_tags__().target_tags.required


def draw(learner, X, y, n=150, random_state=1):
    """Comparisons of the kind that the learner learns from; of those that learn from rows, Triplets."""
    kind = Pairs if isinstance(learner, PairLearner) else getattr(learner, "_learns_from", None) or Triplets
    return kind.from_labels(X, y, n, random_state=random_state)


def labels(comparisons):
    """What is to be predicted: of pairs their labels, of triplets that the positive is the more similar."""
    return comparisons.y if isinstance(comparisons, Pairs) else np.ones(len(comparisons), dtype=np.int8)


def roles(comparisons):
    """The names of the row numbers of comparisons."""
    return ("left", "right") if isinstance(comparisons, Pairs) else type(comparisons)._names


def as_array(comparisons):
    """The comparisons as one array, and the y that goes with it."""
    array = np.stack([comparisons.X[getattr(comparisons, role)] for role in roles(comparisons)], axis=1)
    return array, getattr(comparisons, "y", None)


def single_comparisons(comparisons):
    """The arguments of `learn_one` for each comparison."""
    array, y = as_array(comparisons)
    for number, rows in enumerate(array):
        yield (*rows, y[number]) if y is not None else tuple(rows)


def feed_one_by_one(learner, comparisons):
    """Learn from one comparison after the other; returns what was predicted."""
    return np.where([learner.learn_one(*arguments) for arguments in single_comparisons(comparisons)], 1, -1)


def as_stream(learner, comparisons):
    """A fresh learner of the same model that takes comparisons as they come.

    What is held by inner products is held in full instead. LEGO takes targets that are "auto" from the pairs that come
    first: here it gets those of all pairs.
    """
    fresh = clone(learner)
    if getattr(learner, "storage", None) == "gram":
        return fresh.set_params(storage="dense")
    if isinstance(learner, mahala.LEGO):
        whole = clone(learner).fit(comparisons)
        fresh.set_params(similar_target=whole.similar_target_, dissimilar_target=whole.dissimilar_target_)
    return fresh


def models_agree(one, other, comparisons, rtol=None):
    """Same metric and threshold; with a kernel the same distances, since rounding may choose another basis."""
    rtol = tolerance(one) if rtol is None else rtol
    a, b = one.metric_, other.metric_
    assert type(a) is type(b)
    if getattr(one, "kernel", None) is None:
        want = dense(b.matrix)
        np.testing.assert_allclose(dense(a.matrix), want, rtol=0, atol=rtol * np.abs(want).max())
    left, right = as_array(comparisons)[0][:, :2].swapaxes(0, 1)
    if isinstance(a, BilinearMetric):
        got, expected = (metric.similarity(left, right) for metric in (a, b))
    else:
        assert a.threshold == (None if b.threshold is None else pytest.approx(b.threshold, rel=rtol))
        got, expected = (metric.distance(left, right, squared=True) for metric in (a, b))
    np.testing.assert_allclose(got, expected, rtol=0, atol=10 * rtol * np.abs(expected).max())


def rewritten(path, header=None, arrays=None):
    """A copy of a learner's file with other entries in its header or other arrays; an array None is left out."""
    old_header, old_arrays = read_model(path, "learner")
    kept = {name: array for name, array in (old_arrays | (arrays or {})).items() if array is not None}
    copy = path.with_name(f"other-{path.name}")
    changes = dict(header or {})
    model = {key: changes.pop(key) for key in list(changes) if key in old_header.get("model", ())}
    if model:
        changes["model"] = old_header["model"] | model
    copy.write_bytes(model_bytes("learner", kept, old_header | changes))
    return copy
