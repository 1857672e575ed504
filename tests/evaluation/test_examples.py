"""A few rows that a model has not seen, and why one of them is predicted so."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from mahala import NeighborClassifier, NeighborRegressor
from mahala.data import TablePreprocessor
from mahala.evaluation.compare import compare
from mahala.evaluation.examples import examples_of

QUICK = {"linear": True, "trees": False, "n_bins": 2}


def table(n=90):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    kind = np.where(rng.random(n) < 0.8, np.array(["a", "b", "c"])[y], "a")
    return pandas.DataFrame({"size": rng.normal(size=n) + 1.5 * y, "kind": kind, "noise": rng.normal(size=n)}), y


def test_rows_that_were_held_out_from_the_least_to_the_most_certain():
    frame, y = table()
    made = TablePreprocessor()
    X, labels = made.fit_transform(frame), np.array(["x", "y", "z"])[y]
    model = NeighborClassifier(**QUICK)
    board = compare(X, labels, {"it": model}, folds=3, repeats=1, baselines=False, preprocessor=made)
    numbers = np.arange(90) + 1000  # of a file in which some rows come before
    found = examples_of(X, labels, model, board, names=made.feature_groups(), preprocessor=made, numbers=numbers)
    train, test = board.first_part
    fitted = NeighborClassifier(**QUICK).fit(X[train], labels[train])
    assert (found.name, found.n_fitted) == ("NeighborClassifier", 60)
    shares = fitted.predict_proba(X[test]).max(axis=1)
    assert [own.probability for own in found.examples] == sorted(own.probability for own in found.examples)
    assert found.examples[0].probability == pytest.approx(shares.min())
    assert found.examples[-1].probability == pytest.approx(shares.max())
    for own in found.examples:
        assert own.row - 1000 in test
        assert own.actual == labels[own.row - 1000]
        assert own.predicted == fitted.predict(X[[own.row - 1000]])[0]
    reasons = found.reasons
    assert reasons.prediction == found.examples[0].predicted
    assert set(reasons.columns) == set(reasons.line) == {"size", "kind", "noise"}
    assert sum(reasons.columns.values()) == pytest.approx(1.0)
    assert all(row - 1000 in train and labels[row - 1000] == label for row, label, _ in reasons.rows)
    assert found.cells()[0] == ["row", "predicted", "probability", "actual"]
    assert "fitted to 60 rows, predicts others, the least certain first:" in found.heading()


def test_numbers_from_the_smallest_to_the_largest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = 100.0 + 10.0 * X[:, 0]
    model = NeighborRegressor(**QUICK)
    board = compare(X, y, {"it": model}, folds=2, repeats=1, baselines=False)
    found = examples_of(X, y, model, board)
    predicted = [own.predicted for own in found.examples]
    assert predicted == sorted(predicted)
    assert {own.probability for own in found.examples} == {None}
    assert found.cells()[0] == ["row", "predicted", "actual"]
    assert set(found.reasons.columns) == {"x0", "x1", "x2"}
