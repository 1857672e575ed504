"""Triplets of rows, given or drawn from classes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from mahala.comparisons.pairs import Comparisons, column_names, near_rows, sort_by_class
from mahala.support.arrays import IndexArray, RowsLike, check_room
from mahala.support.names import RowNames, answer_columns
from mahala.support.parameters import Count, Seed, check_seed, check_value
from mahala.support.tags import Labels, TagSets, row_labels
from mahala.support.validation import check_rows


class Triplets(Comparisons):
    """Triplets of rows: the anchor should be nearer, or more similar, to the positive than to the negative.

    X keeps its dtype and is not copied; a selection of triplets refers to the same X.

    Parameters
    ----------
    X : array, memory map, CSR matrix or data frame of shape (n_rows, n_features)
    anchor, positive, negative : row numbers of each triplet
    items : rows, default=None
        The rows to which positive and negative refer, which may have other features; None for X.

    Examples
    --------
    >>> Triplets([[0.0], [1.0], [5.0]], anchor=[0, 1], positive=[1, 0], negative=[2, 2])
    <Triplets: 2 over X of shape (3, 1), float64>
    """

    _arity = 3
    _names = ("anchor", "positive", "negative")
    __slots__ = _names
    anchor: IndexArray
    positive: IndexArray
    negative: IndexArray

    def __init__(
        self, X: RowsLike, anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike, items: RowsLike | None = None
    ) -> None:
        rows, checked = check_rows(X), None if items is None else check_rows(items, "items")
        numbers = self._checked_numbers(rows, checked, anchor, positive, negative)
        self._store(rows, *numbers, names=column_names(X), items=checked)

    @property
    def n_item_features(self) -> int:
        """The number of columns of the items."""
        return self.n_features if self.items is None else int(self.items.shape[1])

    @classmethod
    def from_names(
        cls, X: RowsLike, answers: Iterable[Sequence[Hashable]], names: Iterable[Hashable] | None = None
    ) -> Self:
        """Build triplets from answers that name rows.

        Parameters
        ----------
        X : data frame of pandas whose index has the names of its rows, or other rows with `names`
        answers : tuples (anchor, positive, negative) of names, or a data frame with these columns
        names : the name of each row of X, default=None

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"weight": [0.0, 1.0, 5.0]}, index=["oak", "elm", "fir"])
        >>> triplets = Triplets.from_names(table, [("oak", "elm", "fir")])
        >>> triplets.anchor, triplets.positive, triplets.negative
        (array([0]), array([1]), array([2]))
        """
        rows = RowNames.of(X, names)
        return cls(X, *map(rows.rows, answer_columns(answers, "triplets")))

    @classmethod
    def from_labels(
        cls, X: RowsLike, y: ArrayLike, n: int = 100_000, *, jaccard: float = 0.0, random_state: Seed = None
    ) -> Self:
        """Draw triplets of a row, another row of its class, and a row of another class.

        Each of the three is uniform over its choices, and triplets may repeat. A row that is alone in its class is
        never an anchor. y may hold tags, see :meth:`mahala.Pairs.from_labels`: the positive is a row that is similar to
        the anchor, and the negative one that is not.

        Examples
        --------
        >>> triplets = Triplets.from_labels([[0], [1], [5]], ["a", "a", "b"], n=4, random_state=0)
        >>> triplets.negative
        array([2, 2, 2, 2])
        """
        names, rows = column_names(X), check_rows(X)
        labels = row_labels(y, rows.shape[0], jaccard)
        return cls._build(rows, *draw_triplets(labels, n, random_state), names=names)

    @classmethod
    def from_neighbors(cls, X: RowsLike, y: ArrayLike, n_neighbors: int = 3, *, jaccard: float = 0.0) -> Self:
        """Build the triplets of each row with each of its nearest rows of its class and each of other classes.

        y, with classes or tags, and `jaccard` are as for :meth:`mahala.Pairs.from_labels`.

        Examples
        --------
        >>> triplets = Triplets.from_neighbors([[0.0], [1.0], [5.0]], ["a", "a", "b"], n_neighbors=1)
        >>> triplets.anchor, triplets.positive, triplets.negative
        (array([0, 1]), array([1, 0]), array([2, 2]))
        """
        names, rows = column_names(X), check_rows(X)
        return cls._build(rows, *all_triplets(*near_rows(rows, y, n_neighbors, jaccard)), names=names)


def all_triplets(near: IndexArray, far: IndexArray) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return the triplets of each row with each pair of its near and far rows, given as by `class_neighbors`."""
    anchor, j, l = np.nonzero((near < len(near))[:, :, None] & (far < len(far))[:, None])
    return anchor, near[anchor, j], far[anchor, l]


def draw_triplets(
    labels: Labels, n: int, random_state: Seed, *, name: str = "n"
) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return anchors whose class has other rows, another row of that class, and a row of another class."""
    check_value(n, name, Count)
    check_room(6 * 8 * n, None, f"{name}={n}", "draw fewer triplets")
    if isinstance(labels, TagSets):
        return _of_tags(labels, n, check_seed(random_state))
    order, start, stop = sort_by_class(labels)
    size = stop - start
    eligible = np.flatnonzero(size > 1)
    if labels.max() == 0:
        raise ValueError("y must hold at least two classes, got one")
    if len(eligible) == 0:
        raise ValueError("y must hold a class of at least two rows, but each row has a class of its own")
    rng = check_seed(random_state)
    anchor = eligible[rng.randint(len(eligible), size=n, dtype=np.intp)]
    # A draw from the rows without one row, or one class: step over the gap.
    positive = start[anchor] + rng.randint(size[anchor] - 1, dtype=np.intp)
    positive += positive >= anchor
    negative = rng.randint(len(order) - size[anchor], dtype=np.intp)
    negative += np.where(negative >= start[anchor], size[anchor], 0)
    return order[anchor], order[positive], order[negative]


def _of_tags(tags: TagSets, n: int, rng: np.random.RandomState) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return anchors to which some other rows are similar, and some not, one of the first and one of the others."""
    n_similar = tags.n_similar()
    n_others = len(tags) - 1 - n_similar
    eligible = np.flatnonzero((n_similar > 0) & (n_others > 0))
    if len(eligible) == 0:
        raise ValueError("y must hold a row that shares tags with one row and none with another, but there is none")
    anchor = eligible[rng.randint(len(eligible), size=n, dtype=np.intp)]
    positive = tags.place(anchor, rng.randint(n_similar[anchor], dtype=np.intp), similar=True)
    negative = tags.place(anchor, rng.randint(n_others[anchor], dtype=np.intp), similar=False)
    return tags.order[anchor], tags.order[positive], tags.order[negative]
