"""Pairs, triplets and quadruplets, which compare rows; impressions, and judgments of items for queries."""

from mahala.comparisons.impressions import Impression, Impressions
from mahala.comparisons.judgments import Judgments
from mahala.comparisons.pairs import Comparisons, Pairs
from mahala.comparisons.quadruplets import Quadruplets
from mahala.comparisons.triplets import Triplets

__all__ = ["Comparisons", "Impression", "Impressions", "Judgments", "Pairs", "Quadruplets", "Triplets"]
