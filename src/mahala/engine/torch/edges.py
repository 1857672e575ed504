"""Sums over weighted edges between rows: their leading direction, and LMNN's objective."""

import warnings
from itertools import combinations_with_replacement

import numpy as np
import torch
from torch import Tensor

from mahala.engine.engine import LeadingDirection
from mahala.engine.near_search import NearSearch
from mahala.engine.torch.memory import DeviceMemory
from mahala.support.arrays import FloatArray, IndexArray, RealArray, slices

Edges = tuple[Tensor, Tensor, Tensor]  # the rows at both ends, and the weights


def edge_graph(engine: DeviceMemory, X: RealArray, left: IndexArray, right: IndexArray) -> LeadingDirection:
    """Return the leading eigenvector of sums over edges as a function of their weights; see `EdgeGraph`."""
    rows, placed = np.concatenate([left, right]), engine.place(X)
    order = np.argsort(rows, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    arrays = order % len(left), rows[order], ends, np.concatenate([right, left])[order]
    edges, heads, starts, tails = (engine.place(array) for array in arrays)

    def direction(weights: FloatArray) -> FloatArray:
        values = engine.place(weights).to(placed.dtype)[edges]
        product = _matrix(heads, starts, tails, values) @ placed
        matrix = placed.T @ (added(heads, values, len(placed))[:, None] * placed - product)
        vectors = torch.linalg.eigh((0.5 * (matrix + matrix.T)).to(torch.float64)).eigenvectors
        return engine.fetch(vectors[:, -1])

    return lambda weights: engine.within_memory(lambda: direction(weights))


class TorchHinges:
    """LMNN's objective on labelled rows; see `RowHinges`, whose search this follows."""

    def __init__(self, engine: DeviceMemory, codes: IndexArray, edges: IndexArray, ends: IndexArray, mu: float) -> None:
        self._engine, self._mu = engine, mu
        self._codes = engine.place(codes)
        self._anchors, self._targets = (engine.place(end) for end in edges)
        n_targets = np.diff(ends)
        # Each row's targets are a row of a matrix, filled up with targets at distance -inf, which have no hinge.
        self._place = self._anchors * int(n_targets.max()) + engine.place(np.arange(len(edges[0])) - ends[edges[0]])
        self._shape = len(codes), int(n_targets.max())
        self._search = NearSearch(torch, lambda rows: rows.square().sum(1), torch.matmul)

    def __call__(self, Z: Tensor, smoothing: float) -> tuple[float, float, Tensor]:
        return self._engine.within_memory(lambda: self._objective(Z, smoothing))

    def _objective(self, Z: Tensor, smoothing: float) -> tuple[float, float, Tensor]:
        mu = self._mu
        squared = (Z[self._anchors] - Z[self._targets]).square().sum(1)
        targets = torch.full(self._shape, -torch.inf, dtype=Z.dtype, device=Z.device)
        targets.view(-1)[self._place] = squared
        radius = targets.amax(1) + (1.0 + smoothing)
        slopes = torch.zeros_like(targets)
        smooth = torch.zeros((), dtype=torch.float64, device=Z.device)
        plain = torch.zeros_like(smooth)
        listed: list[Edges] = []
        left, right = self._near_pairs(Z, radius)
        for part in slices(len(left), max(1, self._engine.block_bytes // (32 * Z.element_size() * Z.shape[1]))):
            i, l = left[part], right[part]
            distance = (Z[i] - Z[l]).square().sum(1)
            weights = torch.zeros_like(distance)
            for anchor in (i, l):
                hinge = 1.0 + targets[anchor] - distance[:, None]
                slope = (hinge / smoothing + 0.5).clamp(0.0, 1.0)
                smooth += torch.where(slope == 1.0, hinge, 0.5 * smoothing * slope.square()).sum(dtype=torch.float64)
                plain += hinge.clamp(min=0.0).sum(dtype=torch.float64)
                slopes.index_add_(0, anchor, slope)
                weights += slope.sum(1)
            active = weights > 0.0
            listed.append((i[active], l[active], -mu * weights[active]))
        listed.append((self._anchors, self._targets, 1.0 - mu + mu * slopes.view(-1)[self._place]))
        near = (1.0 - mu) * float(squared.sum(dtype=torch.float64))
        return near + mu * float(smooth), near + mu * float(plain), pull_of_edges(Z, listed)

    def _near_pairs(self, Z: Tensor, needed: Tensor) -> tuple[Tensor, Tensor]:
        radius = self._search.radius(Z, needed)
        if radius is None:
            return self._search.pairs  # type: ignore[no-any-return]
        heads = self._search.heads(Z)
        norms = heads.square().sum(1) * (1.0 - 8 * (Z.shape[1] + 4) * self._engine.rounding(Z))
        pairs = []
        for left, right in combinations_with_replacement(slices(len(Z), self._engine.block_side(Z)), 2):
            squared = torch.addmm(norms[left, None] + norms[right], heads[left], heads[right].T, alpha=-2.0)
            near = squared < torch.maximum(radius[left, None], radius[right])
            near &= self._codes[left, None] != self._codes[right]
            if left == right:
                near.triu_(1)
            row, column = near.nonzero(as_tuple=True)
            pairs.append((row + left.start, column + right.start))
        rows, columns = (torch.cat(numbers) for numbers in zip(*pairs, strict=True))
        if self._search.keeps:
            self._search.pairs = rows, columns
        return rows, columns


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
