"""Votes of rows for the class or the number of other rows, their mean loss, and its gradient.

A row j votes for a row i with the weight w_j exp(-‖z_i - z_j‖): the distance, not its square. The loss of a row is
-log of the share of the votes for its class, or the squared error of their mean for its number. In both cases its
derivative with respect to the distance of j is exp(-d_ij) w_j (α_i + β_i γ_j), where the second term counts for the
voters from `first` to `end` only: those of its class, or all. So one kernel serves classes and numbers.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mahala.compiled.jit import FAST, helper_with, kernel_with
from mahala.compiled.threads import FEW_PAIRS, in_threads, n_threads, squared_norms
from mahala.support.arrays import FloatArray, IndexArray, RealArray, slices

# Rows of a block of votes. The blocks do not depend on the number of threads, so neither does a sum.
BLOCK = 256
# Shares of votes in a block, at most.
MOST_SHARES = 2**24
# Votes are multiplied by exp(SHIFT), and slopes by SCALE, so that all are normal numbers in float32: the processor
# takes a hundred times as long for smaller ones. Rows farther than FARTHEST do not vote while a map is learned, and
# slopes below LEAST_SLOPE are zero.
SHIFT, RANGE = 60.0, 45.0
FARTHEST = SHIFT + RANGE
SCALE, LEAST_SLOPE = 2.0**60, 2.0**-6
_LEAST_VOTES = 1e-20
# The share of the squared lengths of two rows that rounding leaves of a squared distance of zero.
_ROUNDING, _ROUNDING_OF_FEW = 2.0**-21, 2.0**-48
# Rows at a smaller squared distance are ties: they vote for each other and do not pull.
TIE = 2e-4
_LOG2, _PER_LOG2 = math.log(2.0), 1.0 / math.log(2.0)


class Votes(NamedTuple):
    """What rows vote for, all in float32: γ, their weights, and the voters that count for the share of each row.

    For classes γ is 1, rows are in the order of their classes, and the voters from first[i] to end[i] are those of the
    class of row i. For numbers γ is the number, and all voters count.
    """

    values: RealArray
    weights: RealArray
    first: IndexArray
    end: IndexArray
    numbers: bool

    @classmethod
    def of_classes(cls, codes: IndexArray, weights: RealArray, voters: IndexArray | None = None) -> "Votes":
        """Return the votes for the classes of rows; `voters`, by default the rows, are the sorted codes of others."""
        sorted_codes = codes if voters is None else voters
        first, end = (np.searchsorted(sorted_codes, codes, side) for side in ("left", "right"))
        return cls(np.ones(len(codes), dtype=np.float32), weights.astype(np.float32), first, end, False)

    @classmethod
    def of_numbers(cls, y: FloatArray, weights: RealArray, n_voters: int | None = None) -> "Votes":
        """Return the votes for the numbers of rows, of so many voters, by default the rows."""
        first, end = np.zeros(len(y), dtype=np.intp), np.full(len(y), len(y) if n_voters is None else n_voters)
        return cls(y.astype(np.float32), weights.astype(np.float32), first, end, True)

    def part(self, rows: slice) -> "Votes":
        """Return those of some rows."""
        return Votes(self.values[rows], self.weights[rows], self.first[rows], self.end[rows], self.numbers)


class VoteSums:
    """The mean loss of rows that vote for each other, as a function of Z; it keeps one n × n array of float32."""

    def __init__(self, votes: Votes) -> None:
        self._votes = votes
        self._total = float(votes.weights.sum(dtype=np.float64)) or 1.0
        n = len(votes.values)
        self._work = np.empty((n, n), dtype=np.float32)
        self._itself = np.arange(n)

    def __call__(self, Z: RealArray) -> tuple[float, RealArray]:
        """Return the weighted mean of the losses, and its gradient with respect to the rows of Z, of float32."""
        n, votes = len(Z), self._votes
        Z = Z - Z.mean(axis=0)
        norms, columns = squared_norms(Z), np.ascontiguousarray(Z.T)
        blocks = list(slices(n, BLOCK))
        threads = n_threads(2.0 * n * n * Z.shape[1])
        few = n * n <= FEW_PAIRS
        sums = np.empty((2, n), dtype=np.float32)

        def weigh(rows: slice) -> None:
            block = np.matmul(Z[rows], columns, out=self._work[rows])
            arguments = block, (norms[rows], norms), self._itself[rows], votes.weights, votes.values
            function = _weigh_few if few else _weigh
            function(*arguments, votes.first[rows], votes.end[rows], (sums[0, rows], sums[1, rows]))

        in_threads(weigh, blocks, threads=threads)
        loss, alpha, beta = _losses(votes, sums[0], sums[1], self._total)
        wide = np.column_stack([Z, np.ones(n, dtype=np.float32)])
        gradient = np.empty_like(Z)

        def pull(rows: slice) -> None:
            block = self._work[rows]
            own = alpha[rows], beta[rows], votes.values[rows], votes.weights[rows]
            theirs = alpha, beta, votes.values, votes.weights
            (_slope_few if few else _slope)(block, own, theirs, votes.first[rows], votes.end[rows])
            products = block @ wide
            np.subtract(products[:, -1:] * Z[rows], products[:, :-1], out=gradient[rows])
            gradient[rows] *= np.float32(1.0 / SCALE)

        in_threads(pull, blocks, threads=threads)
        return loss, gradient


def drawn_vote_sums(
    Z: RealArray, votes: Votes, voters: RealArray, their: Votes, itself: IndexArray
) -> tuple[float, RealArray, RealArray]:
    """Return the mean loss of rows Z for which other rows vote, and its gradient with respect to both, in float32.

    `first` and `end` of the votes are numbers of voters; itself[i] is the voter that row i is, or -1.
    """
    center = voters.mean(axis=0)
    Z, voters = Z - center, voters - center
    norms, columns = squared_norms(voters), np.ascontiguousarray(voters.T)
    zeros, n_sums = np.zeros(len(voters), dtype=np.float32), np.empty((2, len(Z)), dtype=np.float32)
    total = float(votes.weights.sum(dtype=np.float64)) or 1.0
    few = len(Z) * len(voters) <= FEW_PAIRS
    z_norms, wide = squared_norms(Z), np.column_stack([voters, np.ones(len(voters), dtype=np.float32)])
    gradient = np.empty_like(Z)

    def of_block(rows: slice) -> tuple[float, RealArray]:
        block, part, sums = Z[rows] @ columns, votes.part(rows), n_sums[:, rows]
        arguments = block, (z_norms[rows], norms), itself[rows], their.weights, their.values
        (_weigh_few if few else _weigh)(*arguments, part.first, part.end, (sums[0], sums[1]))
        loss, alpha, beta = _losses(part, sums[0], sums[1], total)
        own, theirs = (alpha, beta, part.values, part.weights), (zeros, zeros, their.values, their.weights)
        (_slope_few if few else _slope)(block, own, theirs, part.first, part.end)
        products = block @ wide
        np.subtract(products[:, -1:] * Z[rows], products[:, :-1], out=gradient[rows])
        gradient[rows] *= np.float32(1.0 / SCALE)
        wide_rows = np.column_stack([Z[rows], np.ones(len(block), dtype=np.float32)])
        return loss, block.T @ wide_rows

    results = in_threads(of_block, list(slices(len(Z), BLOCK)), threads=n_threads(3.0 * Z.size * len(voters)))
    back = np.sum([product for _, product in results], axis=0) * np.float32(1.0 / SCALE)
    return sum(loss for loss, _ in results), gradient, back[:, -1:] * voters - back[:, :-1]


def vote_means(queries: RealArray, voters: RealArray, values: RealArray, weights: RealArray | None = None) -> RealArray:
    """Return the mean of the voters' values for each query, weighted by w_j exp(-distance), in float32.

    values : float32 of shape (n_voters, n_values)
    """
    result = np.empty((len(queries), values.shape[1]), dtype=np.float32)

    def of_block(rows: slice, shares: RealArray) -> None:
        np.matmul(shares, values, out=result[rows])

    _for_shares(queries, voters, weights, of_block)
    return result


def leading_votes(
    queries: RealArray, voters: RealArray, k: int, weights: RealArray | None = None
) -> tuple[IndexArray, RealArray]:
    """Return the numbers of the k voters with the largest shares of the votes for each query, and these shares."""
    numbers, result = np.empty((len(queries), k), dtype=np.intp), np.empty((len(queries), k), dtype=np.float32)

    def of_block(rows: slice, shares: RealArray) -> None:
        first = np.argpartition(-shares, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(shares, first, axis=1)
        order = np.lexsort((first, -values), axis=1)
        numbers[rows], result[rows] = (np.take_along_axis(array, order, axis=1) for array in (first, values))

    _for_shares(queries, voters, weights, of_block)
    return numbers, result


def _for_shares(
    queries: RealArray, voters: RealArray, weights: RealArray | None, function: Callable[[slice, RealArray], None]
) -> None:
    """Call a function with blocks of queries and the shares of the voters in their votes."""
    center = voters.mean(axis=0)
    queries, voters = queries - center, voters - center
    norms, columns = squared_norms(voters), np.ascontiguousarray(voters.T)
    logs = np.zeros(len(voters), dtype=np.float32) if weights is None else np.log(weights).astype(np.float32)
    few = len(queries) * len(voters) <= FEW_PAIRS

    def of_block(rows: slice) -> None:
        if few:
            function(rows, _shares_of_few(queries[rows], voters, logs))
            return
        block = queries[rows] @ columns
        _normalise(block, squared_norms(queries[rows]), norms, logs)
        function(rows, block)

    blocks = list(slices(len(queries), max(1, min(BLOCK, MOST_SHARES // max(len(voters), 1)))))
    in_threads(of_block, blocks, threads=n_threads(float(len(queries)) * voters.size))


def _losses(votes: Votes, all_votes: RealArray, shares: RealArray, total: float) -> tuple[float, RealArray, RealArray]:
    """Return the sum of the weighted losses of rows, and α and β of each, given the sums of their votes."""
    voted = (all_votes if votes.numbers else shares) > _LEAST_VOTES
    every, share = np.where(voted, all_votes, 1.0).astype(np.float64), np.where(voted, shares, 1.0)
    if votes.numbers:
        means = share / every
        errors = np.where(voted, means - votes.values, 0.0)
        losses, beta = np.square(errors), -2.0 * errors / every
        alpha = -beta * means
    else:
        losses, alpha, beta = np.log(every) - np.log(share), -1.0 / every, 1.0 / share
    scale = voted * (SCALE / total)
    loss = float(np.sum(votes.weights * losses * voted)) / total
    return loss, (alpha * scale).astype(np.float32), (beta * scale).astype(np.float32)


def _weigh_few(products: RealArray, norms: tuple[RealArray, RealArray], itself: IndexArray, *rest: Any) -> None:
    """Do what `_weigh` does."""
    weights, values, first, end, (totals, shares) = rest
    squared = np.maximum(norms[0][:, np.newaxis] + norms[1] - 2.0 * products, 0.0)
    distances = np.sqrt(squared)
    exponents = np.maximum(SHIFT - distances, -RANGE)
    votes = np.where(distances < FARTHEST, np.exp(exponents), 0.0)
    rows = np.flatnonzero(itself >= 0)
    votes[rows, itself[rows]] = 0.0
    np.divide(votes, distances, out=products, where=squared > TIE)
    products[squared <= TIE] = 0.0
    votes *= weights
    totals[:] = votes.sum(axis=1)
    at = np.arange(products.shape[1])
    here = (at >= first[:, np.newaxis]) & (at < end[:, np.newaxis])
    shares[:] = np.sum(votes * values, axis=1, where=here)


# There are no NaN here; knowing that, the compiler makes maxima fast.
_NUMBERS = FAST | {"nnan", "nsz"}
# Of rows or voters: the derivatives of the loss for the total and for the share of votes, values, weights.
Slopes = tuple[RealArray, RealArray, RealArray, RealArray]


@helper_with(_NUMBERS)
def _exp_and_bits(x: np.float32) -> tuple[np.float32, np.int32]:
    """Return two factors of exp(x), the second by its bits, for x ≥ -RANGE: a loop over rows multiplies them later."""
    one = np.float32(1.0)
    exponent = max(x, np.float32(-RANGE)) * np.float32(_PER_LOG2)
    whole = np.floor(exponent)
    # 2 to a whole number, times a polynomial of the rest.
    rest = (exponent - whole) * np.float32(_LOG2)
    value = np.float32(1.0 / 720.0) + rest * np.float32(1.0 / 5040.0)
    value = np.float32(1.0 / 24.0) + rest * (np.float32(1.0 / 120.0) + rest * value)
    value = one + rest * (one + rest * (np.float32(0.5) + rest * (np.float32(1.0 / 6.0) + rest * value)))
    return value, (np.int32(whole) + np.int32(127)) << np.int32(23)


@kernel_with(_NUMBERS)
def _weigh(
    products: RealArray,
    norms: tuple[RealArray, RealArray],
    itself: IndexArray,
    weights: RealArray,
    values: RealArray,
    first: IndexArray,
    end: IndexArray,
    sums: tuple[RealArray, RealArray],
) -> None:
    """Replace products of rows and voters by votes over distances; sum the votes, and their values in each range."""
    one, two, zero = np.float32(1.0), np.float32(2.0), np.float32(0.0)
    (own_norms, their_norms), (totals, shares), n = norms, sums, products.shape[1]
    votes, bits = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.int32)
    powers = bits.view(np.float32)
    for r in range(products.shape[0]):
        row, norm = products[r], own_norms[r]
        for j in range(n):
            squared = max(norm + their_norms[j] - two * row[j], zero)
            distance = np.sqrt(squared)
            value, bits[j] = _exp_and_bits(np.float32(SHIFT) - distance)
            votes[j] = value if distance < np.float32(FARTHEST) else zero
            row[j] = one / distance if squared > np.float32(TIE) else zero
        for j in range(n):
            votes[j] *= powers[j]
            row[j] *= votes[j]
        if itself[r] >= 0:
            votes[itself[r]] = zero
            row[itself[r]] = zero
        total, share = zero, zero
        for j in range(n):
            votes[j] *= weights[j]
            total += votes[j]
        here, numbers = votes[first[r] : end[r]], values[first[r] : end[r]]
        for j in range(len(here)):
            share += here[j] * numbers[j]
        totals[r], shares[r] = total, share


def _slope_few(products: RealArray, own: Slopes, theirs: Slopes, first: IndexArray, end: IndexArray) -> None:
    """Do what `_slope` does."""
    (alpha, beta, values, weights), (alphas, betas, their_values, their_weights) = own, theirs
    at = np.arange(products.shape[1])
    here = (at >= first[:, np.newaxis]) & (at < end[:, np.newaxis])
    slopes = np.outer(beta, their_values) + np.outer(values, betas)
    slopes = np.where(here, slopes, 0.0) + alpha[:, np.newaxis] + alphas
    products *= slopes * np.outer(weights, their_weights)
    products[np.abs(products) < LEAST_SLOPE] = 0.0


@kernel_with(_NUMBERS)
def _slope(products: RealArray, own: Slopes, theirs: Slopes, first: IndexArray, end: IndexArray) -> None:
    """Replace votes over distances by the slopes of the loss with respect to the distances, over the distances."""
    (alpha, beta, values, weights), (alphas, betas, their_values, their_weights) = own, theirs
    least, zero = np.float32(LEAST_SLOPE), np.float32(0.0)
    n = products.shape[1]
    factors = np.empty(n, dtype=np.float32)
    for r in range(products.shape[0]):
        row, a, b, v, w = products[r], alpha[r], beta[r], values[r], weights[r]
        for j in range(n):
            factors[j] = a + alphas[j]
        # Loops over slices are vectorised, those from first[r] to end[r] are not.
        here, numbers, back = factors[first[r] : end[r]], their_values[first[r] : end[r]], betas[first[r] : end[r]]
        for j in range(len(here)):
            here[j] += b * numbers[j] + v * back[j]
        for j in range(n):
            slope = row[j] * (factors[j] * (w * their_weights[j]))
            row[j] = slope if abs(slope) >= least else zero


def _shares_of_few(queries: RealArray, voters: RealArray, logs: RealArray) -> RealArray:
    """Return the voters' shares of the votes, in float64, so that they do not depend on the other queries."""
    Z, V = queries.astype(np.float64), voters.astype(np.float64)
    norms = np.square(Z).sum(axis=1)[:, np.newaxis] + np.square(V).sum(axis=1)
    squared = norms - 2.0 * (Z @ V.T)
    exponents = logs - np.sqrt(np.where(squared > _ROUNDING_OF_FEW * norms, squared, 0.0))
    shares = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@kernel_with(_NUMBERS)
def _normalise(products: RealArray, norms: RealArray, their_norms: RealArray, logs: RealArray) -> None:
    """Replace products of rows and voters by the voters' shares of the votes; `logs` are those of their weights."""
    one, two, zero = np.float32(1.0), np.float32(2.0), np.float32(0.0)
    n = products.shape[1]
    bits = np.empty(n, dtype=np.int32)
    powers = bits.view(np.float32)
    for r in range(products.shape[0]):
        row, norm, largest = products[r], norms[r], np.float32(-np.inf)
        for j in range(n):
            both = norm + their_norms[j]
            squared = both - two * row[j]
            row[j] = logs[j] - np.sqrt(squared if squared > np.float32(_ROUNDING) * both else zero)
            largest = max(largest, row[j])
        for j in range(n):
            row[j], bits[j] = _exp_and_bits(row[j] - largest)
        total = zero
        for j in range(n):
            row[j] *= powers[j]
            total += row[j]
        scale = one / total
        for j in range(n):
            row[j] *= scale
