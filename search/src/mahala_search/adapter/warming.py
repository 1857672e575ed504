"""Compile ahead what an adapter and the evaluation of rankings would compile on first use."""

import numpy as np

from mahala_search.adapter.query_adapter import QueryAdapter
from mahala_search.quality.ranking_quality import evaluate_ranking


def compile_feedback() -> None:
    """Learn from impressions and judgments, and evaluate."""
    X = np.random.default_rng(0).normal(size=(400, 5))
    evaluate_ranking(X[:5], X, {0: {1: 1}, 1: {2: 2}})
    adapter = QueryAdapter(random_state=0)
    for number in (0, 1, 0):  # a known query at the end
        clicked, signals = [False, True, False, False, False], {"score": range(5)}
        adapter.learn_one(X[number], shown=X[10:15], clicked=clicked, query_id=number, signals=signals)
    assert adapter.trust_
    QueryAdapter(random_state=0).fit(X[:5], X, {0: {1: 1}, 1: {2: 2}, 2: {3: 1}, 3: {4: 1}, 4: {5: 1}})
