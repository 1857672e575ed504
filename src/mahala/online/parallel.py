"""Iterative parameter mixing: a learner for each partition of a stream, whose parameters are averaged in rounds."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mahala.compiled.threads import in_threads, n_threads
from mahala.online.online_learner import OnlineLearner
from mahala.support.dask_rows import computed, in_memory, parts_with_labels
from mahala.support.tensors import is_dask

Partition = tuple[Any, Any]  # rows and labels, or comparisons and None


def partitions_of(X: Any, y: Any) -> list[Partition]:
    """Return the partitions of rows of Dask, or of a list of comparisons or of pairs (rows, labels)."""
    if is_dask(X):
        return parts_with_labels(X, y)
    if not isinstance(X, list | tuple) or not X or y is not None:
        raise ValueError(
            "partitions must be rows of Dask with labels y, or a list of comparisons or of pairs (rows, labels)"
        )
    return [part if isinstance(part, tuple) else (part, None) for part in X]


def run_round(learner: OnlineLearner, partitions: list[Partition], number: int) -> None:
    """Let copies of a learner learn from a partition each; their mean becomes the learner's model."""
    base = copy.deepcopy(learner)
    base._clear()
    if any(hasattr(X, "__dask_graph__") for X, _ in partitions):
        import dask

        call, sent = dask.delayed(_continued, pure=False), dask.delayed(base, pure=False, traverse=False)
        copies = computed([call(sent, X, y, (number, i)) for i, (X, y) in enumerate(partitions)])
    else:
        numbers = [(number, i) for i in range(len(partitions))]
        columns = zip(*partitions, strict=True)
        copies = in_threads(_continued, [base] * len(partitions), *columns, numbers, threads=n_threads())
    learner._take_mean(copies)


def _continued(learner: Any, X: Any, y: Any, number: tuple[int, int]) -> Any:
    """Return a copy of the learner that went on with a partition, drawing comparisons with a seed of its own."""
    learner = copy.deepcopy(learner)
    learner._rng = np.random.default_rng([learner._seed, *number])
    return learner.partial_fit(X, in_memory(y))
