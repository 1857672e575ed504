"""Rows with several labels: which are similar, and pairs, triplets and quadruplets drawn of them, by brute force."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from mahala import Pairs, Quadruplets, Triplets
from mahala.support import tags as tags_module
from mahala.support.tags import TagSets, read_tags

TAGS = [{"a"}, {"a", "b"}, set[str](), {"b", "c"}, {"c"}, {"a"}, {"d", "a"}]
X = np.random.default_rng(0).normal(size=(len(TAGS), 2))
INDICATOR = np.array([[tag in tags for tag in "abcd"] for tags in TAGS])

tag_sets = st.lists(st.frozensets(st.sampled_from("abcde")), min_size=2, max_size=9)


def relation(tags, least=0.0):
    """The similar rows, by the definition; no row is similar to itself."""
    index = np.array([[len(a & b) / max(1, len(a | b)) for b in tags] for a in tags])
    return (index > 0.0) & (index >= least) & ~np.eye(len(tags), dtype=bool), index


@given(tag_sets, st.sampled_from([0.0, 0.4, 0.5, 2 / 3, 1.0]), st.sampled_from([1, 4096]))
def test_relation_and_places(tags, least, most):
    similar, index = relation(tags, least)
    everyone = np.arange(len(tags))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tags_module, "MOST_RELATED", most)
        patch.setattr(tags_module, "row_blocks", lambda n, width: (slice(i, min(i + 2, n)) for i in range(0, n, 2)))
        sets = read_tags(tags, len(tags), least)
        left, right = (each.ravel() for each in np.indices(similar.shape))
        np.testing.assert_array_equal(sets.jaccard(left, right).reshape(similar.shape), index)
        np.testing.assert_array_equal(
            sets.similar(left, right).reshape(similar.shape) & (left != right).reshape(similar.shape), similar
        )
        np.testing.assert_array_equal(sets.similar_to(everyone) & ~np.eye(len(tags), dtype=bool), similar)
        order, counts, later = sets.order, sets.n_similar(), sets.n_similar(later=True)
        np.testing.assert_array_equal(counts, similar[order].sum(axis=1))
        for place, row in enumerate(order):
            after = order[place + 1 :]
            for kind in (True, False):
                others = similar[row] == kind
                others[row] = False
                n = others.sum()
                ranks = sets.place(np.full(n, place), np.arange(n), kind)
                assert sorted(order[ranks]) == np.flatnonzero(others).tolist()
                n = others[after].sum()
                assert n == (later[place] if kind else len(after) - later[place])
                ranks = sets.place(np.full(n, place), np.arange(n), kind, later=True)
                assert sorted(order[ranks]) == sorted(after[others[after]])


@pytest.mark.parametrize(
    "y",
    [
        TAGS,
        [list(tags) * 2 for tags in TAGS],
        pd.Series(TAGS),
        pl.Series([sorted(tags) for tags in TAGS]),
        np.array([*TAGS, None], dtype=object)[:-1],
        INDICATOR,
        INDICATOR.astype(float),
        INDICATOR.tolist(),
        pd.DataFrame(INDICATOR, columns=list("abcd")),
        sp.csr_matrix(INDICATOR),
        sp.coo_array(INDICATOR),
        np.hstack([INDICATOR, np.zeros((len(TAGS), 2), dtype=bool)]),
    ],
)
def test_all_forms_are_the_same(y):
    pairs = Pairs.from_labels(X, y, n=20, random_state=0)
    expected, _ = relation(TAGS)
    assert sorted(zip(pairs.left, pairs.right, strict=True)) == sorted(set(zip(pairs.left, pairs.right, strict=True)))
    np.testing.assert_array_equal(pairs.similar, expected[pairs.left, pairs.right])
    assert read_tags(y, len(TAGS)).n_classes == 5  # with those without a tag


def test_a_sparse_column_is_a_tag_and_a_dense_one_a_class():
    column = np.array([[1], [1], [0]])
    assert isinstance(read_tags(sp.csr_array(column), 3), TagSets)
    assert read_tags(column, 3) is None
    assert read_tags([1, 1, 0], 3) is None
    assert read_tags([[1, 2], [2, 3], [0, 5]], 3).n_classes == 5  # not only 0 and 1


@pytest.mark.parametrize("balance", [0.0, 0.25, 1.0, None])
def test_pairs_are_uniform(balance):
    similar, _ = relation(TAGS)
    n, counts = 4, Counter()
    for seed in range(250):
        pairs = Pairs.from_labels(X, TAGS, n=n, balance=balance, random_state=seed)
        assert (pairs.left < pairs.right).all()
        np.testing.assert_array_equal(pairs.similar, similar[pairs.left, pairs.right])
        assert len(set(zip(pairs.left, pairs.right, strict=True))) == n
        assert balance is None or pairs.similar.sum() == n * balance
        counts.update(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
    rows = np.stack(np.triu_indices(len(TAGS), 1))
    for kind in (True, False):
        seen = [counts[left, right] for left, right in rows.T.tolist() if similar[left, right] == kind]
        if balance is not None and balance == float(not kind):
            assert not any(seen)
        else:
            assert chisquare(seen).pvalue > 1e-4


def test_all_pairs_of_either_kind_can_be_drawn():
    similar, _ = relation(TAGS, 0.5)
    n_similar = similar.sum() // 2
    n_other = len(TAGS) * (len(TAGS) - 1) // 2 - n_similar
    assert len(Pairs.from_labels(X, TAGS, n=n_similar, balance=1, jaccard=0.5)) == n_similar
    assert len(Pairs.from_labels(X, TAGS, n=n_other, balance=0, jaccard=0.5)) == n_other
    with pytest.raises(ValueError, match=f"asks for {n_similar + 1} similar pairs, but only {n_similar}"):
        Pairs.from_labels(X, TAGS, n=n_similar + 1, balance=1, jaccard=0.5)


def test_triplets_are_uniform():
    similar, _ = relation(TAGS)
    triplets = Triplets.from_labels(X, TAGS, n=20_000, random_state=0)
    assert similar[triplets.anchor, triplets.positive].all()
    assert not similar[triplets.anchor, triplets.negative].any()
    assert (triplets.anchor != triplets.negative).all()
    anchors = np.bincount(triplets.anchor, minlength=len(TAGS))
    assert anchors[2] == 0  # without a tag
    assert chisquare(np.delete(anchors, 2)).pvalue > 1e-4
    for anchor in range(len(TAGS)):
        for other in (triplets.positive, triplets.negative):
            counts = np.bincount(other[triplets.anchor == anchor], minlength=len(TAGS))
            assert np.count_nonzero(counts) < 2 or chisquare(counts[counts > 0]).pvalue > 1e-4


def test_quadruplets_are_in_the_order_of_jaccard():
    _, index = relation(TAGS)
    q = Quadruplets.from_labels(X, TAGS, n=200, random_state=0)
    assert len(q) > 10
    near, far = index[q.near_left, q.near_right], index[q.far_left, q.far_right]
    assert (near > far).all()
    assert (far > 0.0).any()


@given(tag_sets, st.integers(1, 4), st.sampled_from([0.0, 0.5]))
def test_neighbors(tags, k, least):
    rows = np.random.default_rng(0).integers(4, size=(len(tags), 2)).astype(float)  # with ties
    similar, _ = relation(tags, least)
    if not similar.any():
        with pytest.raises(ValueError, match="y must have two rows that share a tag"):
            Pairs.from_neighbors(rows, tags, k, jaccard=least)
        return
    pairs, expected = Pairs.from_neighbors(rows, tags, k, jaccard=least), set()
    for i in range(len(tags)):
        for kind in (True, False):
            others = [j for j in range(len(tags)) if j != i and similar[i, j] == kind]
            others.sort(key=lambda j: (np.square(rows[i] - rows[j]).sum(), j))
            expected |= {(i, j, kind) for j in others[:k]}
    assert set(zip(pairs.left, pairs.right, pairs.similar, strict=True)) == expected
    near = {i: [j for a, j, kind in expected if a == i and kind] for i in range(len(tags))}
    far = {i: [j for a, j, kind in expected if a == i and not kind] for i in range(len(tags))}
    triplets = Triplets.from_neighbors(rows, tags, k, jaccard=least)
    given_triplets = set(zip(triplets.anchor, triplets.positive, triplets.negative, strict=True))
    assert given_triplets == {(i, j, l) for i in near for j in near[i] for l in far[i]}


def test_one_tag_each_is_a_class_each():
    y = np.array(["a", "b", "b", "c", "a", "c", "c"])
    tags = [{label} for label in y]
    pairs, of_tags = Pairs.from_neighbors(X, y, 2), Pairs.from_neighbors(X, tags, 2)
    for name in ("left", "right", "similar"):
        np.testing.assert_array_equal(getattr(pairs, name), getattr(of_tags, name))
    everything = {"n": 21, "random_state": 0}
    pairs, of_tags = Pairs.from_labels(X, y, **everything), Pairs.from_labels(X, tags, jaccard=1.0, **everything)
    assert pairs.similar.sum() == of_tags.similar.sum() == 5


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        ([{"a"}] * 6, "tags for each of the 7 rows, got 6"),
        ([*TAGS[:6], None], "a set or list of tags for each row, got None for row 6"),
        ([*TAGS[:6], {None}], "got a missing value for row 6"),
        ([*TAGS[:6], [["a"]]], "such as text or integers"),
        (2 * INDICATOR, "an indicator matrix of 0 and 1, .*give a set for each row, got 2"),
        (np.where(INDICATOR, np.nan, 0.0), "an indicator matrix .* got nan"),
        ([{"a"}] * 7, "at least two classes, got one"),
    ],
)
def test_what_is_wrong_is_named(y, problem):
    with pytest.raises(ValueError, match=problem):
        Pairs.from_labels(X, y)


def test_draws_that_are_impossible():
    everything = [{"a", "b"}] * 7
    with pytest.raises(ValueError, match="dissimilar pairs, but only 0"):
        Pairs.from_labels(X, everything, n=2, balance=0.5)
    for y in (everything, [set("abcdefg"[i]) for i in range(7)], [set[str]()] * 6 + [{"a"}]):
        with pytest.raises(ValueError, match="a row that shares tags with one row and none with another"):
            Triplets.from_labels(X, y)
    with pytest.raises(ValueError, match="jaccard must be"):
        Pairs.from_labels(X, TAGS, jaccard=1.5)
