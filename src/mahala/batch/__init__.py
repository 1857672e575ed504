"""Learners from all the data at once, one algorithm a file."""
