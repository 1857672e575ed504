"""The bridge to river: a classifier by neighbours under a metric that is learned from the stream."""

from __future__ import annotations

import copy
import pickle
from itertools import islice

import numpy as np
import pytest
from sklearn.datasets import load_wine

import mahala

pytest.importorskip("river", reason="river is not installed: pip install 'mahala[river]'")
checks = pytest.importorskip("river.checks")
MetricClassifier = pytest.importorskip("mahala.river").MetricClassifier

X, Y = load_wine(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = (X / X.std(axis=0))[ORDER], Y[ORDER].tolist()
NAMES = [f"x{i:02}" for i in range(13)]
STREAM = [(dict(zip(NAMES, row.tolist(), strict=True)), y) for row, y in zip(X, Y, strict=True)]


def fed(model, stream=STREAM):
    for x, y in stream:
        model.learn_one(x, y)
    return model


def rows_of(model):
    return np.array([row for row, _ in model._window])


def test_rivers_own_checks_pass(monkeypatch):
    """With one of its settings, as which learner it has does not matter to them, and 60 rows instead of 200."""
    datasets = checks._yield_datasets
    monkeypatch.setattr(
        checks, "_yield_datasets", lambda model, scale=1: (islice(own, 60 * scale) for own in datasets(model, scale))
    )
    checks.check_estimator(MetricClassifier(**next(iter(MetricClassifier._unit_test_params()))))


def test_neighbours_under_the_learned_metric_vote():
    model = fed(MetricClassifier(n_neighbors=7, window_size=60, seed=1))
    np.testing.assert_array_equal(rows_of(model), X[-60:])
    x = STREAM[3][0]
    distances = model.metric_.distance(X[3], X[-60:], squared=True)
    votes = [Y[-60:][at] for at in np.argsort(distances)[:7]]
    assert model.predict_proba_one(x) == {label: votes.count(label) / 7 for label in dict.fromkeys(Y)}
    assert model.predict_one(x) == max(set(votes), key=votes.count)
    assert not np.allclose(model.metric_.matrix, np.eye(13))
    assert list(model.metric_.feature_names) == NAMES


@pytest.mark.parametrize("learner", [mahala.PA(), mahala.OASIS(), mahala.online.RDML()], ids=repr)
def test_the_metric_is_that_of_the_comparisons_with_rows_of_the_window(learner, monkeypatch):
    seen = []
    original = type(learner).learn_one
    monkeypatch.setattr(type(learner), "learn_one", lambda self, *rows: seen.append(rows) or original(self, *rows))
    model = fed(MetricClassifier(learner, window_size=20, n_partners=2, seed=1), STREAM[:50])
    monkeypatch.undo()
    labels = {row.tobytes(): y for row, y in zip(X, Y, strict=True)}
    places = {row.tobytes(): at for at, row in enumerate(X)}
    expected = type(learner)()
    for row, *others in seen:
        given = [other for other in others if isinstance(other, np.ndarray)]
        assert all(0 < places[row.tobytes()] - places[other.tobytes()] <= 20 for other in given)
        similar = [labels[other.tobytes()] == labels[row.tobytes()] for other in given]
        assert similar == ([others[1]] if len(given) == 1 else [True, False])
        expected.learn_one(row, *others)
    assert 90 <= len(seen) <= 200
    np.testing.assert_array_equal(model.metric_.matrix, expected.metric_.matrix)
    assert not hasattr(learner, "n_steps_")  # a copy learned


def test_learning_helps():
    """The same neighbours by Euclidean distances are those of a learner that no comparison changes."""
    scores = []
    for learner in (None, mahala.PA(init="identity", min_step=1e9)):
        model, right = MetricClassifier(learner, window_size=100, seed=1), 0
        for x, y in STREAM:
            noisy = x | {f"noise{i}": 2.0 * np.sin(1e4 * (i + x["x00"])) for i in range(12)}
            right += model.predict_one(noisy) == y
            model.learn_one(noisy, y)
        scores.append(right / len(STREAM))
    assert model.metric_ is None
    assert scores[0] > scores[1] + 0.02


def test_a_new_feature_starts_again_from_the_window():
    short = [({name: x[name] for name in NAMES[:5]}, y) for x, y in STREAM]
    model = fed(fed(MetricClassifier(window_size=30, seed=1), short[:80]), STREAM[80:81])
    assert rows_of(model).shape == (30, 13)
    np.testing.assert_array_equal(rows_of(model)[:-1, :5], X[51:80, :5])
    assert not rows_of(model)[:-1, 5:].any()
    assert model._stream.n_steps_ <= 2 * 30
    before = model.metric_.matrix.copy()
    fed(model, short[:1])  # a feature that is missing is 0, and nothing starts again
    assert not rows_of(model)[-1, 5:].any()
    assert model.predict_proba_one({"unknown": 3.0, "x00": 1.0})
    assert model.metric_.matrix.shape == before.shape


def test_copies_go_on_alike():
    model = fed(MetricClassifier(mahala.OASIS(), unit_rows=True, seed=3), STREAM[:90])
    np.testing.assert_allclose(np.linalg.norm(rows_of(model), axis=1), 1.0)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        fed(other, STREAM[90:])
        again = fed(copy.deepcopy(model), STREAM[90:])
        np.testing.assert_array_equal(other.metric_.matrix, again.metric_.matrix)
    fresh = model.clone()
    assert fresh.predict_proba_one(STREAM[0][0]) == {}
    assert fresh.predict_one(STREAM[0][0]) is None
    assert fresh.metric_ is None


def test_what_is_wrong_is_said():
    with pytest.raises(TypeError, match=r"learner must be an online learner, such as mahala.PA\(\), got LDA"):
        MetricClassifier(mahala.LDA())
    with pytest.raises(ValueError, match="n_neighbors must be an integer of at least 1, got 0"):
        MetricClassifier(n_neighbors=0)
    with pytest.raises(ValueError, match="feature 'colour' must be a number, got 'red': encode it first"):
        MetricClassifier().learn_one({"colour": "red"}, 1)
