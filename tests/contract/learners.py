"""Every learner that mahala exports, in the settings in which its promises must hold."""

from __future__ import annotations

import copy
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone

from mahala import testing
from mahala.batch.batch_learner import BatchLearner
from mahala.comparisons import Pairs
from mahala.learner import learner_kinds
from mahala.online.online_learner import OnlineLearner
from mahala.online.pair_learner import PairLearner
from mahala.online.similarity_learner import SimilarityLearner
from mahala.support.model_files import model_bytes, read_model

NAMES = ["ash", "beech", "elm", "fir", "oak"]  # of the features, where they have any

LEARNERS = learner_kinds()
ALL = [learner for kind in LEARNERS for learner in kind._test_instances()]
PAIR_LEARNERS = [learner for learner in ALL if isinstance(learner, PairLearner)]
TRIPLET_LEARNERS = [learner for learner in ALL if isinstance(learner, SimilarityLearner)]
# One learner of each base class: from pairs, from triplets, with iterations, in closed form, without labels.
REPRESENTATIVES = [
    next(learner for learner in ALL if type(learner).__name__ == name) for name in ("PA", "OASIS", "NCA", "RCA", "PCA")
]


def parametrize(learners):
    """A test for each of the learners, named after their settings."""
    return pytest.mark.parametrize("learner", learners, ids=repr)


every_learner = parametrize(ALL)
# One setting of each class, for what does not depend on settings.
every_kind = parametrize(list({type(learner): learner for learner in reversed(ALL)}.values()))
# For what the base classes do.
every_representative = parametrize(REPRESENTATIVES)
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


def needs_labels(learner):
    return learner.__sklearn_tags__().target_tags.required


def labels(comparisons):
    """What is to be predicted: of pairs their labels, of triplets that the positive is the more similar."""
    return comparisons.y if isinstance(comparisons, Pairs) else np.ones(len(comparisons), dtype=np.int8)


def as_stream(learner, comparisons):
    """A fresh learner of the same model that takes comparisons as they come.

    What is held by inner products is held in full instead.
    """
    if getattr(learner, "storage", None) == "gram":
        return clone(learner).set_params(storage="dense")
    return testing.as_stream(learner, comparisons)


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
