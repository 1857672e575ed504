"""Sums over weighted edges between rows: their leading direction, and LMNN's objective."""

import warnings
from itertools import combinations_with_replacement

import numpy as np
import torch

from mahala.engine.engine import LeadingDirection
from mahala.engine.hinges import FEW_COORDINATES, KEPT_STEPS, MOST_LONGER, TAIL
from mahala.engine.torch.memory import DeviceMemory, Tensor
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
        self._near: tuple[Tensor, Tensor] | None = None
        self._at = self._last = self._radii = torch.empty(0)
        self._axes: Tensor | None = None

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

    def _near_pairs(self, Z: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        radii = radius.clamp(min=0.0).sqrt()
        step = float((Z - self._last).square().sum(1).max().sqrt()) if self._last.shape == Z.shape else np.inf
        self._last = Z
        if self._near is not None and self._at.shape == Z.shape:
            moves = (Z - self._at).square().sum(1).sqrt()
            if bool((radii + moves + moves.max() <= self._radii).all()):
                return self._near
        longer = KEPT_STEPS * step if KEPT_STEPS * step < MOST_LONGER * float(radii.mean()) else 0.0
        self._near = None  # the search may run out of memory
        longest = radii + longer
        pairs = self._search(Z, torch.where(radius >= 0.0, longest.square(), -torch.inf))
        if longer > 0.0:
            self._near, self._at, self._radii = pairs, Z, longest
        return pairs

    def _search(self, Z: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        n, m = Z.shape
        heads = self._heads(Z)
        norms = heads.square().sum(1) * (1.0 - 8 * (m + 4) * self._engine.rounding(Z))
        pairs = []
        for left, right in combinations_with_replacement(slices(n, self._engine.block_side(Z)), 2):
            squared = torch.addmm(norms[left, None] + norms[right], heads[left], heads[right].T, alpha=-2.0)
            near = squared < torch.maximum(radius[left, None], radius[right])
            near &= self._codes[left, None] != self._codes[right]
            if left == right:
                near.triu_(1)
            row, column = near.nonzero(as_tuple=True)
            pairs.append((row + left.start, column + right.start))
        rows, columns = zip(*pairs, strict=True)
        return torch.cat(rows), torch.cat(columns)

    def _heads(self, Z: Tensor) -> Tensor:
        m = Z.shape[1]
        if m <= FEW_COORDINATES:
            return Z
        squares = Z.square().sum(1)
        share = TAIL * float(squares.sum(dtype=torch.float64))
        if self._axes is not None and len(self._axes) == m:
            heads = _split(Z, squares, self._axes)
            if float(heads[:, -1].square().sum(dtype=torch.float64)) <= 2.0 * share:
                return heads
        variances, axes = torch.linalg.eigh((Z.T @ Z).to(torch.float64))
        n_tail = int(torch.searchsorted(variances.clamp(min=0.0).cumsum(0), share, right=True))
        self._axes = axes[:, n_tail:].to(Z.dtype).contiguous()
        return _split(Z, squares, self._axes)


def _split(Z: Tensor, squares: Tensor, axes: Tensor) -> Tensor:
    """Return the coordinates of rows along some axes, and the root of what is left of their squared norms."""
    heads = Z @ axes
    return torch.cat([heads, (squares - heads.square().sum(1)).clamp_(min=0.0).sqrt_()[:, None]], dim=1)


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
