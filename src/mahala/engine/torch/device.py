"""Sums over rows and pairs, in blocks of rows that fit into the memory of the device.

The definitions and the bounds on rounding are those of the functions for the cores in `compiled`. Where few pairs of a
block matter, they are listed and added as a sparse matrix; otherwise the block is multiplied in full.
"""

from collections.abc import Callable
from itertools import combinations_with_replacement, product
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from mahala.compiled.sums.pair_sums import Cost, slices_of
from mahala.compiled.sums.vote_sums import Votes
from mahala.engine.engine import LeadingDirection
from mahala.engine.torch.edges import Edges, TorchHinges, added, edge_graph, pull_of_edges
from mahala.engine.torch.memory import DeviceMemory, TorchArrays, in_blocks
from mahala.engine.torch.neighbors import nearest
from mahala.engine.torch.votes import drawn_vote_sums, vote_means, vote_sums
from mahala.support.arrays import FloatArray, IndexArray, RealArray, Rows, slices
from mahala.support.validation import is_sparse

T = TypeVar("T")

# If fewer than one weight in this many is non-zero, a sparse product is faster.
SPARSE_SHARE = 64


class TorchDevice(DeviceMemory):
    """An engine on a device of PyTorch."""

    def of_images(self, function: Callable[[RealArray], T], Z: Tensor) -> T:
        return function(self.fetch(Z))

    def map(self, X: Tensor, L: RealArray) -> Tensor:
        with self.products():
            placed = self.place(L)
            return X * placed if L.ndim == 1 else X @ placed.T

    def gradient(self, pull: Tensor, X: Tensor, *, diagonal: bool = False) -> RealArray:
        with self.products():
            return self.fetch((pull * X).sum(0) if diagonal else pull.T @ X)

    @in_blocks
    def softmax(self, Z: Tensor, codes: IndexArray, rows: slice | None = None) -> tuple[float, Tensor]:
        n, classes = len(Z), self.place(codes)
        norms = Z.square().sum(1)
        rounding = (self.rounding(Z) * (1.0 + norms)).clamp(max=1.0)
        cuts = torch.log(n / rounding)
        pull, sums = torch.zeros_like(Z), torch.zeros_like(norms)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        listed: list[Edges] = []
        for block in slices_of(rows or slice(0, n), self.rows_per_block(n, Z)):
            z = Z[block]
            distances = torch.addmm(norms, z, Z.T, alpha=-2.0)  # up to the norm of the row
            distances[:, block].fill_diagonal_(torch.inf)
            nearest = distances.amin(1, keepdim=True)
            matter = distances <= nearest + cuts[block, None]
            if int(torch.count_nonzero(matter)) * SPARSE_SHARE < distances.numel():
                row, column = matter.nonzero(as_tuple=True)
                weights = torch.exp(nearest[row, 0] - distances[row, column])
                same = (classes[block][row] == classes[column]).to(Z.dtype)
                all_weight = added(row, weights, len(z))
                p = added(row, weights * same, len(z)) / all_weight
                listed.append((row + block.start, column, weights * (p[row] - same) / all_weight[row]))
            else:
                weights = torch.exp_(nearest - distances)
                same = (classes[block, None] == classes).to(Z.dtype)
                all_weight = weights.sum(1)
                p = (weights * same).sum(1) / all_weight
                weights.mul_(same.neg_().add_(p[:, None])).div_(all_weight[:, None])
                sums += weights.sum(0)
                sums[block] += weights.sum(1)
                pull[block] -= weights @ Z
                pull -= weights.T @ z
            total += p.sum(dtype=torch.float64)
        pull += sums[:, None] * Z
        return float(total), pull.add_(pull_of_edges(Z, listed))

    def within(self, Z: Tensor, codes: IndexArray, weights: FloatArray | None = None) -> tuple[float, Tensor]:
        classes, w = self.place(codes), self.place(np.ones(len(codes)) if weights is None else weights)[:, None]
        sizes = added(classes, w[:, 0], int(codes.max()) + 1)
        means = torch.zeros((len(sizes), Z.shape[1]), dtype=torch.float64, device=self.device)
        means.index_add_(0, classes, w * Z).div_(sizes[:, None])
        residuals = Z - means.to(Z.dtype)[classes]
        pull = residuals * (w * sizes[classes, None]).to(Z.dtype)
        return float((pull * residuals).sum(dtype=torch.float64)), pull

    @in_blocks
    def between(
        self, Z: Tensor, codes: IndexArray, cost: Cost, weights: FloatArray | None = None, rows: slice | None = None
    ) -> tuple[float, Tensor]:
        a, b, c, cutoff = cost
        n, classes = len(Z), self.place(codes)
        w = None if weights is None else self.place(weights).to(Z.dtype)
        norms = Z.square().sum(1)
        pull, sums = torch.zeros_like(Z), torch.zeros_like(norms)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        listed: list[Edges] = []
        blocks = list(slices(n, self.block_side(Z)))
        pairs = combinations_with_replacement(blocks, 2)
        for left, right in pairs if rows is None else product(slices_of(rows, self.block_side(Z)), blocks):
            x, y = Z[left], Z[right]
            both = norms[left, None] + norms[right]
            squared = torch.addmm(both, x, y.T, alpha=-2.0).clamp_(min=0.0)
            counted = (classes[left, None] != classes[right]) & (squared < cutoff * cutoff)
            if rows is None and left == right:
                counted.triu_(1)
            squared.masked_fill_(~counted, 0.0)
            n_counted = int(torch.count_nonzero(counted))
            roots = squared.sqrt()
            both_weights = None if w is None else w[left, None] * w[right]
            for factor, terms in ((a, counted), (b, roots), (c, squared)):
                total += factor * (terms if both_weights is None else terms * both_weights).sum(dtype=torch.float64)
            # The most that rounding can leave of a squared distance that is zero has no direction.
            counted &= squared > both.mul_(4.0 * self.rounding(Z)).add_(torch.finfo(Z.dtype).tiny)
            if n_counted * SPARSE_SHARE < squared.numel():
                row, column = counted.nonzero(as_tuple=True)
                values = 0.5 * b / roots[row, column] + c
                values *= 1.0 if both_weights is None else both_weights[row, column]
                listed.append((row + left.start, column + right.start, values))
                continue
            slopes = roots.reciprocal_().mul_(0.5 * b).add_(c).masked_fill_(~counted, 0.0)
            slopes = slopes if both_weights is None else slopes.mul_(both_weights)
            sums[left] += slopes.sum(1)
            sums[right] += slopes.sum(0)
            pull[left] -= slopes @ y
            pull[right] -= slopes.T @ x
        pull += sums[:, None] * Z
        pull += pull_of_edges(Z, listed)
        return (float(total), pull) if rows is None else (float(total) / 2.0, pull.div_(2.0))

    def hinges(self, codes: IndexArray, edges: IndexArray, ends: IndexArray, mu: float) -> TorchHinges:
        return TorchHinges(self, codes, edges, ends, mu)

    def edge_graph(self, X: RealArray, left: IndexArray, right: IndexArray) -> LeadingDirection:
        return edge_graph(self, X, left, right)

    def vote_sums(self, votes: Votes) -> Callable[[Tensor], tuple[float, Tensor]]:
        return vote_sums(self, votes)

    @in_blocks
    def drawn_vote_sums(
        self, Z: Tensor, votes: Votes, voters: Tensor, their: Votes, itself: IndexArray
    ) -> tuple[float, Tensor, Tensor]:
        return drawn_vote_sums(self, Z, votes, voters, their, itself)

    @in_blocks
    def vote_means(
        self, queries: RealArray, voters: RealArray, values: RealArray, weights: RealArray | None = None
    ) -> RealArray:
        return vote_means(self, queries, voters, values, weights)

    def arrays(self) -> TorchArrays:
        return TorchArrays(self.device)

    @in_blocks
    def nearest(self, reference: Rows, queries: Rows, k: int) -> tuple[IndexArray, FloatArray]:
        rows = self.place(_dense(reference))
        rows = rows if rows.dtype.is_floating_point else rows.to(torch.float64)
        query_rows = rows if queries is reference else self.place(_dense(queries))
        numbers, squared = nearest(self, rows, query_rows, k)
        return self.fetch(numbers).astype(np.intp), self.fetch(squared)

    def nearest_by_class(
        self, X: RealArray, codes: IndexArray, rows: IndexArray, n_same: int, n_other: int
    ) -> tuple[IndexArray, IndexArray]:
        same, other = (np.full((len(rows), k), len(X)) for k in (n_same, n_other))
        for code in np.unique(codes[rows]):
            of_class = codes[rows] == code
            for result, members in ((same, np.flatnonzero(codes == code)), (other, np.flatnonzero(codes != code))):
                k = min(result.shape[1] + (result is same), len(members))
                if k == 0:
                    continue
                numbers = members[self.nearest(X[members], X[rows[of_class]], k)[0]]
                if result is same:  # the row itself is among them, or as near as the last of them
                    mine = numbers == rows[of_class][:, None]
                    mine[~mine.any(axis=1), -1] = True
                    numbers = numbers[~mine].reshape(len(numbers), -1)
                result[of_class, : numbers.shape[1]] = numbers
        return same, other


def _dense(X: Rows) -> RealArray:
    return X.toarray() if is_sparse(X) else np.asarray(X)
