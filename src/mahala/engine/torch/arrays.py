"""The arrays of minibatches on a device of PyTorch: products of bfloat16 factors on a GPU, else of float32."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mahala.engine.torch.memory import Tensor
from mahala.support.arrays import RealArray, memory_limit
from mahala.support.validation import is_tensor

try:
    import torch
except ImportError:
    torch = None

# The precision of the factors of products on a GPU.
GPU_FACTORS = "bfloat16"
# How much of the device's free memory rows may take that are not there yet.
SHARE_OF_MEMORY = 0.8


class TorchArrays:
    """See `DeviceArrays`."""

    xp: Any = torch

    def __init__(self, device: Any) -> None:
        self.device = device
        self._gpu = device.type == "cuda"
        self._precision = getattr(torch, GPU_FACTORS) if self._gpu else torch.float32

    def place(self, X: RealArray) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(X))
        # From pinned memory a copy does not wait for the device.
        return tensor.pin_memory().to(self.device, non_blocking=True) if self._gpu else tensor

    def fetch(self, Z: Tensor) -> RealArray:
        result: RealArray = Z.cpu().numpy()
        return result

    def place_rows(self, X: Any) -> Tensor:
        with warnings.catch_warnings():  # of memory maps that are read-only, as they are here
            warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
            rows = X.detach() if is_tensor(X) else np.ascontiguousarray(X)
            return torch.as_tensor(rows, device=self.device)

    def holds(self, X: Any) -> bool:
        return is_tensor(X) and (X.device.type, X.device.index or 0) == (self.device.type, self.device.index or 0)

    def room(self) -> float:
        if not self._gpu:
            return SHARE_OF_MEMORY * memory_limit(None)
        return SHARE_OF_MEMORY * float(torch.cuda.mem_get_info(self.device)[0])

    def differences(self, rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
        minuend, subtrahend = rows[left], rows[right]
        if not rows.dtype.is_floating_point:
            minuend, subtrahend = minuend.to(torch.float32), subtrahend.to(torch.float32)
        return minuend.sub_(subtrahend).to(self._precision)

    def factors(self, A: Tensor) -> Tensor:
        return A.to(self._precision)

    def product(self, A: Tensor, B: Tensor) -> Tensor:
        return A @ B

    def floats(self, A: Tensor) -> Tensor:
        return A.to(torch.float32)
