"""Quadruplets of rows, given or made of pairs with ratings."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.comparisons.pairs import Comparisons, column_names, draw_pairs
from mahala.support.arrays import FloatArray, IndexArray, RowsLike
from mahala.support.parameters import Count, Seed, check_seed, check_value
from mahala.support.tags import Labels, TagSets, n_classes, row_labels
from mahala.support.validation import check_rows, to_numpy

# Up to so many quadruplets, `from_ratings` makes all that there are.
_MOST_RATED = 20_000


class Quadruplets(Comparisons):
    """Quadruplets of rows: the first two should be nearer to each other than the last two.

    X keeps its dtype and is not copied; a selection of quadruplets refers to the same X.

    Parameters
    ----------
    X : array, memory map, CSR matrix or data frame of shape (n_rows, n_features)
    near_left, near_right : row numbers of the pair that should be nearer
    far_left, far_right : row numbers of the pair that should be farther apart

    Examples
    --------
    >>> Quadruplets([[0.0], [1.0], [5.0]], near_left=[0], near_right=[1], far_left=[1], far_right=[2])
    <Quadruplets: 1 over X of shape (3, 1), float64>
    """

    _arity = 4
    _names = ("near_left", "near_right", "far_left", "far_right")
    __slots__ = _names
    near_left: IndexArray
    near_right: IndexArray
    far_left: IndexArray
    far_right: IndexArray

    def __init__(
        self, X: RowsLike, near_left: ArrayLike, near_right: ArrayLike, far_left: ArrayLike, far_right: ArrayLike
    ) -> None:
        names, rows = column_names(X), check_rows(X)
        self._store(rows, *self._checked_numbers(rows, None, near_left, near_right, far_left, far_right), names=names)

    @classmethod
    def from_labels(
        cls, X: RowsLike, y: ArrayLike, n: int | Literal["auto"] = "auto", *, random_state: Seed = None
    ) -> Self:
        """Compare pairs of one class with pairs of two classes: the first ones should be nearer.

        With tags, the pair should be nearer whose tags have the higher Jaccard index.

        Parameters
        ----------
        y : class or tags of each row, see :meth:`mahala.Pairs.from_labels`
        n : int or "auto", default="auto"
            Number of quadruplets; "auto" is 20 c² for c classes or tags. There are fewer if there are not so many pairs
            of either kind, because no pair of classes is drawn twice.
        random_state : int, RandomState, Generator or None, default=None

        Examples
        --------
        >>> quadruplets = Quadruplets.from_labels([[0], [1], [5]], ["a", "a", "b"], n=1, random_state=0)
        >>> quadruplets.near_left, quadruplets.near_right, quadruplets.far_right
        (array([0]), array([1]), array([2]))
        """
        names, rows = column_names(X), check_rows(X)
        return cls._build(rows, *draw_quadruplets(row_labels(y, rows.shape[0]), n, random_state), names=names)

    @classmethod
    def from_ratings(
        cls,
        X: RowsLike,
        left: ArrayLike,
        right: ArrayLike,
        ratings: ArrayLike,
        n: int | Literal["auto"] = "auto",
        *,
        random_state: Seed = None,
    ) -> Self:
        """Compare pairs of rows by their ratings: of two pairs, the one with the higher rating should be nearer.

        Parameters
        ----------
        left, right : row numbers of each pair
        ratings : how alike the rows of each pair are; higher is more alike
        n : int or "auto", default="auto"
            Number of quadruplets, drawn from all pairs of pairs with different ratings; "auto" is all of them, or
            20,000 if there are more.
        random_state : int, RandomState, Generator or None, default=None

        Examples
        --------
        >>> quadruplets = Quadruplets.from_ratings([[0.0], [1.0], [5.0]], [0, 0], [1, 2], ratings=[4.5, 1.0])
        >>> quadruplets.near_right, quadruplets.far_right
        (array([1]), array([2]))
        """
        names, rows = column_names(X), check_rows(X)
        check_value(n, "n", Literal["auto"] | Count)
        left, right, *_ = cls._checked_numbers(rows, None, left, right, left, right)
        values = np.asarray(to_numpy(ratings))
        values = values.astype(np.float64) if values.dtype.kind in "biuf" else np.array([np.nan])
        if values.shape != left.shape or not np.isfinite(values).all():
            raise ValueError(f"ratings must be {len(left)} finite numbers, one for each pair")
        near, far = _ordered(values, n, check_seed(random_state))
        return cls._build(rows, left[near], right[near], left[far], right[far], names=names)


def draw_quadruplets(
    labels: Labels, n: int | Literal["auto"], random_state: Seed, *, name: str = "n"
) -> tuple[IndexArray, ...]:
    """Return the rows of up to n pairs of one class, and of as many pairs of two classes; with tags, see above."""
    check_value(n, name, Literal["auto"] | Count)
    if not isinstance(labels, TagSets) and np.bincount(labels).max() < 2:
        raise ValueError("y must have a class of at least two rows, but every row is alone in its class")
    size = 20 * n_classes(labels) ** 2 if isinstance(n, str) else int(n)
    rng = check_seed(random_state)
    left, right, similar = draw_pairs(labels, 2 * size, 0.5, rng, name=name, at_most=True)
    if isinstance(labels, TagSets):
        near, far = _ordered(labels.jaccard(left, right), size, rng)
    else:
        near, far = np.flatnonzero(similar), np.flatnonzero(~similar)
        near, far = near[: len(far)], far[: len(near)]
    return left[near], right[near], left[far], right[far]


def are_labels(y: ArrayLike) -> bool:
    """Whether y says of pairs if they are similar, by booleans or +1 and -1, and does not rate them.

    >>> are_labels([True, False]), are_labels([1, -1]), are_labels([1, 0]), are_labels([4.5, 1.0])
    (True, True, False, False)
    """
    values = np.asarray(to_numpy(y))
    return values.dtype == bool or set(np.unique(values).tolist()) <= {-1, 1}


def _ordered(values: FloatArray, n: int | Literal["auto"], rng: np.random.RandomState) -> tuple[IndexArray, IndexArray]:
    """Return the numbers of two values, the larger one first, for n draws or for all pairs that differ."""
    m, size = len(values), _MOST_RATED if isinstance(n, str) else int(n)
    if m == 0 or (isinstance(n, str) and m * (m - 1) // 2 <= _MOST_RATED):
        both = np.stack(np.triu_indices(m, 1))
    else:
        both = np.stack([rng.randint(m, size=4 * size), rng.randint(m, size=4 * size)])
    first, second = both[:, values[both[0]] != values[both[1]]][:, :size]
    if not len(first):
        raise ValueError("ratings must differ: pairs that are rated alike say nothing about each other")
    higher = values[first] > values[second]
    return np.where(higher, first, second).astype(np.intp), np.where(higher, second, first).astype(np.intp)
