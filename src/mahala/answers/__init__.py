"""Questions to people about items, and a metric that is learned from their answers."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
