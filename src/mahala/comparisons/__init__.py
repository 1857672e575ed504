"""Pairs, triplets and quadruplets, which compare rows."""

from mahala.comparisons.pairs import Comparisons, Pairs
from mahala.comparisons.quadruplets import Quadruplets
from mahala.comparisons.triplets import Triplets

__all__ = ["Comparisons", "Pairs", "Quadruplets", "Triplets"]
