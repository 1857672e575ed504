"""A device of PyTorch, computations on it in blocks that fit into its memory, and the arrays of minibatches."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from mahala.engine.map_descent import DeviceArrays
from mahala.support.arrays import RealArray, StoredRows, memory_limit
from mahala.support.validation import is_tensor

T = TypeVar("T")
P = ParamSpec("P")
Device = TypeVar("Device", bound="DeviceMemory")

# Bytes of a block of products at first; halved when memory runs out.
BLOCK_BYTES = 2**31
LEAST_BYTES = 2**20
# The precision of the factors of products on a GPU.
GPU_FACTORS = "bfloat16"
# How much of the device's free memory rows may take that are not there yet.
SHARE_OF_MEMORY = 0.8


class DeviceMemory:
    """A device, named as PyTorch names it, or "torch-cpu" for its processor, and the size of a block on it."""

    def __init__(self, name: str, *, tf32: bool = False) -> None:
        self.device = torch.device("cpu" if name == "torch-cpu" else name)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"engine is {name!r}, but PyTorch finds no CUDA device here: use engine='cpu'")
        self._precision = "high" if tf32 else "highest"
        self.block_bytes = BLOCK_BYTES

    def rounding(self, Z: Tensor) -> float:
        """Return the relative error of a factor in products of Z."""
        if self._precision == "high" and Z.dtype == torch.float32 and self.device.type == "cuda":
            return 2.0**-10
        return float(torch.finfo(Z.dtype).eps)

    def place(self, X: RealArray) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(X), device=self.device)

    def fetch(self, Z: Tensor) -> RealArray:
        result: RealArray = Z.cpu().numpy()
        return result

    def rows_per_block(self, n: int, Z: Tensor) -> int:
        """Return how many rows of n numbers of the type of Z fit into a block."""
        return int(max(1, min(n, self.block_bytes // (4 * Z.element_size() * n))))

    def block_side(self, Z: Tensor) -> int:
        """Return how many rows of Z a block of products of rows with rows has on each side."""
        return int(min(len(Z), max(1, int((self.block_bytes / (8 * Z.element_size())) ** 0.5))))

    def within_memory(self, compute: Callable[[], T]) -> T:
        """Return what the function returns, with smaller blocks as long as memory runs out."""
        while True:
            try:
                with self.products():
                    return compute()
            except torch.OutOfMemoryError:
                if self.block_bytes <= LEAST_BYTES:
                    raise MemoryError(f"the rows do not fit into the memory of the device {self.device}") from None
                self.block_bytes //= 2
                torch.cuda.empty_cache()

    @contextmanager
    def products(self) -> Iterator[None]:
        """A context in which products have the precision of the engine, and nothing is differentiated."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self._precision)
        try:
            with torch.no_grad():
                yield
        finally:
            torch.set_float32_matmul_precision(before)


def in_blocks(method: Callable[Concatenate[Device, P], T]) -> Callable[Concatenate[Device, P], T]:
    """Let a method of an engine run within the memory of its device."""

    @wraps(method)
    def run(engine: Device, /, *arguments: P.args, **options: P.kwargs) -> T:
        return engine.within_memory(lambda: method(engine, *arguments, **options))

    return run


class TorchArrays(DeviceArrays):
    """Arrays of PyTorch for minibatches: products of bfloat16 factors on a GPU, else of float32."""

    xp = torch

    def __init__(self, device: torch.device) -> None:
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

    def place_rows(self, X: StoredRows) -> Tensor:
        with warnings.catch_warnings():  # of memory maps that are read-only, as they are here
            warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
            rows = X.detach() if is_tensor(X) else np.ascontiguousarray(X)
            return torch.as_tensor(rows, device=self.device)

    def holds(self, X: StoredRows) -> bool:
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
