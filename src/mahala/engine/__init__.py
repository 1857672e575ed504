"""Where sums over rows and pairs are computed: on this machine's cores, on a device of PyTorch, or on Dask.

Nothing above knows which one: learners ask `current_engine`, and rows of any kind go through `inputs` and `moments`.
"""

from mahala.engine.current import current_engine as current_engine
from mahala.engine.current import engine_for as engine_for
from mahala.engine.current import machine_engine as machine_engine
from mahala.engine.engine import Engine as Engine
