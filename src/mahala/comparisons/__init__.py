"""Pairs and triplets: comparisons between rows."""

from mahala.comparisons.pairs import Pairs, Triplets

__all__ = ["Pairs", "Triplets"]
