"""Draw pairs and triplets of rows at random from class labels."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

import numpy as np

from mahala.support.arrays import BoolArray, IndexArray, check_room
from mahala.support.lazily import sklearn_checks
from mahala.support.parameters import Count, Seed, Share, check_value


def draw_pairs(
    codes: IndexArray,
    n: int | Literal["auto"],
    balance: float | None,
    random_state: Seed,
    *,
    name: str = "n",
    at_most: bool = False,
) -> tuple[IndexArray, IndexArray, BoolArray]:
    """Return distinct pairs of rows in random order, left < right, and whether the two are of one class.

    `name` is the caller's name for n; with `at_most`, n is cut down to the number of pairs available.
    """
    order, _, own_stop = _sort_by_class(codes)
    check_value(n, name, Literal["auto"] | Count)
    check_value(balance, "balance", Share | None)
    # Each row is paired with rows that follow it when they are sorted by class: those of its own class first, then
    # those of later classes. So its partners of each kind are a range of positions.
    following, end = np.arange(1, len(order) + 1), np.full(len(order), len(order))
    if balance is None:
        kinds = {"pairs": (following, end)}
    else:
        kinds = {"similar pairs": (following, own_stop), "dissimilar pairs": (own_stop, end)}
    available = {kind: int((stop - first).sum()) for kind, (first, stop) in kinds.items()}
    counts = _count_pairs(n, balance, int(codes.max()) + 1, available, name, at_most)

    rng = check_seed(random_state)
    drawn = np.hstack([_draw_positions(*kinds[kind], count, rng) for kind, count in counts.items()])
    i, j = order[drawn[:, rng.permutation(drawn.shape[1])]]
    return np.minimum(i, j), np.maximum(i, j), codes[i] == codes[j]


def draw_triplets(
    codes: IndexArray, n: int, random_state: Seed, *, name: str = "n"
) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return anchors whose class has other rows, another row of that class, and a row of another class."""
    order, start, stop = _sort_by_class(codes)
    check_value(n, name, Count)
    size = stop - start
    eligible = np.flatnonzero(size > 1)
    if codes.max() == 0:
        raise ValueError("y must hold at least two classes, got one")
    if len(eligible) == 0:
        raise ValueError("y must hold a class of at least two rows, but each row has a class of its own")
    check_room(6 * 8 * n, None, f"{name}={n}", "draw fewer triplets")
    rng = check_seed(random_state)
    anchor = eligible[rng.randint(len(eligible), size=n, dtype=np.intp)]
    # A draw from the rows without one row, or one class: step over the gap.
    positive = start[anchor] + rng.randint(size[anchor] - 1, dtype=np.intp)
    positive += positive >= anchor
    negative = rng.randint(len(order) - size[anchor], dtype=np.intp)
    negative += np.where(negative >= start[anchor], size[anchor], 0)
    return order[anchor], order[positive], order[negative]


def _sort_by_class(codes: IndexArray) -> tuple[IndexArray, IndexArray, IndexArray]:
    """The rows sorted by class, and for each of them the positions at which its class starts and ends."""
    size = np.bincount(codes)
    stop = np.cumsum(size)
    return np.argsort(codes, kind="stable"), np.repeat(stop - size, size), np.repeat(stop, size)


def _count_pairs(
    n: int | Literal["auto"], balance: float | None, n_classes: int, available: dict[str, int], name: str, at_most: bool
) -> dict[str, int]:
    """The number of pairs of each kind to draw."""

    def split(n: int) -> dict[str, int]:
        counts = [n] if balance is None else [round(n * balance), n - round(n * balance)]
        return dict(zip(available, counts, strict=True))

    def too_many(n: int) -> bool:
        return any(count > available[kind] for kind, count in split(n).items())

    auto = isinstance(n, str)
    if n_classes == 1 and (auto or balance not in (None, 1)):
        raise ValueError(
            f"y must hold at least two classes, got one; for pairs of one class give {name}, with balance=None or 1"
        )
    target = 40 * n_classes * (n_classes - 1) if isinstance(n, str) else int(n)
    at_most = auto or at_most
    for kind, count in split(target).items():
        if count > available[kind] and (not at_most or available[kind] == 0):
            share = "" if balance is None else f" with balance={balance:g}"
            raise ValueError(f"{name}={n!r}{share} asks for {count} {kind}, but only {available[kind]} are available")
    if not at_most:
        return split(target)
    # The counts grow with n, so bisection finds the largest n for which there are enough pairs.
    most = min(target, sum(available.values()))
    return split(bisect_right(range(most + 1), False, key=too_many) - 1)


def check_seed(random_state: Seed) -> np.random.RandomState:
    """Return the generator for a seed; raise a ValueError if it is not one."""
    check_value(random_state, "random_state", Seed)
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    checked: np.random.RandomState = sklearn_checks.check_random_state(random_state)
    return checked


def _draw_positions(first: IndexArray, stop: IndexArray, n: int, rng: np.random.RandomState) -> IndexArray:
    """Draw n distinct pairs (i, j) with first[i] <= j < stop[i], in any order; the shape is (2, n)."""
    ends = np.cumsum(stop - first)
    number = _draw_distinct(int(ends[-1]), n, rng)
    i = np.searchsorted(ends, number, side="right")
    return np.stack([i, stop[i] - (ends[i] - number)])


def _draw_distinct(population: int, n: int, rng: np.random.RandomState) -> IndexArray:
    """Draw n distinct numbers below population, in any order, in memory proportional to n."""
    if 3 * n >= population:
        return rng.permutation(population)[:n]
    # The first n distinct numbers of a uniform stream are a uniform draw without replacement.
    drawn = np.empty(0, dtype=np.intp)
    while len(drawn) < n:
        drawn = np.sort(np.append(drawn, rng.randint(population, size=n - len(drawn), dtype=np.intp)))
        drawn = drawn[np.append(True, drawn[1:] > drawn[:-1])]  # np.unique hashes, which takes ten times as long
    return drawn
