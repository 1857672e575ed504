"""Learning from a stream of JSON lines, with a model file that stores the position in the stream."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
