"""Metrics: what every learner yields."""

import numpy as np

from mahala.metric.base import Explanation, Metric, scores_in_blocks


class MahalanobisMetric(Metric):
    def margins(self, c):
        X = c.X
        if hasattr(c, "left"):
            return (self.threshold or 0.0) - self.distance(X[c.left], X[c.right], squared=True)
        return self.distance(X[c.anchor], X[c.negative], squared=True) - self.distance(
            X[c.anchor], X[c.positive], squared=True
        )


class BilinearMetric(Metric):
    def __init__(self, matrix, *, feature_names=None, origin=None):
        super().__init__(matrix, None, "bilinear", feature_names, None, origin, None)

    def margins(self, c):
        X = c.X
        Y = X if c.items is None else c.items
        return self.similarity(X[c.anchor], Y[c.positive]) - self.similarity(X[c.anchor], Y[c.negative])


__all__ = ["BilinearMetric", "Explanation", "MahalanobisMetric", "Metric", "scores_in_blocks"]
