# The public names of this package, loaded on first use.
from mahala.stream.stream import Stream as Stream

__all__: list[str]
