"""Candidates: results of another engine, which are ranked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mahala.serve.store.rows import SignalLists


class Candidate(NamedTuple):
    """A result of another engine: its score there, other signals of it, and perhaps its vector."""

    id: str
    score: float
    signals: Mapping[str, float | None]
    vector: Any = None


class Reranked(NamedTuple):
    """A candidate with its new score, and its position among those given, from 0."""

    id: str
    score: float
    position: int


def listed_signals(candidates: Sequence[Candidate]) -> SignalLists:
    """Return the signals of candidates by name, with the score; raise ValueError if they have this name, too.

    >>> listed_signals([Candidate("a", 2.0, {"age": 3.0}), Candidate("b", 1.0, {})])
    {'score': [2.0, 1.0], 'age': [3.0, None]}
    """
    names = dict.fromkeys(name for one in candidates for name in one.signals)
    if "score" in names:
        raise ValueError("candidates must have 'score' beside their signals, not among them")
    scores: list[float | None] = [one.score for one in candidates]
    return {"score": scores} | {name: [one.signals.get(name) for one in candidates] for name in names}
