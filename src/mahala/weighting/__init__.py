"""Learners that weight the features, one algorithm a file."""
