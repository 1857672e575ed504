"""Learning a query map from feedback, and judging what it learns."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
