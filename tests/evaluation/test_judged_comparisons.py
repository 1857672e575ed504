"""Learners are judged on comparisons of items that they did not learn from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala import ITML, LMNN, MahalanobisMetric, Pairs, Triplets
from mahala.evaluation.judged_comparisons import _values, judge_comparisons, panel_for


def items(n=60, d=6, seed=0):
    """Items of two classes, which one of the features tells."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, 0] += 4.0 * codes
    return X, codes


def triplets(n=400, seed=0):
    X, _ = items(seed=seed)
    rng = np.random.default_rng(seed)
    anchor = rng.integers(0, 60, n)
    positive = (anchor + 2 * rng.integers(1, 30, n)) % 60
    return Triplets(X, anchor, positive, (anchor + 2 * rng.integers(0, 30, n) + 1) % 60)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_values_of_triplets_and_pairs(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(12, 2)).astype(float)
    metric = MahalanobisMetric.euclidean(2)
    roles = rng.integers(0, 12, size=(3, n))
    squared = lambda a, b: np.sum((X[a] - X[b]) ** 2)  # noqa: E731
    expected = []
    for a, p, q in roles.T:
        near, far = squared(a, p), squared(a, q)
        expected.append(1.0 if near < far else 0.5 if near == far else 0.0)
    everything = np.arange(n)
    np.testing.assert_array_equal(_values(metric, Triplets(X, *roles), everything[:0], everything), expected)
    similar = rng.random(n) < 0.5
    similar[:2] = [True, False][:n]
    if n < 2:
        return
    pairs = Pairs(X, roles[0], roles[1], similar)
    train, test = everything[: max(2, n // 2)], everything[n // 2 :]
    distances = np.array([squared(a, b) for a, b in zip(roles[0], roles[1], strict=True)])
    # No other threshold is right for more of the pairs learned from.
    found = _values(metric, pairs, train, train).mean()
    ends = [-1.0, *(np.unique(distances[train]) + 0.5)]
    assert found == pytest.approx(max(((distances[train] <= end) == similar[train]).mean() for end in ends))
    values = _values(metric, pairs, train, test)
    assert set(values) <= {0.0, 1.0}
    same = [i for i in range(len(test)) if test[i] in train]
    np.testing.assert_array_equal(values[same], _values(metric, pairs, train, test[same]))


class Spy(LMNN):
    """Notes the items that it learned from."""

    seen: list = []  # noqa: RUF012  (shared by clones on purpose)

    def fit(self, X, y=None):
        Spy.seen.append(set(np.concatenate([X.anchor, X.positive, X.negative]).tolist()))
        return super().fit(X, y)


def test_items_of_the_test_fold_are_not_learned_from():
    Spy.seen.clear()
    data = triplets()
    judged = judge_comparisons(data, {"LMNN": Spy(max_iter=5)}, folds=4)
    assert len(Spy.seen) == 4
    assert all(len(seen) == 45 for seen in Spy.seen)
    assert len(set().union(*(set(range(60)) - seen for seen in Spy.seen))) == 60
    assert set(judged.values) == {"Euclidean", "LMNN"}
    assert (judged.verdict.units, judged.verdict.n) == ("items", len(np.unique(data.anchor)))


def test_a_feature_that_matters_is_learned():
    judged = judge_comparisons(triplets(), {"LMNN": LMNN(max_iter=50)})
    assert judged.chosen == "LMNN"
    assert judged.verdict.kind == "shown to help"
    assert judged.values["LMNN"] > judged.values["Euclidean"]


def test_random_answers_teach_nothing():
    rng = np.random.default_rng(0)
    X, _ = items()
    left, right = rng.integers(0, 60, size=(2, 300))
    judged = judge_comparisons(Pairs(X, left, right, rng.random(300) < 0.5), {"ITML": ITML(random_state=0)})
    assert (judged.chosen, judged.verdict.helps) == ("Euclidean", False)
    assert "of the learned map is served" not in judged.verdict.sentence


def test_too_few_items():
    data = triplets(4)
    data = Triplets(data.X, np.zeros(4, dtype=int), data.positive, data.negative)
    judged = judge_comparisons(data, panel_for(data))
    assert (judged.chosen, judged.verdict.kind) == ("Euclidean", "too early to tell")
    assert judged.verdict.n <= 1
