"""What people teach by answers about items: a map of all queries, fitted to the answers in the log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mahala.answers import Teacher
from mahala_search.arrays import FloatArray, RealArray
from mahala_search.quality.gains import RunningGain
from mahala_search.serve.store.rows import LogEntry

# The last answers that a map is fitted to, in all and of one user, and those that a checkpoint holds: so many that it
# does not matter when checkpoints were written.
MOST_ANSWERS, MOST_OF_USER, MOST_KEPT = 1_000, 300, 20_000


class Answer(NamedTuple):
    """The row of a query, that of the item which is more like it, that of the other one, and who answered."""

    query: int
    nearer: int
    farther: int
    user: str | None

    @classmethod
    def of(cls, entry: LogEntry) -> Answer | None:
        """Return the answer that an entry of the log is, or None."""
        if entry.kind != "comparison" or entry.query is None or len({entry.query, *entry.shown}) < 3:
            return None
        nearer, farther = entry.shown
        return cls(entry.query, nearer, farther, entry.user)


def kept(answers: Sequence[Answer]) -> list[Answer]:
    """Return the last answers in their order, not too many of one user."""
    counts: Counter[str | None] = Counter()
    result: list[Answer] = []
    for answer in reversed(answers):
        counts[answer.user] += 1
        if answer.user is None or counts[answer.user] <= MOST_OF_USER:
            result.append(answer)
    return result[:MOST_KEPT][::-1]


def to_bytes(answers: Sequence[Answer]) -> bytes:
    """Return answers for a checkpoint, which `from_bytes` reads."""
    return json.dumps(answers).encode()


def from_bytes(data: bytes) -> list[Answer]:
    """Return the answers of a checkpoint."""
    return [Answer(*fields) for fields in json.loads(data)]


class Taught(NamedTuple):
    """A map M of queries, as M - I, or None if the plain ranking is better, and its status as JSON."""

    change: FloatArray | None
    status: dict[str, Any]


def taught(answers: Sequence[Answer], vectors: Callable[[Sequence[int]], RealArray]) -> Taught:
    """Fit a map to answers; it depends on them and on the vectors of items alone.

    M is the matrix of a `Teacher` for the items at length 1. Each answer is first predicted from the earlier
    ones, and by the plain distance. The map is not used once it is shown to be worse.
    """
    answers = answers[-MOST_ANSWERS:]
    rows = sorted({row for answer in answers for row in answer[:3]})
    X = np.asarray(vectors(rows) if rows else np.zeros((0, 1)), dtype=np.float64)
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(float).tiny)
    gain = RunningGain()
    change = None
    if len(X) and np.ptp(X, axis=0).max() > 0.0:
        teacher, number = Teacher(X, random_state=0), {row: at for at, row in enumerate(rows)}
        for answer in answers:
            query, nearer, farther = (number[row] for row in answer[:3])
            raw, learned = teacher.margins([(query, nearer, farther)])
            gain.add(float(np.sign(learned[0]) - np.sign(raw[0])) / 2.0)
            teacher.answer(query, nearer, farther, nearer=nearer)
        if gain.verdict().high > 0.0:
            change = teacher.metric_.matrix - np.eye(X.shape[1])
    return Taught(change, {"answers": len(answers), "used": change is not None, "gain": gain.mean})
