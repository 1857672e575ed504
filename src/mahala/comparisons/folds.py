"""Folds of answers over items, in which what is tested was not learned from."""

from typing import Any

import numpy as np

from mahala.support.arrays import BoolArray, IndexArray
from mahala.support.validation import is_sparse


def item_codes(X: Any, rows: IndexArray) -> IndexArray:
    """Return a number for each of some rows, in their order; rows that are equal (of dense X) are one item."""
    numbers, codes = np.unique(rows, return_inverse=True)
    codes = codes.reshape(np.shape(rows))
    if not is_sparse(X):
        _, first, equal = np.unique(np.asarray(X[numbers]), axis=0, return_index=True, return_inverse=True)
        codes = np.argsort(np.argsort(first))[equal.ravel()][codes]
    return np.asarray(codes)


def folds_over_items(near: IndexArray, far: IndexArray, fold_of: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return the fold in which each answer is tested, -1 for none, and the item of this fold in its first pair.

    Both pairs of an answer must have an item of the fold. Else the distance of one of them is learned, from its rating
    for instance, and the answer is predicted without any knowledge of new items.

    Parameters
    ----------
    near, far : arrays of shape (2, n), the items of both pairs; -1 for a threshold
    fold_of : fold of each item
    """
    first, second = np.where(near[0] < 0, far, near), np.where(near[0] < 0, near, far)
    of_first, of_second = fold_of[first], np.where(second < 0, -1, fold_of[second])
    is_new = ((of_second[:, np.newaxis] == of_first).any(axis=0)) | (second[0] < 0)
    at = np.where(is_new[0], 0, 1)
    numbers = np.arange(near.shape[1])
    return np.where(is_new.any(axis=0), of_first[at, numbers], -1), first[at, numbers]


def with_pairs_once(near: IndexArray, far: IndexArray, candidates: BoolArray) -> BoolArray:
    """Return which candidates to test so that no pair of items is in two of them, the first ones first.

    Quadruplets made of ratings share them: if one rating is wrong by chance, all its comparisons are.
    """
    chosen, seen = np.zeros(len(candidates), dtype=bool), set[frozenset[int]]()
    for at in np.flatnonzero(candidates):
        both = {frozenset(near[:, at].tolist()), frozenset(far[:, at].tolist())}
        if not both & seen:
            seen |= both
            chosen[at] = True
    return chosen
