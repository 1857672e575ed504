"""Search that learns from the people who use it: a store, a learner, and an HTTP API."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
