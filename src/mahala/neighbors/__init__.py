"""Models that predict from the user's own rows: a learned metric, votes of rows, a linear expert and boosted trees."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
