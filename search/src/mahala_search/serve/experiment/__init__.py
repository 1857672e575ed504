"""Learned and plain rankings compared on the people who search."""
