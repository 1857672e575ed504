"""The family of online learners from pairs: PA, POLA, LEGO and RDML."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from mahala.comparisons import Pairs
from mahala.comparisons.pairs import draw_pairs
from mahala.learner import DistanceMixin
from mahala.metric import MahalanobisMetric
from mahala.online.online_learner import OnlineLearner
from mahala.support.arrays import FloatArray, RowsLike, StoredRows
from mahala.support.locking import one_at_a_time
from mahala.support.parameters import Count, Share
from mahala.support.signals import uninterrupted
from mahala.support.tags import Labels
from mahala.support.validation import check_row, check_sign


@dataclass(kw_only=True, eq=False, repr=False)
class PairLearner(DistanceMixin, OnlineLearner):
    """An online learner of a Mahalanobis metric and a threshold from pairs, or from labels by way of pairs."""

    n_pairs: Literal["auto"] | Count = "auto"
    balance: Share | None = None

    _learns_from: ClassVar = Pairs

    @one_at_a_time
    def learn_one(self, x: "RowsLike", x_other: "RowsLike", similar: bool | int) -> bool:
        """Learn from one pair; return whether it was predicted to be similar before the update.

        Parameters
        ----------
        x, x_other : vectors of the same length
        similar : True or +1 for similar, False or -1 for dissimilar
        """
        x, x_other = check_row(x, "x"), check_row(x_other, "x_other")
        if x.shape != x_other.shape:
            raise ValueError(f"x has {x.size} features and x_other {x_other.size}; they must have the same number")
        y = 1 if check_sign(similar) else -1
        if "_model" not in vars(self) or x.size != self.n_features_in_ or self._model.steps:
            self.partial_fit(Pairs._build(np.stack([x, x_other]), np.array([0]), np.array([1]), np.array([y == 1])))
            return self._last_step[2] == 1
        self._check_stream("learn_one")
        with uninterrupted():
            p, tau, predicted = self._model.feed_one(x - x_other, y, self._rule_in_force)
            self._note_one(y, p, tau, predicted)
        return bool(predicted == 1)

    def _drawn(self, X: StoredRows, labels: Labels, at_most: bool) -> Pairs:
        drawn = draw_pairs(labels, self.n_pairs, self.balance, self._rng, name="n_pairs", at_most=at_most)
        return Pairs._build(X, *drawn)

    def _loss_terms(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, bool]:
        """Return a, s and w of the loss z = a + s d - w b of pairs at distance d, and whether z < 0 is a loss, too."""
        return np.ones_like(y), y, y, False

    def _form_metric(self) -> MahalanobisMetric:
        return self._model.metric(**self._about())  # type: ignore[no-any-return]

    @property
    def metric_(self) -> MahalanobisMetric:
        """What has been learned so far."""
        metric: MahalanobisMetric = super().metric_
        return metric

    @property
    def threshold_(self) -> float:
        """Pairs at most this far apart (squared) are predicted to be similar."""
        self._check_fitted()
        return float(self._model.threshold)

    @property
    def components_(self) -> FloatArray:
        """The linear map of `transform`, a row for each direction: M = components_ᵀ components_."""
        return self.metric_.components
