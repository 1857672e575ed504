# The public names of this package, loaded on first use.
from mahala_search.serve.client import Client as Client

__all__: list[str]
