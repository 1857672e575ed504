"""Learners from one comparison at a time, one algorithm per file, and their record."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
