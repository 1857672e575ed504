"""What must become of a metric when its data change, of every learner, over many sets of rows.

The relations are those of `tests/contract/relations.py`. Changed data round otherwise, and rounding grows by up to a
factor of ten in each iteration of a descent that is not convex. Where such a relation fails, it must hold after two
iterations.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from contract.learners import short
from contract.relations import LEARNERS, Relation, relations

from .runner import Failed
from .values import Rng

AMOUNT, SHORT = 100 * len(LEARNERS), 6  # sets of rows, of some six relations each
CPU_SECONDS = 60.0
_DESCENTS = {"GML", "LMNN", "MLKR", "MMC", "NCA"}


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Compile what the learners need."""
    X, y = draw_rows(np.random.default_rng(0))
    for learner in LEARNERS if amount > SHORT else LEARNERS[:SHORT]:
        clone(learner).fit(X, y)


def draw_rows(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three to five classes, in features that are correlated and of different sizes."""
    n, d, n_classes = (int(rng.integers(low, high)) for low, high in ((45, 91), (3, 8), (3, 6)))
    y = rng.permutation(np.arange(n) % n_classes)
    X = rng.normal(size=(n, d)) + rng.uniform(0.5, 2.0) * rng.normal(size=(n_classes, d))[y]
    # Where a direction has next to no variance, floors that are relative to features decide.
    left, lengths, right = np.linalg.svd(np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    return X @ (left * lengths.clip(min=0.3)) @ right * rng.uniform(0.5, 2.0, size=d), y


def _broken(learner: Any, seed: list[int]) -> Iterator[tuple[Relation, str]]:
    """Yield each relation, and what is wrong with it."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of labels that hardly depend on the features
        for relation in relations(learner, *draw_rows(rng), rng):
            size = float(np.abs(relation.expected).max()) or 1.0
            off = float(np.abs(relation.got - relation.expected).max()) / size
            yield relation, "" if off <= relation.near else f"off by {off:.2g}, more than {relation.near:.2g}"


def run(case: int, seed: int, amount: int) -> int:
    learner = LEARNERS[case % len(LEARNERS)]
    tried = list(_broken(learner, [seed, case]))
    if any(wrong for _, wrong in tried) and type(learner).__name__ in _DESCENTS:
        learner = short(learner)
        tried = list(_broken(learner, [seed, case]))
    for relation, wrong in tried:
        if wrong:
            raise Failed(f"{learner!r}, {relation.name}: {wrong}")
    return len(tried)
