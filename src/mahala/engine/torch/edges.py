"""Sums over weighted edges between rows on a device of PyTorch."""

from __future__ import annotations

import warnings

import numpy as np

from mahala.engine.torch.memory import DeviceMemory, Tensor
from mahala.support.arrays import FloatArray, IndexArray, RealArray

try:
    import torch
except ImportError:
    torch = None

Edges = tuple[Tensor, Tensor, Tensor]  # the rows at both ends, and the weights


class TorchEdgeGraph:
    """The leading eigenvector of sums over edges; see `EdgeGraph`."""

    def __init__(self, engine: DeviceMemory, X: RealArray, left: IndexArray, right: IndexArray) -> None:
        self._engine = engine
        self._X = engine.place(X)
        n, m = len(X), len(left)
        rows = np.concatenate([left, right])
        order = np.argsort(rows, kind="stable")
        self._edges = engine.place(order % m)
        self._columns = engine.place(np.concatenate([right, left])[order])
        self._rows = engine.place(rows[order])
        self._ends = engine.place(np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]))

    def leading(self, weights: FloatArray) -> FloatArray:
        X, engine = self._X, self._engine

        def direction() -> FloatArray:
            values = engine.place(weights).to(X.dtype)[self._edges]
            product = _matrix(self._rows, self._ends, self._columns, values) @ X
            matrix = X.T @ (added(self._rows, values, len(X))[:, None] * X - product)
            vectors = torch.linalg.eigh((0.5 * (matrix + matrix.T)).to(torch.float64)).eigenvectors
            return engine.fetch(vectors[:, -1])

        return engine.within_memory(direction)


def added(index: Tensor, values: Tensor, n: int) -> Tensor:
    """Return the sum of the values of each index from 0 to n - 1."""
    return torch.zeros(n, dtype=values.dtype, device=values.device).index_add_(0, index, values)


def pull_of_edges(Z: Tensor, edges: list[Edges]) -> Tensor:
    """Return the product of the Laplacian of weighted edges with Z."""
    if not edges:
        return torch.zeros_like(Z)
    left, right, weights = (torch.cat(column) for column in zip(*edges, strict=True))
    n = len(Z)
    rows, columns = torch.cat([left, right]), torch.cat([right, left])
    order = rows.argsort()
    ends = torch.zeros(n + 1, dtype=torch.long, device=Z.device)
    ends[1:] = torch.bincount(rows, minlength=n).cumsum(0)
    values = torch.cat([weights, weights])[order]
    matrix = _matrix(rows[order], ends, columns[order], values)
    degrees = added(rows, torch.cat([weights, weights]), n)
    return degrees[:, None] * Z - matrix @ Z


def _matrix(rows: Tensor, ends: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    """Return the square matrix with these entries, of which those of one place are added: CSR unless it is small."""
    n = len(ends) - 1
    if len(values) > n * n:  # cuSPARSE refuses more entries than places
        return added(rows * n + columns, values, n * n).view(n, n)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # that CSR matrices are new
        return torch.sparse_csr_tensor(ends, columns, values, (n, n), check_invariants=False)
