"""Where sums over rows and pairs are computed: on the cores of this machine or on a device of PyTorch."""

from mahala.engine.engine import Engine as Engine
from mahala.engine.engine import current_engine as current_engine
