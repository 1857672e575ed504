"""What learns the map of an adapter: the step rule of a learner, on a map of the adapter's own."""

import math
from typing import ClassVar

import numpy as np
from sklearn.base import clone

from mahala import OASIS, OGD, BilinearMetric
from mahala.extend import Integer, Number, Part, Stateful, check_params
from mahala_search.adapter.maps.deferred_map import DeferredMap
from mahala_search.arrays import FloatArray
from mahala_search.compiled.deferred import StepRule

# Scores on a page are taken for differences from here on, and up to here.
SMALLEST_SCALE, LARGEST_SCALE = 1e-20, 1e20
# A smaller difference between scores, in products of the vectors' lengths, is one of rounding.
ROUNDING = 1e-12


class MapLearner(Stateful):
    """A map that starts from the identity, and the rule of its steps, which follows the scale of the scores seen."""

    FIELDS: ClassVar = (
        Number("gap", least=SMALLEST_SCALE, most=LARGEST_SCALE),
        Number("size", least=SMALLEST_SCALE, most=LARGEST_SCALE),
        Integer("n_scales"),
        Number("first_score", optional=True),
        Part("map"),
    )

    def __init__(self, learner: OASIS | OGD | None, n_features: int) -> None:
        self.learner = OASIS("auto", margin="auto") if learner is None else clone(learner)
        check_params(self.learner)
        if isinstance(self.learner.init, BilinearMetric):
            raise ValueError("learner must start from the identity (the plain ranking), but its init is a metric")
        self.gap = self.size = 1.0  # between the best and the worst raw score of a page; of the products of lengths
        self.n_scales = 0  # pages that these are means of
        self.first_score: float | None = None  # the first raw score of the last page
        self.n_features = n_features
        self.map = self.new_map()

    @property
    def rule(self) -> StepRule:
        """The rule of a step, for scores of the scale seen so far."""
        return self.learner.step_rule(self.gap, self.size).step(np.float64)

    def new_map(self) -> DeferredMap:
        """Return a map with nothing learned."""
        return DeferredMap(self.n_features, self.learner.max_memory)

    def score_page(self, x: FloatArray, items: FloatArray, learned: bool) -> FloatArray:
        """Take a page into the scale; return columns of scores: raw, and perhaps by the mean and the last map."""
        if learned:
            scores, size = self.map.scores(x, items)
        else:
            scores = (items @ x)[:, np.newaxis]
            size = float(x @ x) * float(np.vdot(items, items)) / len(items)
        self._see_page(scores[:, 0].tolist(), math.sqrt(size))
        return scores

    def _see_page(self, scores: list[float], size: float) -> None:
        """Take the raw scores of a page into the scale; `size` is the mean product of the lengths of two vectors."""
        gap = max(scores) - min(scores)
        if len(scores) == 2 and self.first_score is not None:
            gap = abs(scores[0] - self.first_score)  # the two may have been chosen because their scores are close
        self.first_score = scores[0]
        self.see(gap, size)

    def see(self, gap: float, size: float, weight: int = 1) -> None:
        """Take the scales of the scores on a page into their running means; scores equal up to rounding have none."""
        if gap > ROUNDING * size > 0.0:
            self.n_scales += weight
            share = weight / self.n_scales
            self.gap += (_bounded(gap) - self.gap) * share
            self.size += (_bounded(size) - self.size) * share


def _bounded(scale: float) -> float:
    return min(max(scale, SMALLEST_SCALE), LARGEST_SCALE)
