"""The engines of one machine, by name."""

from __future__ import annotations

from functools import cache

from mahala.engine.engine import Engine
from mahala.support.parameters import get_config


def machine(name: str) -> Engine:
    """Return the engine "cpu", or that of a device of PyTorch."""
    if name == "cpu":
        return _cores()
    from mahala.engine.torch.device import TorchDevice

    return TorchDevice(name, tf32=get_config()["tf32"])


@cache
def _cores() -> Engine:
    from mahala.engine.cores import Cores

    return Cores()
