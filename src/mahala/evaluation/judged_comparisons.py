"""Judge learners on pairs and triplets: folds over items, and answers on items that were not learned from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from mahala.batch.boost_metric import BoostMetric
from mahala.batch.gml import GML
from mahala.batch.itml import ITML
from mahala.batch.lmnn import LMNN
from mahala.comparisons import Pairs, Triplets
from mahala.evaluation.cross_validation.panel import EUCLIDEAN
from mahala.evaluation.judge import Verdict, judge
from mahala.learner import Learner
from mahala.metric import MahalanobisMetric
from mahala.online.passive_aggressive import PA
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.contexts import time_limit
from mahala.support.parameters import check_seed


class JudgedComparisons(NamedTuple):
    """What was chosen, the verdict, and the mean value of each candidate on comparisons that were not learned from."""

    chosen: str
    verdict: Verdict
    values: dict[str, float]


def panel_for(data: Pairs | Triplets, random_state: int = 0) -> dict[str, Learner]:
    """Return learners by name that learn from these comparisons."""
    if isinstance(data, Triplets):
        return {"LMNN": LMNN(), "BoostMetric": BoostMetric(max_iter=100)}
    return {
        "PA-I": PA("I", C="auto", psd="end", record=False, random_state=random_state),
        "ITML": ITML(random_state=random_state),
        "GML": GML(random_state=random_state),
    }


def judge_comparisons(
    data: Pairs | Triplets,
    learners: Mapping[str, Learner],
    *,
    folds: int = 5,
    seconds: float | None = None,
    random_state: int = 0,
) -> JudgedComparisons:
    """Choose between the Euclidean distance and learners by how many comparisons they foresee.

    Items are divided into folds. A learner learns from comparisons without any item of the fold, and is tested on
    those whose first item is in it. The value of a triplet is 1 if the positive is nearer than the negative; that of a
    pair is 1 if its distance is on the right side of the threshold that is best for the pairs learned from. Comparisons
    of one first item are not independent and count as one unit.
    """
    if isinstance(data, Triplets) and data.items is not None:
        raise ValueError(
            "triplets must be over one X, but these have items of their own, which a distance cannot compare"
        )
    if isinstance(data, Pairs):
        data = data.labelled(None)
    columns = [data.left, data.right] if isinstance(data, Pairs) else [data.anchor, data.positive, data.negative]
    n_items = data.X.shape[0]
    fold_of = np.random.default_rng(check_seed(random_state).randint(2**31)).permutation(n_items) % folds
    first = fold_of[columns[0]]
    plain = MahalanobisMetric.euclidean(data.X.shape[1])
    by_name: dict[str, FloatArray] = {name: np.full(len(data), np.nan) for name in (EUCLIDEAN, *learners)}
    for fold in range(folds):
        test = np.flatnonzero(first == fold)
        train = np.flatnonzero(np.all([fold_of[column] != fold for column in columns], axis=0))
        if not len(test) or not len(train):
            continue
        if isinstance(data, Pairs) and len(np.unique(data.similar[train])) < 2:  # type: ignore[index]
            continue
        by_name[EUCLIDEAN][test] = _values(plain, data, train, test)
        for name, learner in learners.items():
            with warnings.catch_warnings(), time_limit(None if seconds is None else seconds / folds / len(learners)):
                warnings.simplefilter("ignore")
                try:
                    metric = clone(learner).fit(data[train]).metric_
                except ValueError:  # too few comparisons are left to learn from
                    continue
                by_name[name][test] = _values(metric, data, train, test)
    judged = ~np.isnan(by_name[EUCLIDEAN])
    names = [name for name, values in by_name.items() if judged.any() and not np.isnan(values[judged]).any()]
    groups = np.unique(columns[0][judged], return_inverse=True)[1]
    values = np.stack([by_name[name][judged] for name in names], axis=1) if names else np.zeros((0, 1))
    measure = "answers foreseen"
    if len(np.unique(groups)) < 2:
        early = Verdict("too early to tell", 0.0, -1.0, 1.0, len(np.unique(groups)), 1.0, measure, "items", share=0.0)
        return JudgedComparisons(EUCLIDEAN, early.of_metric(), {})
    decision = judge(values[np.newaxis], first[judged][np.newaxis], measure=measure, units="items", groups=groups)
    means = {name: float(values[:, at].mean()) for at, name in enumerate(names)}
    return JudgedComparisons(names[decision.chosen], decision.verdict.of_metric(), means)


def _values(metric: MahalanobisMetric, data: Pairs | Triplets, train: IndexArray, test: IndexArray) -> FloatArray:
    """Return the value of each tested comparison: 1 if it is foreseen, 0 if not, 1/2 for ties."""
    if isinstance(data, Triplets):
        margins = metric.margins(data[test])
        return np.asarray(np.where(margins == 0.0, 0.5, margins > 0.0))
    assert data.similar is not None, "labelled above"
    margins = metric.calibrate_threshold(data[train]).margins(data[test])
    return np.asarray((margins >= 0.0) == data.similar[test], dtype=np.float64)
