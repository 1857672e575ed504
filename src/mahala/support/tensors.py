"""Tensors of PyTorch at the door: they are taken as arrays, and answered in kind. PyTorch itself is not imported."""

from __future__ import annotations

from typing import Any


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of PyTorch."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(X).__mro__)


def to_numpy(X: Any) -> Any:
    """Return a tensor as an array of NumPy, which shares its memory if it is on the processor; others unchanged."""
    return X.detach().cpu().numpy() if is_tensor(X) else X


def like(result: Any, X: Any) -> Any:
    """Return an array as a tensor on the device of X if that is a tensor; otherwise unchanged."""
    if not is_tensor(X):
        return result
    import torch

    return torch.as_tensor(result, device=X.device)


def engine_of(X: Any, default: str | None) -> str | None:
    """Return the engine for rows X: the device of a tensor that is not on the processor, otherwise the default."""
    return str(X.device) if is_tensor(X) and X.device.type == "cuda" else default
