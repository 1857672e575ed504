"""Writers and readers of one learner in several threads that switch a million times a second.

All writers give the same comparison, so that the model after k steps is the same in whatever order they come: a reader
must see that of a whole number of steps, and at the end none may be missing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

import mahala_search
from contract.learners import ALL
from mahala.online.online_learner import OnlineLearner
from mahala.online.pair_learner import PairLearner
from papers.pola2004.filters.nearest import NearestFilter
from papers.pola2004.filters.paum import PAUM
from papers.pola2004.filters.perceptron import Perceptron

from .inputs import content
from .runner import Failed

AMOUNT, SHORT = 20_000, 10  # calls of each learner
CPU_SECONDS = 1800.0
N_WRITERS, N_READERS, D = 3, 2, 4
_STREAMS = [
    *(learner for learner in ALL if isinstance(learner, OnlineLearner) and getattr(learner, "storage", None) != "gram")
]
_FILTERS = [Perceptron, PAUM, NearestFilter]


def n_cases(amount: int) -> int:
    return 1 + len(_FILTERS) + (len(_STREAMS) if amount > SHORT else 4)


def prepare(amount: int) -> None:
    """Nothing is shared."""


def _subject(case: int) -> tuple[Any, Callable[[Any], object], Callable[[Any], Any], Callable[[Any], int]]:
    """Return a learner, a step of it, what can be seen of its model, and the number of its steps."""
    a, b, c = np.random.default_rng(0).normal(size=(3, D))
    if case == 0:
        return (
            mahala_search.QueryAdapter(random_state=0),
            lambda own: own.learn_one(a, np.stack([b, c]), [False, True], query_id=1),
            lambda own: content(own.to_parts()),
            lambda own: own.n_impressions_,
        )
    if case <= len(_FILTERS):
        return (
            _FILTERS[case - 1](record=False),
            lambda own: own.learn_one(a, False),
            lambda own: content(own.decision_function(np.stack([a, b, c]))),
            lambda own: own.n_steps_,
        )
    # The first few are of several kinds.
    learner = clone(_STREAMS[7 * case % len(_STREAMS)]).set_params(record=False)
    arguments = (a, b, True) if isinstance(learner, PairLearner) else (a, b, c)
    return (
        learner,
        lambda own: own.learn_one(*arguments),
        lambda own: content(own.to_parts()),
        lambda own: own.n_steps_,
    )


def run(case: int, seed: int, amount: int) -> int:
    learner, step, see, count = _subject(case)
    alone = clone(learner)
    n_steps = max(2, amount // (N_WRITERS + N_READERS))
    step(learner)
    step(alone)
    known = {_digest(see(alone))}
    for _ in range(N_WRITERS * n_steps):
        step(alone)
        known.add(_digest(see(alone)))
    failures: list[BaseException] = []

    def guarded(act: Callable[[], None]) -> None:
        try:
            for _ in range(n_steps):
                act()
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        if _digest(see(learner)) not in known:
            raise Failed(f"{learner!r}: a reader saw a model that no whole number of steps gives")
        if hasattr(learner, "metric_"):
            matrix = learner.metric_.matrix
            if not np.isfinite(matrix.data if hasattr(matrix, "indptr") else matrix).all():
                raise Failed(f"{learner!r}: a reader saw a metric that is not finite")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        acts = [lambda: step(learner)] * N_WRITERS + [read] * N_READERS
        threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if failures:
        raise failures[0]
    if count(learner) != count(alone):
        raise Failed(f"{learner!r}: {count(learner)} of {count(alone)} steps were counted")
    if see(learner) != see(alone):
        raise Failed(f"{learner!r}: the model is not that of {count(alone)} steps")
    return n_steps * (N_WRITERS + N_READERS)


def _digest(value: Any) -> int:
    return hash(repr(value))
