"""The engines of one machine, by name."""

from importlib.util import find_spec
from typing import Any

from mahala.engine.engine import MachineEngine
from mahala.support.parameters import get_config


def machine(name: str) -> MachineEngine[Any]:
    """Return the engine "cpu", or that of a device of PyTorch."""
    if name == "cpu":
        from mahala.engine.cores import Cores

        return Cores()
    if find_spec("torch") is None:
        raise ImportError(f"engine is {name!r}, which needs PyTorch: pip install 'mahala[gpu]'")
    from mahala.engine.torch.device import TorchDevice

    return TorchDevice(name, tf32=get_config()["tf32"])
