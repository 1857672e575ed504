"""Folds of answers over items, in which what is tested was not learned from."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mahala.comparisons.pairs import Comparisons, Pairs
from mahala.comparisons.triplets import Triplets
from mahala.support.arrays import BoolArray, FloatArray, IndexArray, Rows
from mahala.support.validation import is_sparse


class ItemFolds(NamedTuple):
    """The fold in which each answer is tested, -1 for none; its item of this fold; what each fold learns from."""

    tested: IndexArray
    items: IndexArray
    learned: list[IndexArray]

    def measure(
        self, values: Callable[[IndexArray, IndexArray], FloatArray | None], n_candidates: int
    ) -> tuple[FloatArray, IndexArray, IndexArray]:
        """Return the values of all candidates on the tested answers, and the folds and items of these answers.

        `values` gets the numbers of the answers to learn from and of those to test; None leaves the fold out.
        """
        measured = np.full((len(self.tested), n_candidates), np.nan)
        for fold, learned in enumerate(self.learned):
            test = np.flatnonzero(self.tested == fold)
            if len(test) and len(learned) and (of_fold := values(learned, test)) is not None:
                measured[test] = of_fold
        done = ~np.isnan(measured[:, 0])
        return measured[done], self.tested[done], np.unique(self.items[done], return_inverse=True)[1]


def compared_pairs(comparisons: Comparisons) -> tuple[IndexArray, IndexArray]:
    """Return the rows of the pair that should be nearer, and of that farther apart; -1 for a threshold."""
    columns = np.stack(comparisons._columns())  # type: ignore[arg-type]
    if isinstance(comparisons, Pairs):
        pairs, similar = columns[:2], columns[2].astype(bool)
        return np.where(similar, pairs, -1), np.where(similar, -1, pairs)
    return columns[:2], columns[[0, 2] if isinstance(comparisons, Triplets) else [2, 3]]


def folds_over_items(
    near: IndexArray, far: IndexArray, n_folds: int, rng: np.random.Generator, *, pairs_once: bool = False
) -> ItemFolds:
    """Divide items into folds: answers without any item of a fold are learned from, and those about one are tested.

    Both pairs of a tested answer must have an item of the fold. Else the distance of one of them is learned, from its
    rating for instance, and the answer is predicted without any knowledge of new items.

    Parameters
    ----------
    near, far : arrays of shape (2, n), the items of both pairs, numbered from 0; -1 for a threshold
    pairs_once : whether each pair of items is tested once, see :func:`with_pairs_once`
    """
    fold_of = np.append(rng.permutation(1 + int(max(near.max(), far.max()))) % n_folds, -1)
    first, second = np.where(near[0] < 0, far, near), np.where(near[0] < 0, near, far)
    is_new = (fold_of[second][:, np.newaxis] == fold_of[first]).any(axis=0) | (second[0] < 0)
    at, numbers = np.where(is_new[0], 0, 1), np.arange(near.shape[1])
    tested = np.where(is_new.any(axis=0), fold_of[first][at, numbers], -1)
    if pairs_once:
        tested = np.where(with_pairs_once(near, far, tested >= 0), tested, -1)
    of_items = fold_of[np.concatenate([near, far])]
    learned = [np.flatnonzero((of_items != fold).all(axis=0)) for fold in range(n_folds)]
    return ItemFolds(tested, first[at, numbers], learned)


def item_codes(X: Rows, rows: IndexArray) -> IndexArray:
    """Return a number for each of some rows, in their order; rows that are equal (of dense X) are one item.

    The row -1, a threshold, has the number -1.
    """
    numbers, codes = np.unique(rows[rows >= 0], return_inverse=True)
    if not is_sparse(X):
        _, first, equal = np.unique(np.asarray(X[numbers]), axis=0, return_index=True, return_inverse=True)
        codes = np.argsort(np.argsort(first))[equal.ravel()][codes.ravel()]
    items = np.full(rows.shape, -1, dtype=np.intp)
    items[rows >= 0] = codes.ravel()
    return items


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
