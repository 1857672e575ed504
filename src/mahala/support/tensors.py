"""Arrays of PyTorch and of Dask at the door, which are answered in kind; neither library is imported."""

from __future__ import annotations

from typing import Any


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of PyTorch."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(X).__mro__)


def is_dask(X: Any) -> bool:
    """Whether X is an array, data frame or series of Dask."""
    return hasattr(type(X), "__dask_graph__") and hasattr(X, "ndim")


def is_bag(X: Any) -> bool:
    """Whether X is a bag of Dask."""
    return hasattr(type(X), "__dask_graph__") and hasattr(type(X), "foldby")


def to_numpy(X: Any) -> Any:
    """Return a tensor as an array of NumPy, which shares its memory if it is on the processor; others unchanged."""
    return X.detach().cpu().numpy() if is_tensor(X) else X


def like(result: Any, X: Any) -> Any:
    """Return an array as a tensor on the device of X if that is a tensor; otherwise unchanged."""
    if not is_tensor(X):
        return result
    import torch

    return torch.as_tensor(result, device=X.device)


def engine_of(X: Any, default: Any) -> Any:
    """Return the engine for rows X: the device of a tensor that is not on the processor, Dask, or the default.

    The workers of Dask use the default, if that is a name.
    """
    if is_dask(X):
        name = default or ""
        return f"dask:{name.removeprefix('dask:')}" if isinstance(name, str) else default
    return str(X.device) if is_tensor(X) and X.device.type == "cuda" else default
