"""Learners that fit all the data at once, one algorithm per file."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
