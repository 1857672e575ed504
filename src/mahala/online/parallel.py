"""Iterative parameter mixing: a learner for each partition of a stream, whose parameters are averaged in rounds."""

import copy
from typing import Any

import numpy as np

from mahala.engine.inputs import computed, for_each, labelled_parts
from mahala.support.validation import is_chunked

Partition = tuple[Any, Any]  # rows and labels, or comparisons and None


def partitions_of(X: Any, y: Any) -> list[Partition]:
    """Return the partitions of rows in chunks, or of a list of comparisons or of pairs (rows, labels)."""
    if is_chunked(X):
        return labelled_parts(X, y)
    if not isinstance(X, list | tuple) or not X or y is not None:
        raise ValueError("partitions must be rows of Dask with labels y, or a list of comparisons or of (rows, labels)")
    return [part if isinstance(part, tuple) else (part, None) for part in X]


def run_round(learner: Any, partitions: list[Partition], number: int) -> None:
    """Let copies of a learner learn from a partition each; their mean becomes the learner's model."""
    base = copy.deepcopy(learner)
    base._clear()
    learner._take_mean(for_each(_continued, [(X, y, (number, i)) for i, (X, y) in enumerate(partitions)], base))


def _continued(learner: Any, X: Any, y: Any, number: tuple[int, int]) -> Any:
    """Return a copy of the learner that went on with a partition, drawing comparisons with a seed of its own."""
    learner = copy.deepcopy(learner)
    learner._rng = np.random.default_rng([learner._seed, *number])
    return learner.partial_fit(X, computed(y))
