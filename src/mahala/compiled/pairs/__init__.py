"""Compiled steps of the learners from pairs."""
