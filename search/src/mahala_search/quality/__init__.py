"""Judgments of results, and the quality of rankings."""
