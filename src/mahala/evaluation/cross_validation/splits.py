"""Training and test parts of a comparison: by class, by group, by time; and columns that look like groups."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupKFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedGroupKFold

from mahala.support.arrays import FloatArray, IndexArray

Parts = list[tuple[IndexArray, IndexArray]]

# Larger tables are sampled: fewer rows already show what a learner gains. Of many features, so many numbers count.
_MOST_ROWS, _LEAST_ROWS, _MOST_NUMBERS = 20_000, 4_000, 4_000_000
# Of a table of more rows or numbers, some rows are for a screening of all learners.
_LARGE_ROWS, _LARGE = 3_000, 1_000_000
# So many rows, those of many features again by numbers; and its folds.
_MOST_SCREENED, _LEAST_SCREENED, _NUMBERS_SCREENED = 1_500, 500, 200_000
_SCREENING_FOLDS = 3
# A cross-validation is repeated until so many rows were tested, but not more often than this.
_TESTED_ROWS, _MOST_REPEATS = 500, 5
# Groups per fold from which on they are stratified in different ways.
_MANY_GROUPS = 10
# A column with fewer values is a category, whatever its rows share.
_FEWEST_GROUPS = 15
# How much more often rows with the same value share a label than rows with the next value, at least.
_MORE_OFTEN, _STANDARD_ERRORS = 0.05, 3.0


def parts_of(
    codes: IndexArray | None,
    folds: int,
    repeats: int,
    seed: int,
    groups: IndexArray | None = None,
    times: FloatArray | None = None,
    n_rows: int | None = None,
) -> Parts:
    """Return the training and test rows of each fold.

    Parameters
    ----------
    codes : classes, which have the same shares in all folds; None if the target is a number
    groups : rows of one group are in one fold
    times : each fold is a stretch of time, and its training part has what was before it; `repeats` must be 1
    n_rows : number of rows, if codes is None
    """
    n = len(codes) if codes is not None else int(n_rows or 0)
    if times is not None:
        return _stretches(times, folds, groups)
    X = np.empty(n)
    if groups is None:
        splits: Any = (
            RepeatedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
            if codes is None
            else RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
        )
        return list(splits.split(X, codes))
    # Few groups of different sizes are stratified in the same way each time.
    many = int(groups.max()) >= _MANY_GROUPS * folds
    by_group = StratifiedGroupKFold if codes is not None and (many or repeats == 1) else GroupKFold
    return [
        part
        for repeat in range(repeats)
        for part in by_group(n_splits=folds, shuffle=True, random_state=seed + repeat).split(X, codes, groups)
        if len(part[0]) and len(part[1])
    ]


def with_copies(parts: Parts, sets: IndexArray) -> Parts:
    """Return the rows of parts whose rows are sets of equal rows, by the number of the set of each row."""
    in_part = np.zeros((2, int(sets.max()) + 1), dtype=bool)
    result = []
    for train, test in parts:
        in_part[:] = False
        in_part[0, train] = in_part[1, test] = True
        result.append((np.flatnonzero(in_part[0, sets]), np.flatnonzero(in_part[1, sets])))
    return result


def joined(groups: IndexArray, sets: IndexArray, least: int) -> IndexArray:
    """Return groups in which those that share a set are one; the groups themselves if fewer than `least` are left."""
    pairs = sp.coo_matrix((np.ones(len(groups)), (groups, sets)), (int(groups.max()) + 1, int(sets.max()) + 1))
    network = sp.bmat([[None, pairs], [pairs.T, None]])
    labels = connected_components(network, directed=False)[1][groups].astype(np.intp)
    return labels if labels.max() >= least - 1 else groups


def _stretches(times: FloatArray, folds: int, groups: IndexArray | None) -> Parts:
    """Return test parts that follow each other in time, each with what was before it as its training part."""
    values, at = np.unique(times, return_inverse=True)
    counts = np.cumsum(np.bincount(at))
    # Rows of one moment stay together: a stretch ends with the first moment that fills it.
    ends = np.unique(np.searchsorted(counts, np.arange(1, folds + 1) / (folds + 1.0) * len(times)))
    parts: Parts = []
    for start, end in zip(ends, [*ends[1:], len(values) - 1], strict=True):
        train, test = np.flatnonzero(at <= start), np.flatnonzero((at > start) & (at <= end))
        if groups is not None:  # a group that was seen before is not new
            test = test[~np.isin(groups[test], groups[train])]
        if len(train) and len(test):
            parts.append((train, test))
    if not parts:
        raise ValueError(f"times must have a past and a future, got {len(values)} different values")
    return parts


def is_large(n_rows: int, n_features: int) -> bool:
    """Return whether a table has so many rows, or numbers, that each fit to it takes long."""
    return n_rows > _LARGE_ROWS or n_rows * n_features > _LARGE


def auto_repeats(n_rows: int) -> int:
    """Return how often a cross-validation is repeated: the more often, the fewer rows there are.

    >>> auto_repeats(90), auto_repeats(210), auto_repeats(2000)
    (5, 3, 1)
    """
    return min(-(-_TESTED_ROWS // n_rows), _MOST_REPEATS)


def one_of_each(sets: IndexArray, codes: IndexArray) -> IndexArray:
    """Return a row of each set of copies: of the rarest class, because copies may be of several classes.

    >>> one_of_each(np.array([0, 0, 1, 2]), np.array([1, 0, 1, 1]))
    array([1, 2, 3])
    """
    order = np.argsort(np.bincount(codes)[codes], kind="stable")
    return np.asarray(order[np.unique(sets[order], return_index=True)[1]])


def possible_folds(codes: IndexArray, classes: Sequence[str], folds: int, notes: list[str]) -> int:
    """Return the number of folds, at most the rows of the smallest class; raise ValueError if that is one."""
    counts = np.bincount(codes, minlength=len(classes))
    if len(counts) < 2:
        raise ValueError(f"the labels y must have at least two classes, got only {classes[0]!r}")
    single = [name for name, count in zip(classes, counts, strict=True) if count < 2]
    if single:
        named = ", ".join(map(repr, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        needed = "at least two rows of each class, to train and to test"
        raise ValueError(f"the labels y must have {needed}, but have one of {named}: drop these rows or merge classes")
    least = int(counts.min())
    if least < folds:
        name = classes[int(counts.argmin())]
        notes.append(f"{least} folds instead of {folds}, because class {name!r} has only {least} rows.")
    return min(folds, least)


def most_rows(n_features: int) -> int:
    """Return how many rows of a table are compared at most.

    >>> most_rows(20), most_rows(784)
    (20000, 5102)
    """
    return int(np.clip(_MOST_NUMBERS // n_features, _LEAST_ROWS, _MOST_ROWS))


def sample_of(codes: IndexArray, n_rows: int, folds: int, seed: int, notes: list[str]) -> IndexArray:
    """Return all rows or, if there are more than `n_rows`, a stratified sample with a row of each class per fold."""
    if len(codes) <= n_rows:
        return np.arange(len(codes))
    rng = np.random.default_rng(seed)
    share = n_rows / len(codes)
    chosen = [
        rng.choice(members, max(min(folds, len(members)), round(share * len(members))), replace=False)
        for members in (np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1))
    ]
    rows = np.sort(np.concatenate(chosen))
    sample = f"A sample of {len(rows):,} of the {len(codes):,} rows"
    notes.append(f"{sample} was compared, with the same share of each class.")
    return rows


def screening_parts(codes: IndexArray, n_features: int, folds: int, seed: int) -> tuple[Parts, IndexArray]:
    """Return training and test parts for a screening, and their rows; none of a table that is not large.

    Of each class there are enough rows in all folds of the screening, and enough others for `folds`, or none in it.
    """
    n = len(codes)
    if n < 2 * _LEAST_SCREENED or not is_large(n, n_features):
        return [], np.empty(0, dtype=np.intp)
    rng = np.random.default_rng(seed)
    n_screened = int(np.clip(_NUMBERS_SCREENED // n_features, _LEAST_SCREENED, _MOST_SCREENED))
    chosen = [np.empty(0, dtype=np.intp)]
    for members in (np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1)):
        size = round(n_screened / n * len(members))
        if size >= _SCREENING_FOLDS and len(members) - size >= folds:
            chosen.append(rng.choice(members, size, replace=False))
    rows = np.sort(np.concatenate(chosen))
    if len(np.unique(codes[rows])) < 2:
        return [], rows[:0]
    present = np.unique(codes[rows], return_inverse=True)[1]
    return [(rows[train], rows[test]) for train, test in parts_of(present, _SCREENING_FOLDS, 1, seed)], rows


def group_columns(X: Any, codes: IndexArray, features: Mapping[str, Sequence[int]]) -> list[tuple[str, IndexArray]]:
    """Return columns that look like ids of groups, the most likely first, each with the number of the group of a row.

    Rows of one group share the label more often than rows of the next id do. That rows with the same age share a label
    is no reason: so do rows with the next age. An id is arbitrary, so neighbouring ids share labels no more often than
    any two rows do.

    Parameters
    ----------
    X, codes : dense rows and the classes of the rows
    features : the features of each column, by the name of the column: whole numbers, or categories
    """
    found = []
    for name, numbers in features.items():
        own = X[:, numbers]
        if not np.array_equal(own, np.rint(own)):
            continue
        values, groups = np.unique(own, axis=0, return_inverse=True)
        groups = groups.reshape(-1)
        sizes = np.bincount(groups)
        if len(values) < _FEWEST_GROUPS or np.count_nonzero(sizes > 1) < _FEWEST_GROUPS:
            continue
        counts = np.zeros((len(values), int(codes.max()) + 1))
        np.add.at(counts, (groups, codes), 1.0)
        several = sizes > 1
        same = ((counts**2).sum(axis=1) - sizes)[several] / (sizes * (sizes - 1.0))[several]
        shares = counts / sizes[:, np.newaxis]
        next_to = (shares[1:] * shares[:-1]).sum(axis=1)
        error = np.sqrt(same.var(ddof=1) / len(same) + next_to.var(ddof=1) / len(next_to))
        more = float(same.mean() - next_to.mean())
        if more > max(_MORE_OFTEN, _STANDARD_ERRORS * float(error)):
            found.append((more / max(float(error), 1e-12), name, groups))
    return [(name, groups) for _, name, groups in sorted(found, key=lambda column: -column[0])]
