"""What commands of other packages share with those of mahala: options, input, output, errors."""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
