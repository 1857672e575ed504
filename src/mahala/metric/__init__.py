"""Metrics: what every learner yields."""

from mahala.metric.base import Explanation, Metric, scores_in_blocks

__all__ = ["Explanation", "Metric", "scores_in_blocks"]
