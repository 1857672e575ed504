"""The number of neighbours is the best one for rows of the training part that are left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import GroupKFold, LeaveOneOut

from evaluation.cross_validation.test_measuring import plan_of
from mahala.evaluation.cross_validation.voting import chosen_neighbors, predictions


def table(measure, seed, n=72):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2 if measure in ("f1", "roc_auc") else np.minimum(np.arange(n) % 6, 2)
    X = rng.normal(size=(n, 3)) + (0.5 + 0.3 * (seed % 3)) * codes[:, None]
    return X, codes + 0.8 * rng.normal(size=n) if measure == "r2" else codes


def slow_losses(measure, X, y, counts, splits):
    """The loss for each number of neighbours, by sorted distances, with some rows left out at a time."""
    found = []
    orders = {}
    for train, test in splits:
        for row in test:
            orders[row] = train[np.argsort(np.square(X[train] - X[row]).sum(axis=1))]
    for k in counts.tolist():
        nearest = np.array([y[orders[row][:k]] for row in range(len(y))])
        if measure == "r2":
            predicted = nearest.mean(axis=1)
        else:
            votes = np.stack([(nearest == code).sum(axis=1) for code in np.unique(y)], axis=1)
            predicted, scores = votes.argmax(axis=1), votes[:, 0] / k
        if measure == "r2":
            loss = np.mean(np.square(predicted - y))
        elif measure == "error":
            loss = np.mean(predicted != y)
        elif measure == "balanced":
            loss = np.mean([np.mean(predicted[y == code] != code) for code in np.unique(y)])
        else:
            loss = 1.0 - (f1_score(y, predicted, pos_label=0) if measure == "f1" else roc_auc_score(y == 0, scores))
        found.append(loss)
    return np.array(found)


def smooth(losses):
    return np.array([losses[max(at - 2, 0) : at + 3].mean() for at in range(len(losses))])


@pytest.mark.parametrize("measure", ["error", "balanced", "f1", "roc_auc", "r2"])
def test_the_best_number_when_rows_are_left_out_one_by_one(measure):
    chosen = set()
    for seed in range(4):
        X, y = table(measure, seed)
        plan = plan_of(X, y, measure=measure, n_neighbors=None)
        train = plan.parts[0][0]
        k = chosen_neighbors(plan, 0, X[train], plan.target.select(train))
        losses = smooth(slow_losses(measure, X[train], y[train], plan.counts, list(LeaveOneOut().split(train))))
        assert losses[k - 1] == pytest.approx(losses.min())
        assert not (losses[: k - 1] < losses.min() + 1e-9).any()  # of equal ones the smallest
        chosen.add(k)
        assert chosen_neighbors(plan_of(X, y, n_neighbors=5), 0, X[train], plan.target.select(train)) == 5
    assert len(chosen) > 1


def test_rows_of_a_group_are_left_out_together():
    """Rows of a household are alike and share a label: one by one, the nearest row would foresee it."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 3)
    y = rng.integers(0, 2, 60)[groups]
    X = rng.normal(size=(60, 2))[groups] + 0.4 * y[:, None] + 0.01 * rng.normal(size=(180, 2))
    plan = plan_of(X, y, n_neighbors=None, groups=groups, counts=np.arange(1, 26))
    rows = np.arange(180)
    plan = replace(plan, parts=[(rows, rows[:0])])
    k = chosen_neighbors(plan, 0, X, plan.target)
    splits = list(GroupKFold(5).split(X, y, groups % 5))
    losses = smooth(slow_losses("error", X, y, plan.counts, splits))
    assert losses[k - 1] == pytest.approx(losses.min())
    assert k > 1
    assert chosen_neighbors(replace(plan, groups=None), 0, X, plan.target) == 1


def test_of_many_rows_some_are_left_out_one_by_one(monkeypatch):
    X, y = table("error", 0)
    plan = plan_of(X, y, n_neighbors=None)
    rows = np.array([3, 10, 11, 40])
    every, _ = predictions(X, plan.target, None, plan.counts)
    some, _ = predictions(X, plan.target, None, plan.counts, left_out=rows)
    np.testing.assert_array_equal(some, every[rows])
    monkeypatch.setattr("mahala.evaluation.cross_validation.voting._MOST_LEFT_OUT", 20)
    train = plan.parts[0][0]
    k = chosen_neighbors(plan, 0, X[train], plan.target.select(train))
    assert k == chosen_neighbors(plan, 0, X[train], plan.target.select(train))
    chosen = np.sort(np.random.default_rng(0).choice(len(train), 20, replace=False))
    wrong = (predictions(X[train], plan.target.select(train), None, plan.counts)[0] != y[train][:, None])[chosen]
    assert k == 1 + smooth(wrong.mean(axis=0)).round(12).argmin()


def test_equal_rows_of_which_some_are_left_out():
    """Many are at the same distance, so that the search goes on."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(200, 2)).astype(float)
    plan = plan_of(X, rng.integers(0, 3, 200), n_neighbors=None)
    rows = np.sort(rng.choice(200, 30, replace=False))
    every, means = predictions(X, plan.target, None, plan.counts, keep=True)
    some, of_some = predictions(X, plan.target, None, plan.counts, keep=True, left_out=rows)
    np.testing.assert_array_equal(some, every[rows])
    np.testing.assert_array_equal(of_some, means[:, rows])


def test_two_rows_have_one_neighbour():
    plan = plan_of(np.arange(9.0)[:, None], np.arange(9) % 3, n_neighbors=None, counts=np.arange(1, 3))
    rows = np.array([0, 1])
    plan = replace(plan, parts=[(rows, np.array([2]))])
    assert chosen_neighbors(plan, 0, plan.X[rows], plan.target.select(rows)) == 1
