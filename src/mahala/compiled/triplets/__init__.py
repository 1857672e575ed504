"""Compiled steps of the learners from triplets."""
