"""Tables, array files and data sets by name."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
