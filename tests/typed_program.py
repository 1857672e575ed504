"""A program that uses mahala, to be type-checked by `make lint` and not to be run.

A comment `type: ignore[...]` marks a mistake that mypy must find: in strict mode an unused one is an error itself.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import mahala


def learners(X: Any, y: Any) -> None:
    assert_type(mahala.PA("I", C=0.1, random_state=0).fit(X, y), mahala.PA)
    assert_type(mahala.GML().fit(X, y), mahala.GML)
    assert_type(mahala.OASIS(C=0.1).learn_one(X[0], positive=X[1], negative=X[2]), bool)
    mahala.PA(aggressiveness=1.0)  # type: ignore[call-arg]
    mahala.PA(C=[1.0])  # type: ignore[arg-type]
    mahala.GML(alpha="half")  # type: ignore[arg-type]
    mahala.GML().fit_metric(X, y)  # type: ignore[attr-defined]
    mahala.OASYS()  # type: ignore[attr-defined]


def comparisons(X: Any, y: Any) -> None:
    pairs = mahala.Pairs.from_labels(X, y, 50, random_state=0)
    assert_type(pairs, mahala.Pairs)
    assert_type(mahala.Triplets.from_labels(X, y, 50), mahala.Triplets)
    assert_type(mahala.PA().fit(pairs).score(pairs), float)
    mahala.Pairs.from_labels(X, y, 50, seed=0)  # type: ignore[call-arg]
    mahala.knn_error(pairs, X, y)  # type: ignore[arg-type]


def results(X: Any, y: Any) -> None:
    learner = mahala.PA().fit(X, y)
    assert_type(learner.history_, mahala.online.History)
    metric = learner.metric_
    metric.distance(X[0], X[1], squared=True)
    metric.distance(X[0], X[1], square=True)  # type: ignore[call-arg]
    metric.distances(X[0], X[1])  # type: ignore[attr-defined]
    assert_type(metric.explain(X[0], X[1]), mahala.metric.Explanation)
    errors = mahala.knn_error(metric, X, y)
    assert_type(errors, mahala.evaluation.KNNErrors)
    assert_type(errors.at(3), float)
    assert_type(mahala.evaluation.mean_average_precision(metric, X, y), float)
    assert_type(mahala.compare(np.asarray(X), y, {"GML": mahala.GML()}), mahala.evaluation.Leaderboard)
    assert_type(mahala.compare(mahala.Pairs(X, [0], [1], [1])), mahala.evaluation.Leaderboard)
    mahala.knn_error(metric, X, y, averages="class")  # type: ignore[call-arg]
