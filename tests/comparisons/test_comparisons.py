"""What pairs and triplets share: how they hold X, selection, and scikit-learn's splits."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score, train_test_split

from comparisons.cases import X, keys, moderate, similarity_of
from mahala.comparisons import Pairs, Triplets


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_x_is_kept_once_and_in_its_dtype(dtype: Any, order: Any) -> None:
    rows = np.asarray(X, dtype=dtype, order=order)
    for held in (Pairs(rows, [0], [1]), Triplets(rows, [0], [1], [2]), Pairs.from_labels(rows, [0, 0, 1, 1])):
        assert held.X.dtype == dtype
        assert np.shares_memory(held.X, rows)
        assert np.shares_memory(held[:1].X, rows)


def test_csr_keeps_its_arrays() -> None:
    rows = sp.csr_array(X.astype(np.float32))
    held = Pairs(rows, [0], [1])
    assert held.X.dtype == np.float32
    assert np.shares_memory(held.X.data, rows.data)
    assert held[:0].X is held.X


def test_many_pairs_cost_their_index_arrays_only() -> None:
    rows = np.ones((1000, 768), dtype=np.float32)
    left, right = np.random.default_rng(0).integers(1000, size=(2, 20_000))
    similar = left < right
    tracemalloc.start()
    pairs = Pairs(rows, left, right, similar)
    _, half = train_test_split(pairs, test_size=0.5, random_state=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.shares_memory(pairs.X, rows)
    assert half.X is pairs.X
    index_arrays = sum(array.nbytes for array in (left, right, similar))
    assert peak < 3 * index_arrays < rows.nbytes / 2


@pytest.mark.parametrize("route", [lambda p: p, lambda p: p[[1, 0]], lambda p: pickle.loads(pickle.dumps(p))])
def test_immutable_by_every_route(route: Any) -> None:
    left = np.array([0, 1])
    pairs = route(Pairs(X, left, [1, 2], [True, False]))
    left[0] = 99  # the caller's array stays the caller's
    assert sorted(pairs.left.tolist()) == [0, 1]
    for array in (pairs.left, pairs.right, pairs.similar):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    for name in ("X", "left", "similar", "anything"):
        with pytest.raises(AttributeError, match=name):
            setattr(pairs, name, left)
    with pytest.raises(AttributeError, match="left"):
        del pairs.left


def test_copies_are_equal() -> None:
    triplets = Triplets(X, [0, 1], [1, 2], [2, 3])
    for other in (pickle.loads(pickle.dumps(triplets)), copy.copy(triplets), copy.deepcopy(triplets)):
        np.testing.assert_array_equal(other.X, X)
        for name in ("anchor", "positive", "negative"):
            np.testing.assert_array_equal(getattr(other, name), getattr(triplets, name))


@moderate
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), keys(n))), st.booleans())
def test_selection_is_that_of_arrays(n_and_key: tuple[int, Any], with_ellipsis: bool) -> None:
    n, key = n_and_key
    rng = np.random.default_rng(n)
    columns = rng.integers(4, size=(3, n))
    similar = rng.random(n) < 0.5
    expected = np.arange(n)[key if not isinstance(key, list) or key else np.array([], dtype=int)]
    pairs = Pairs(X, columns[0], columns[1], similar)
    chosen = pairs[key, ...] if with_ellipsis else pairs[key]
    assert isinstance(chosen, Pairs)
    assert chosen.X is pairs.X
    np.testing.assert_array_equal(chosen.left, columns[0][expected])
    np.testing.assert_array_equal(chosen.right, columns[1][expected])
    np.testing.assert_array_equal(chosen.similar, similar[expected])
    assert chosen.left.flags.c_contiguous
    triplets = Triplets(X, *columns)[key]
    for name, column in zip(("anchor", "positive", "negative"), columns, strict=True):
        np.testing.assert_array_equal(getattr(triplets, name), column[expected])


@pytest.mark.parametrize("key", [1, np.int64(1), -1, np.array(1)])
def test_one_number_selects_a_length_of_one(key: Any) -> None:
    one = Pairs(X, [0, 1], [2, 3], [False, True])[key]
    assert (one.left.tolist(), one.right.tolist(), one.similar.tolist()) == ([1], [3], [True])


@pytest.mark.parametrize("key", [5, [0, 2], 0.5, ["a"], None, (0, 1), [[0]], [True, False, True]])
def test_wrong_keys(key: Any) -> None:
    with pytest.raises(IndexError):
        Pairs(X, [0, 1], [2, 3])[key]


def test_selection_does_not_check_x_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = Pairs(X, [0, 1], [2, 3])
    monkeypatch.setattr("mahala.comparisons.pairs.check_rows", None)
    assert len(pairs[:1]) == len(pairs[[1]]) == len(pickle.loads(pickle.dumps(pairs))[1]) == 1


def mean_distance() -> Any:
    """A small estimator."""

    class MeanDistance(BaseEstimator):
        """Calls a pair similar if it is nearer than `scale` times the mean distance of the training pairs."""

        def __init__(self, scale: float = 1.0) -> None:
            self.scale = scale

        def fit(self, pairs: Pairs, y: Any = None) -> Any:
            self.threshold_ = self.scale * np.linalg.norm(pairs.differences(), axis=1).mean()
            return self

        def score(self, pairs: Pairs, y: Any = None) -> float:
            near = np.linalg.norm(pairs.differences(), axis=1) < self.threshold_
            return float(np.mean(near == pairs.similar))

    return MeanDistance()


def separated_pairs() -> Pairs:
    y = np.repeat([0, 1], 20)
    rows = 10.0 * y[:, None] + np.random.default_rng(0).random((40, 2))
    return Pairs.from_labels(rows, y, random_state=0)


def test_scikit_learn_splits() -> None:
    pairs = separated_pairs()
    for splitter in (KFold(4), StratifiedKFold(4)):
        tests = [pairs[test] for _, test in splitter.split(pairs, pairs.y)]
        assert set().union(*map(similarity_of, tests)) == similarity_of(pairs)
        assert sum(map(len, tests)) == len(pairs) == 80
    train, test, y_train, y_test = train_test_split(pairs, pairs.y, test_size=0.25, stratify=pairs.y, random_state=0)
    assert (len(train), len(test)) == (60, 20)
    np.testing.assert_array_equal(train.y, y_train)
    np.testing.assert_array_equal(test.y, y_test)


@pytest.mark.parametrize("pickled", [False, True], ids=["", "as in another process"])
def test_scikit_learn_model_selection(pickled: bool) -> None:
    pairs = separated_pairs()
    if pickled:
        pairs = pickle.loads(pickle.dumps(pairs))
    assert cross_val_score(mean_distance(), pairs).tolist() == [1.0] * 5
    search = GridSearchCV(mean_distance(), {"scale": [0.01, 1.0]}).fit(pairs)
    assert search.best_params_ == {"scale": 1.0}
    assert search.best_estimator_.threshold_ == mean_distance().fit(pairs).threshold_
