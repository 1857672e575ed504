"""Pairs and triplets, which compare rows; impressions, and judgments of items for queries."""

from mahala.comparisons.impressions import Impression, Impressions
from mahala.comparisons.judgments import Judgments
from mahala.comparisons.pairs import Pairs
from mahala.comparisons.triplets import Triplets

__all__ = ["Impression", "Impressions", "Judgments", "Pairs", "Triplets"]
