"""What learns the map of an adapter: a similarity learner, its model, and the scale of the scores seen."""

import math
from typing import Any

import numpy as np
from sklearn.base import clone

from mahala.feedback.maps.deferred_map import DeferredMap
from mahala.feedback.maps.judged import Averaged
from mahala.metric import BilinearMetric
from mahala.online.oasis import OASIS
from mahala.online.similarity_learner import SimilarityLearner
from mahala.online.state.similarity import LONGEST_STEP, SimilarityRule
from mahala.support.arrays import Arrays, FloatArray
from mahala.support.model_files import count_value, header_value, number_value
from mahala.support.parameters import check_params

# A smaller difference between scores, in products of the vectors' lengths, is one of rounding.
ROUNDING = 1e-12


class MapLearner:
    """A learner that starts from the identity, in steps whose "auto" parameters follow the scores seen so far.

    What is `learned` has the mean of all models beside the last one.
    """

    def __init__(self, learner: SimilarityLearner | None, n_features: int) -> None:
        self.learner: Any = OASIS("auto", margin="auto") if learner is None else clone(learner)
        if isinstance(self.learner.init, BilinearMetric):
            raise ValueError("learner must start from the identity (the plain ranking), but its init is a metric")
        self.learner.set_params(init="identity", average=True, storage="dense", record=False)
        check_params(self.learner)
        self.learner._check_params()
        self.learner.n_features_in_ = self.learner.n_item_features_ = n_features
        self.learner._gap = self.learner._size = 1.0
        self._n_scales = 0
        self._score: float | None = None  # the first raw score of the last page
        self.plain = bool(self.learner._step_rule().plain)  # whether steps can have any length
        self.learned = self.new_model()

    @property
    def rule(self) -> SimilarityRule:
        """The rule of a step, for scores of the scale seen so far."""
        rule: SimilarityRule = self.learner._rule()
        return rule

    def new_model(self) -> Averaged:
        """Return a model with nothing learned."""
        if self.plain:
            return DeferredMap(self.learner.n_features_in_, self.learner.max_memory)
        try:
            model: Averaged = self.learner._model_in("dense", self.rule)
        except MemoryError as error:  # whose advice is for learners that need not hold the whole matrix
            size, less = str(error).partition(";")[0], "give it dtype='float32', or use vectors of fewer features"
            raise MemoryError(f"{size}; raise max_memory of the adapter's learner, {less}") from error
        return model

    def score_page(self, x: FloatArray, items: FloatArray, learned: bool) -> FloatArray:
        """Take a page into the scale; return columns of scores: raw, and perhaps by the mean and the last model."""
        if learned and isinstance(self.learned, DeferredMap):
            scores, size = self.learned.scores(x, items)
        else:
            maps = [x, *(self.learned.products(x)[::-1] if learned else ())]
            scores = np.column_stack([items @ mapped for mapped in maps])
            size = float(x @ x) * float(np.vdot(items, items)) / len(items)
        self._see_page(scores[:, 0].tolist(), math.sqrt(size))
        return scores

    @property
    def gap(self) -> float:
        """The mean difference between the best and the worst raw score on a page; 1 before one was seen."""
        return float(self.learner._gap)

    def _see_page(self, scores: list[float], size: float) -> None:
        """Take the raw scores of a page into the scale; `size` is the mean product of the lengths of two vectors."""
        gap = max(scores) - min(scores)
        if len(scores) == 2 and self._score is not None:
            gap = abs(scores[0] - self._score)  # the two may have been chosen because their scores are close
        self._score = scores[0]
        self.see(gap, size)

    def see(self, gap: float, size: float, weight: int = 1) -> None:
        """Take the scales of the scores on a page into their running means; scores equal up to rounding have none."""
        if gap > ROUNDING * size > 0.0:
            self._n_scales += weight
            learner, share = self.learner, weight / self._n_scales
            learner._gap += (min(max(gap, 1.0 / LONGEST_STEP), LONGEST_STEP) - learner._gap) * share
            learner._size += (min(max(size, 1.0 / LONGEST_STEP), LONGEST_STEP) - learner._size) * share

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the state as a header and arrays for a model file."""
        model, arrays = self.learned.get_state()
        header: dict[str, object] = {"gap": self.learner._gap, "size": self.learner._size, "n_scales": self._n_scales}
        return header | {"score": self._score, "n_steps": self.learned.n_steps, "model": model}, arrays

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        for name in ("gap", "size"):
            value = number_value(header, name, least=1.0 / LONGEST_STEP)
            setattr(self.learner, f"_{name}", min(value, LONGEST_STEP))
        self._n_scales = count_value(header, "n_scales")
        self._score = header_value({"score": None} | header, "score", float, int, type(None))
        self.learned.n_steps = count_value(header, "n_steps")
        self.learned.set_state(header_value(header, "model", dict), arrays)
