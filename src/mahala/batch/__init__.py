"""Learners that fit all the data at once, one algorithm per file."""
