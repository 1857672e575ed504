"""Exact nearest neighbours on a device: candidates by fast products, whose distances are then computed in float64."""

import torch
from torch import Tensor

from mahala.engine.torch.memory import DeviceMemory
from mahala.support.arrays import slices

# Candidates beside the nearest in the first search. Queries for which these may be too few are searched again.
MORE_CANDIDATES = 22
# The smallest of so many numbers are searched first, which takes a fraction of the time of a search among all.
GROUP = 16
# The relative error of a factor of a float32 product, which a GPU rounds to 10 bits here.
ROUNDING = 2.0**-10


def nearest(engine: DeviceMemory, rows: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the row numbers and squared distances of the k nearest rows of each query; ties in the order of rows."""
    search = _Search(engine, rows, queries, k)
    search.run(torch.float32, torch.arange(len(queries), device=engine.device))
    uncertain = search.uncertain.nonzero()[:, 0]
    if len(uncertain):
        search.run(torch.float64, uncertain)
    return search.numbers, search.squared


class _Search:
    def __init__(self, engine: DeviceMemory, rows: Tensor, queries: Tensor, k: int) -> None:
        self._engine, self._k = engine, k
        self._rows, self._queries = rows, queries
        self._mean = rows.mean(0, dtype=torch.float64)
        self.numbers = torch.empty((len(queries), k), dtype=torch.int64, device=engine.device)
        self.squared = torch.empty((len(queries), k), dtype=torch.float64, device=engine.device)
        self.uncertain = torch.ones(len(queries), dtype=torch.bool, device=engine.device)

    def run(self, dtype: torch.dtype, numbers: Tensor) -> None:
        """Search with bounds of a dtype; in float32 some queries may stay uncertain."""
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            # Whole groups of rows; those that are added are infinitely far away.
            more = -len(self._rows) % GROUP
            centred = torch.nn.functional.pad((self._rows - self._mean).to(dtype), (0, 0, 0, more))
            norms = centred.square().sum(1)
            longest = norms.max().sqrt()
            norms[len(self._rows) :] = torch.inf
            for block in slices(len(numbers), self._engine.rows_per_block(len(centred), centred)):
                self._block(centred, norms, longest, numbers[block])
        finally:
            torch.set_float32_matmul_precision(precision)

    def _block(self, centred: Tensor, norms: Tensor, longest: Tensor, numbers: Tensor) -> None:
        rows, k, n = self._rows, self._k, len(self._rows)
        x = self._queries[numbers].to(torch.float64)
        x_centred = (x - self._mean).to(centred.dtype)
        bounds = torch.addmm(norms, x_centred, centred.T, alpha=-2.0)  # squared distances up to the norm of the query
        length = x_centred.norm(dim=1)
        if centred.dtype == torch.float32:
            values, candidates = _smallest(bounds, min(k + MORE_CANDIDATES, n), n)
            # Twice the error of a bound: of its product, and of the sums.
            sums = (rows.shape[1] + 4) * torch.finfo(torch.float32).eps
            error = 8.0 * (ROUNDING * length * longest + sums * (length.square() + longest.square()))
            self.uncertain[numbers] = ~(values[:, -1] > values[:, k - 1] + error) & (values.shape[1] < n)
        else:
            # All rows that may be among the nearest: as many as the query with the most has.
            bounds = bounds[:, :n]
            border = bounds.topk(k, dim=1, largest=False).values[:, -1:]
            slack = 16 * (rows.shape[1] + 4) * torch.finfo(torch.float64).eps
            error = slack * (length.square() + longest.square())
            most = int((bounds <= border + error[:, None]).sum(1).max())
            candidates = bounds.topk(most, dim=1, largest=False).indices
        candidates = candidates.sort(1).values  # so that ties are in the order of rows
        squared = torch.empty(candidates.shape, dtype=torch.float64, device=numbers.device)
        for part in slices(len(x), max(1, self._engine.block_bytes // (16 * candidates.shape[1] * rows.shape[1]))):
            squared[part] = (x[part, None] - rows[candidates[part]]).square_().sum(2)
        order = squared.sort(dim=1, stable=True)
        self.numbers[numbers] = candidates.gather(1, order.indices[:, :k])
        self.squared[numbers] = order.values[:, :k]


def _smallest(bounds: Tensor, k: int, n: int) -> tuple[Tensor, Tensor]:
    """Return the k smallest numbers in the first n columns, in order, and their columns; others are infinite.

    The columns are whole groups: with m groups, each has every m-th column. The k smallest numbers are in the k groups
    with the smallest minima.
    """
    groups = bounds.view(len(bounds), GROUP, -1)
    n_groups = groups.shape[2]
    if k >= n_groups:
        return bounds[:, :n].topk(k, dim=1, largest=False)  # type: ignore[no-any-return]
    chosen = groups.amin(1).topk(k, dim=1, largest=False, sorted=False).indices
    columns = (chosen[:, None] + n_groups * torch.arange(GROUP, device=bounds.device)[:, None]).flatten(1)
    values, places = bounds.gather(1, columns).topk(k, dim=1, largest=False)
    return values, columns.gather(1, places).clamp_(max=n - 1)  # an infinite number of the others may be among them
