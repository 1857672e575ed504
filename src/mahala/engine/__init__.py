"""Where sums over rows and pairs are computed: on this machine's cores, on a device of PyTorch, or on Dask."""

from mahala.engine.engine import Engine as Engine
from mahala.engine.engine import current_engine as current_engine
