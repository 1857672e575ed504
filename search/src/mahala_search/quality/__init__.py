"""Judgments of results, the quality of rankings, and clicks that are simulated."""
