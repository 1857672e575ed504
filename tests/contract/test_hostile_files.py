"""Model files with wrong entries: what a field that a class declares cannot hold is refused.

`FIELDS` says what is tried. What several fields must have in common is tested beside their class.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.base import clone

import mahala
import mahala_search
from contract.learners import ALL, case
from mahala.online.online_learner import OnlineLearner
from mahala.saved_estimator import restored
from mahala.support.model_files import ModelFileError
from mahala.support.states import Array, Entry, Group, Integer, Number, Objects, Part, Stateful, Texts

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.integers(0, 3, 60)


def estimators():
    """Estimators with every kind of state."""
    adapter = mahala_search.QueryAdapter(user_cap=9, random_state=0)
    for at in range(12):
        signals = {"score": X[at : at + 3, 0]}
        adapter.learn_one(X[at], X[at + 10 : at + 13], [0, 1, 0], query_id=at % 3, user=at % 2, signals=signals)
    yield adapter
    yield mahala.PA(C="auto").fit(X, Y)
    wide = RNG.normal(size=(60, 100))  # of few features, and in few steps, nothing is kept beside M
    yield mahala.PA().fit(
        mahala.Pairs(wide, RNG.integers(60, size=300), RNG.integers(60, size=300), RNG.random(300) < 0.5)
    )
    yield mahala.OASIS(shrinkage=0.5).fit(mahala.Triplets.from_labels(X, Y, 50, random_state=0))
    yield from (clone(learner).fit(X, Y) for learner in ALL if isinstance(learner, OnlineLearner))


def declared(kind):
    """The fields that a class itself declares."""
    for field in vars(kind).get("FIELDS", ()):
        yield from field.fields if isinstance(field, Group) else (field,)


def places(state, path=()):
    """Each object with a state, the class that declares a field of it, the field, and the parts in which it is."""
    for kind in type(state).__mro__:
        for field in declared(kind):
            parts = field._by_key(getattr(state, field.name)) if isinstance(field, Part) else []
            yield state, kind, field, (*path, parts[0][0] if parts else field.key)
            for key, part in parts:
                yield from places(part, (*path, key))
    if isinstance(state, OnlineLearner):
        yield from places(state._model, ("model",))


def wrong_entries(field):
    """What is not in the header for a field."""
    if isinstance(field, Part):
        return [[], "x"]
    if isinstance(field, Entry):
        return [1, "no"]
    if isinstance(field, Objects):
        return [{}, "x", [1], [{}], [{"kind": "x"}], [{"kind": "scales"}]]
    if isinstance(field, Texts):
        return ["x", [1], ["x", "x"]]
    if isinstance(field, Integer):
        return [-1, 0.5, "1", True, 2**62, np.inf]
    assert isinstance(field, Number)
    bounds = [field.least - 1.0, 2.0 * abs(field.most) + 1.0]
    return ["1", True, 10**400, np.nan, np.inf, -np.inf, *(bound for bound in bounds if np.isfinite(bound))]


def wrong_arrays(field, state, array):
    """What is not in the file for an array."""
    yield array.astype(np.float32 if array.dtype == np.float64 else np.float64)
    yield array[..., np.newaxis]
    shape = field.shape(state) if callable(field.shape) else field.shape or array.shape
    for axis, length in enumerate(shape):
        if length:
            yield np.repeat(array, 2, axis)
    numbers = [np.nan, np.inf, -np.inf] if array.dtype.kind == "f" else []
    for number in (*numbers, *(bound for bound in (field.least - 1.0, field.most + 1.0) if np.isfinite(bound))):
        if array.size:
            changed = array.copy()
            changed.flat[-1] = number
            yield changed


def hostile_files(state, field, path, header, arrays):
    """The headers and arrays of files with a wrong value, or none, of a field."""
    if isinstance(field, Array):
        name = ".".join(path)
        wrong = [None] * (not field.optional) + list(wrong_arrays(field, state, arrays[name]))
        return [(header, {key: a for key, a in (arrays | {name: array}).items() if a is not None}) for array in wrong]
    files = []
    for value in [None] * (not field.optional) + wrong_entries(field):
        changed = inner = copy.deepcopy(header)
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        files.append((changed, arrays))
    return files


def is_in_file(path, header, arrays):
    for key in path:
        header = header.get(key) if header else None
    return header is not None or ".".join(path) in arrays


def subclasses(kind):
    return {kind}.union(*map(subclasses, kind.__subclasses__()))


def test_what_no_field_can_hold_is_refused():
    tried = set()
    for estimator in estimators():
        header, arrays = estimator.to_parts()
        for state, kind, field, path in places(estimator):
            if (type(state), kind, field.name) in tried or not is_in_file(path, header, arrays):
                continue
            tried.add((type(state), kind, field.name))
            for number, file in enumerate(hostile_files(state, field, path, header, arrays)):
                with case(f"{estimator!r}: {path} {number}"), pytest.raises(ModelFileError, match="not hold a whole"):
                    restored("the file", *file)
    kinds = [kind for kind in subclasses(Stateful) | subclasses(OnlineLearner) if kind.__module__.startswith("mahala")]
    assert {(kind, field.name) for kind in kinds for field in declared(kind)} <= {each[1:] for each in tried}


@pytest.mark.parametrize("name", [None, 1, ["PA"], {"PA": 1}, "Pa", "compare", "mahala.PA"])
def test_what_is_no_name_of_an_estimator_is_refused(name):
    with pytest.raises(ModelFileError, match="that this version of mahala does not know"):
        restored("the file", {"learner": name}, {})
