"""Compiled sums of the batch learners."""
