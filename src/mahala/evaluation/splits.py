"""The rows of a comparison, and its training and test parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from mahala.support.arrays import IndexArray

# Larger tables are sampled: fewer rows already show what a learner gains.
MOST_ROWS = 20_000


def parts_of(codes: IndexArray, folds: int, repeats: int, seed: int) -> list[tuple[IndexArray, IndexArray]]:
    """Return the training and test rows of each fold."""
    splits = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    return list(splits.split(np.empty(len(codes)), codes))


def possible_folds(codes: IndexArray, classes: Sequence[str], folds: int, notes: list[str]) -> int:
    counts = np.bincount(codes)
    if len(counts) < 2:
        raise ValueError(f"the labels y must have at least two classes, got only {classes[0]!r}")
    single = [name for name, count in zip(classes, counts, strict=True) if count < 2]
    if single:
        named = ", ".join(map(repr, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        raise ValueError(
            f"the labels y must have at least two rows of each class, to train and to test, but have one of {named}: "
            "drop these rows or merge classes"
        )
    least = int(counts.min())
    if least >= folds:
        return folds
    name = classes[int(counts.argmin())]
    notes.append(f"{least} folds instead of {folds}, because class {name!r} has only {least} rows.")
    return least


def sample_of(codes: IndexArray, folds: int, seed: int, notes: list[str]) -> IndexArray:
    """Return all rows or, if there are many, a stratified sample with at least one row of each class per fold."""
    if len(codes) <= MOST_ROWS:
        return np.arange(len(codes))
    rng = np.random.default_rng(seed)
    share = MOST_ROWS / len(codes)
    chosen = [
        rng.choice(own, max(min(folds, len(own)), round(share * len(own))), replace=False)
        for own in (np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1))
    ]
    rows = np.sort(np.concatenate(chosen))
    notes.append(
        f"A sample of {len(rows):,} of the {len(codes):,} rows was compared, with the same share of each class."
    )
    return rows
