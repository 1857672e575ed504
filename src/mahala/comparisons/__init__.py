"""Pairs and triplets: comparisons between rows."""

from mahala.comparisons.pairs import Pairs
from mahala.comparisons.triplets import Triplets

__all__ = ["Pairs", "Triplets"]
