"""Answers are tested on items, and on ratings, that were not learned from."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mahala import Triplets
from mahala.comparisons.folds import compared_pairs, folds_over_items, item_codes, with_pairs_once


@given(st.integers(0, 2**16), st.sampled_from(["pairs", "triplets", "quadruplets"]))
def test_both_pairs_of_a_tested_answer_have_an_item_of_the_fold(seed, kind):
    rng = np.random.default_rng(seed)
    near, far = rng.integers(8, size=(2, 2, 20))
    if kind == "pairs":
        similar = rng.random(20) < 0.5
        near, far = np.where(similar, near, -1), np.where(similar, -1, near)
    elif kind == "triplets":
        far[0] = near[0]
    near[0, :2], far[1, :2] = 7, 7  # the largest item is compared
    folds = folds_over_items(near, far, 3, np.random.default_rng(seed))
    fold_of = np.random.default_rng(seed).permutation(8) % 3
    for at, (fold, item) in enumerate(zip(folds.tested, folds.items, strict=True)):
        pairs = [set(pair[:, at].tolist()) for pair in (near, far) if pair[0, at] >= 0]
        possible = [number for number in sorted(pairs[0]) if all(fold_of[number] in fold_of[list(p)] for p in pairs)]
        assert (fold >= 0) == bool(possible)
        if possible:
            assert item in possible
            assert fold == fold_of[item]
    if kind != "quadruplets":  # the first item decides
        assert folds.tested.tolist() == fold_of[np.where(near[0] < 0, far[0], near[0])].tolist()
    items = np.concatenate([near, far])
    for fold, learned in enumerate(folds.learned):
        without = [at for at in range(20) if all(fold_of[item] != fold for item in items[:, at] if item >= 0)]
        assert learned.tolist() == without


def test_a_pair_is_tested_once():
    near, far = np.array([[0, 1, 2, 4], [1, 0, 3, 5]]), np.array([[2, 6, 6, 6], [3, 7, 7, 7]])
    assert with_pairs_once(near, far, np.array([True, True, True, True])).tolist() == [True, False, False, True]
    assert with_pairs_once(near, far, np.array([False, True, True, True])).tolist() == [False, True, False, False]


def test_equal_rows_are_one_item():
    X = np.array([[5.0], [1.0], [5.0], [2.0], [9.0]])
    assert item_codes(X, np.array([[3, 0], [2, 1]])).tolist() == [[2, 0], [0, 1]]


def test_the_values_of_tested_answers():
    triplets = Triplets(np.eye(6), [0, 1, 2, 0], [1, 2, 3, 4], [2, 3, 4, 5])
    folds = folds_over_items(*compared_pairs(triplets), 3, np.random.default_rng(0))
    seen = []

    def values(learned, test):
        seen.append(test.tolist())
        return None if 0 in test else np.stack([test, 2 * test], axis=1)

    found, tested, items = folds.measure(values, 2)
    rows = [at for test in seen if 0 not in test for at in test]
    assert sorted(found[:, 0].tolist()) == sorted(rows)
    np.testing.assert_array_equal(found[:, 1], 2 * found[:, 0])
    assert tested.tolist() == folds.tested[np.sort(rows)].tolist()
    assert len(set(items.tolist())) == len({int(triplets.anchor[at]) for at in rows})
