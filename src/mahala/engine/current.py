"""The choice of the engine."""

from contextlib import AbstractContextManager
from typing import Any

from mahala.engine.engine import Engine, MachineEngine
from mahala.engine.machine import machine
from mahala.support.parameters import WORKERS, config_context, get_config
from mahala.support.validation import is_chunked, is_tensor


def current_engine() -> Engine[Any]:
    """Return the engine of `set_config(engine=...)`."""
    name = get_config()["engine"]
    if name is None or (isinstance(name, str) and not name.startswith(WORKERS)):
        return machine(name or "cpu")
    from mahala.engine.dask.cluster import DaskCluster

    return DaskCluster(name.removeprefix(WORKERS) if isinstance(name, str) else "")


def machine_engine() -> MachineEngine[Any]:
    """Return the engine of the settings if it is one of this machine, else that of the cores."""
    name = get_config()["engine"]
    return machine(name if isinstance(name, str) and not name.startswith(WORKERS) else "cpu")


def engine_for(*inputs: object) -> AbstractContextManager[None]:
    """Return a context with the engine for rows: the GPU of a tensor, Dask for chunks, else that of the settings.

    The workers of Dask use the engine of the settings, if that is a name.
    """
    engine = get_config()["engine"]
    for X in inputs:
        if is_chunked(X) and (engine is None or isinstance(engine, str)):
            engine = f"{WORKERS}{(engine or '').removeprefix(WORKERS)}"
        elif is_tensor(X) and X.device.type == "cuda":
            engine = str(X.device)
    return config_context(engine=engine)
