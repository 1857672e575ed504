"""Metrics: the immutable results of learning."""

from mahala.metric.base import Metric, scores_in_blocks
from mahala.metric.bilinear import BilinearMetric
from mahala.metric.explanation import Explanation
from mahala.metric.mahalanobis import MahalanobisMetric
from mahala.metric.steps import Scales, UnitRows

__all__ = ["BilinearMetric", "Explanation", "MahalanobisMetric", "Metric", "Scales", "UnitRows", "scores_in_blocks"]
