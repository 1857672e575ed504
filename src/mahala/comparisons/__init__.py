"""Pairs and triplets, which compare rows, and judgments of items for queries."""

from mahala.comparisons.judgments import Judgments
from mahala.comparisons.pairs import Pairs
from mahala.comparisons.triplets import Triplets

__all__ = ["Judgments", "Pairs", "Triplets"]
