"""Search that learns: a query map from clicks and judgments, and the proof of its gain."""

from mahala import public_names

__version__ = "0.2.0"

__getattr__, __dir__, _names = public_names(__name__)
__all__ = [*_names, "__version__"]
