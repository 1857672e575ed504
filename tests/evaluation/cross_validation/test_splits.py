"""Training and test parts, and columns that look like ids of groups."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.evaluation.cross_validation.splits import auto_repeats, group_columns, is_large, parts_of

SEEDS = st.integers(0, 2**32 - 1)


def check_parts(parts, n, repeats):
    """Each row is tested once in each repetition, and never trained on at the same time."""
    tested = np.zeros(n, dtype=int)
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(n))
        tested[test] += 1
    assert (tested == repeats).all()


@given(st.integers(2, 5), st.integers(1, 3), st.lists(st.integers(5, 30), min_size=2, max_size=4), SEEDS)
def test_classes_have_the_same_shares_in_all_parts(folds, repeats, sizes, seed):
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    parts = parts_of(codes, folds, repeats, seed)
    check_parts(parts, len(codes), repeats)
    assert len(parts) == folds * repeats
    for _, test in parts:
        for code, size in enumerate(sizes):
            assert abs((codes[test] == code).sum() - size / folds) < 1.0


@given(st.integers(2, 5), st.integers(1, 3), st.integers(5, 40), SEEDS, st.booleans())
def test_a_group_is_in_one_part(folds, repeats, n_groups, seed, numbers):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, 60)]))
    codes = None if numbers else rng.permutation(np.arange(len(groups)) % 2)
    parts = parts_of(codes, folds, repeats, seed % 1000, groups, None, len(groups))
    check_parts(parts, len(groups), repeats)
    for train, test in parts:
        assert not set(groups[train]) & set(groups[test])
    if repeats > 1 and n_groups > 15:
        first, second = parts[: len(parts) // repeats], parts[len(parts) // repeats :]
        assert any(not np.array_equal(one[1], two[1]) for one, two in zip(first, second, strict=False))


def test_numbers_are_split_at_random():
    parts = parts_of(None, 4, 2, 0, n_rows=40)
    check_parts(parts, 40, 2)
    assert len(parts) == 8
    assert all(len(test) == 10 for _, test in parts)


@given(st.integers(2, 5), st.integers(2, 30), st.integers(1, 60), SEEDS, st.booleans())
def test_the_past_predicts_the_future(folds, n_moments, n_more, seed, grouped):
    rng = np.random.default_rng(seed)
    times = rng.permutation(np.concatenate([np.arange(n_moments), rng.integers(0, n_moments, n_more)])).astype(float)
    groups = rng.integers(0, 30, len(times)) if grouped else None
    if grouped:
        groups[times == n_moments - 1] = 30 + rng.integers(0, 3)  # new groups at the end
    parts = parts_of(np.arange(len(times)) % 2, folds, 1, 0, groups, times)
    assert 1 <= len(parts) <= folds
    ends = []
    for train, test in parts:
        assert times[train].max() < times[test].min()
        assert set(np.flatnonzero(times < times[test].min())) >= set(train)
        if not grouped:
            np.testing.assert_array_equal(train, np.flatnonzero(times < times[test].min()))
        else:
            assert not set(groups[train]) & set(groups[test])
        ends.append((times[test].min(), times[test].max()))
    for (_, end), (start, _) in pairwise(ends):
        assert end < start  # stretches follow each other
    if not grouped:
        assert ends[-1][1] == times.max()


def test_one_moment_has_no_future():
    with pytest.raises(ValueError, match="times must have a past and a future, got 1 different values"):
        parts_of(np.arange(6) % 2, 3, 1, 0, None, np.zeros(6))


def test_times_of_equal_stretches():
    parts = parts_of(np.arange(60) % 2, 5, 1, 0, None, np.arange(60.0)[::-1].copy())
    assert len(parts) == 5
    assert sum(len(test) for _, test in parts) + len(parts[0][0]) == 60
    assert all(9 <= len(test) <= 11 for _, test in parts)


@pytest.mark.parametrize(("n", "repeats"), [(20, 5), (112, 5), (125, 4), (499, 2), (500, 1), (3_001, 1)])
def test_small_tables_are_repeated_more_often(n, repeats):
    assert auto_repeats(n) == repeats


def test_wide_tables_are_large():
    assert [is_large(1_000, d) for d in (1_000, 1_001)] == [False, True]


def households(n_groups=60, seed=0):
    """Rows of households with one label each, ids without an order, ages that the label follows, and noise."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), rng.integers(2, 6, n_groups))
    codes = rng.integers(0, 2, n_groups)[groups]
    ids = rng.permutation(1000)[:n_groups][groups]
    age = np.clip(rng.integers(20, 50, len(groups)) + 15 * codes, 20, 60)
    X = np.column_stack([ids, age, rng.integers(0, 40, len(groups)), rng.normal(size=len(groups))]).astype(float)
    return X, codes, groups


FEATURES = {"household": [0], "age": [1], "noise": [2], "size": [3]}


@pytest.mark.parametrize("seed", range(5))
def test_an_id_whose_rows_share_the_label_is_found(seed):
    X, codes, groups = households(seed=seed)
    name, numbers = group_columns(X, codes, FEATURES)[0]
    assert name == "household"
    assert len(np.unique(numbers)) == 60
    assert len(set(zip(numbers.tolist(), groups.tolist(), strict=True))) == 60
    flipped = codes ^ (np.random.default_rng(seed).random(len(codes)) < 0.05)  # nearly all rows share it
    assert group_columns(X, flipped.astype(int), FEATURES)[0][0] == "household"


@pytest.mark.parametrize("seed", range(5))
def test_ages_and_noise_are_no_ids(seed):
    X, codes, _ = households(seed=seed)
    rng = np.random.default_rng(seed)
    others = {name: numbers for name, numbers in FEATURES.items() if name != "household"}
    assert group_columns(X, codes, others) == []
    assert group_columns(X, rng.permutation(codes), FEATURES) == []
    age = np.sort(X[:, 1])
    steep = (age + rng.normal(0.0, 1.0, len(age)) > np.median(age)).astype(int)  # rows of one age share the label
    assert group_columns(age[:, None], steep, {"age": [0]}) == []
    several = np.arange(len(codes))  # of which each row has another
    assert group_columns(several[:, None].astype(float), codes, {"row": [0]}) == []


def test_categories_may_be_ids():
    _, codes, groups = households()
    one_hot = np.eye(60)[groups]
    [(name, numbers)] = group_columns(one_hot, codes, {"family": list(range(60))})
    assert name == "family"
    assert len(set(zip(numbers.tolist(), groups.tolist(), strict=True))) == 60
