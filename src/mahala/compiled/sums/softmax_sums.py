"""The expected number of rows whose random neighbour has the same class, and its gradient, without n × n numbers.

Row i chooses row j ≠ i as its neighbour with probability p_ij ∝ exp(-‖z_i - z_j‖²). Most p_ij are below rounding: a
compiled pass over blocks of distances, which matrix products give, leaves them out. The pull on the rows is half of the
gradient, as in `pair_sums`.
"""

import numpy as np

from mahala.compiled.jit import FAST, kernel_with
from mahala.compiled.sums.pair_sums import BLOCK_BYTES, add_multiples, add_pull, slices_of
from mahala.compiled.threads import FEW_PAIRS, in_threads, n_threads, scratch, squared_norms
from mahala.support.arrays import IndexArray, RealArray, block_size
from mahala.support.tags import Labels, TagSets, similar_to

# Columns that are examined together: most such spans contain no neighbour that matters, and are skipped.
SPAN = 32
# The most memory for pulls that are added up at the end.
MOST_BYTES = 2**30


def sum_softmax(Z: RealArray, codes: Labels, rows: slice | None = None) -> tuple[float, RealArray]:
    """Σ_i Σ_{j of the class of i, or with similar tags} p_ij over the rows i, all by default, and its pull on Z.

    Pairs are left out if their total is below the rounding error of the weights, which is that of a squared distance
    and relative to the norms.
    """
    n, m = Z.shape
    rows = rows or slice(0, n)
    norms = squared_norms(Z)
    n_pairs = (rows.stop - rows.start) * n
    if n_pairs <= FEW_PAIRS:
        return _sum_of_few(Z, norms, codes, rows)
    if isinstance(codes, TagSets):
        parts = [_sum_of_few(Z, norms, codes, block) for block in slices_of(rows, block_size(n))]
        return sum(hits for hits, _ in parts), np.sum([pull for _, pull in parts], axis=0)
    cuts = np.log(n / np.minimum(np.finfo(Z.dtype).eps * (1.0 + norms), 1.0)).astype(Z.dtype)
    # A thread adds to all rows, so each has a pull of its own.
    threads = min(n_threads(n_pairs * m), max(1, MOST_BYTES // Z.nbytes))
    pulls, sums = np.zeros((threads, n, m), dtype=Z.dtype), np.zeros((threads, n), dtype=Z.dtype)
    blocks = slices_of(rows, max(1, min(BLOCK_BYTES // (Z.itemsize * n), -(-n_pairs // (n * threads)))))

    def add(thread: int) -> float:
        total = 0.0
        for block in blocks[thread::threads]:
            weights = np.matmul(Z[block], Z.T, out=scratch((block.stop - block.start, n), Z.dtype))
            hits, count = _weigh(weights, norms, codes, block.start, cuts, np.empty(-(-n // SPAN), dtype=Z.dtype))
            add_pull(weights, count, Z, block, slice(0, n), pulls[thread], sums[thread])
            total += hits
        return total

    total = sum(in_threads(add, range(threads), threads=threads))
    pull: RealArray = pulls[0] if threads == 1 else pulls.sum(axis=0)
    add_multiples(Z, sums.sum(axis=0), pull)
    return total, pull


def _sum_of_few(Z: RealArray, norms: RealArray, labels: Labels, rows: slice) -> tuple[float, RealArray]:
    """Return what `sum_softmax` returns, from all pairs at once."""
    exponents = 2.0 * (Z[rows] @ Z.T) - norms
    np.fill_diagonal(exponents[:, rows], -np.inf)
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    same = similar_to(labels, rows)
    p = np.sum(weights, axis=1, where=same)
    weights *= p[:, np.newaxis] - same.astype(Z.dtype)
    pull = weights.sum(axis=0)[:, np.newaxis] * Z - weights.T @ Z[rows]
    pull[rows] += weights.sum(axis=1)[:, np.newaxis] * Z[rows] - weights @ Z
    return float(p.sum(dtype=np.float64)), pull


# There are no NaN here; knowing that, the compiler makes minima fast.
@kernel_with(FAST | {"nnan", "nsz"})
def _weigh(
    products: RealArray, norms: RealArray, codes: IndexArray, first: int, cuts: RealArray, least_of: RealArray
) -> tuple[float, int]:
    """Replace the products of the rows from `first` on with all rows by the weights of their squared distances.

    Return Σ_i Σ_{j of the class of i} p_ij and the number of weights that matter.
    """
    number = products.dtype.type
    two, zero, infinity = number(2.0), number(0.0), number(np.inf)
    n, total, count = products.shape[1], 0.0, 0
    for r in range(products.shape[0]):
        row, i = products[r], first + r
        row[i] = -infinity
        for j in range(n):
            row[j] = norms[j] - two * row[j]
        nearest = infinity
        for span in range(len(least_of)):
            part = row[span * SPAN : span * SPAN + SPAN]
            least = infinity
            for j in range(len(part)):
                least = part[j] if part[j] < least else least
            least_of[span] = least
            nearest = min(nearest, least)
        limit = nearest + cuts[i]
        all_weight, same_weight = 0.0, 0.0
        for span in range(len(least_of)):
            matters = least_of[span] <= limit
            for j in range(span * SPAN, min(span * SPAN + SPAN, n)):
                if matters and row[j] <= limit:
                    row[j] = np.exp(nearest - row[j])
                    all_weight += row[j]
                    same_weight += row[j] if codes[j] == codes[i] else zero
                    count += 1
                else:
                    row[j] = zero
        p = same_weight / all_weight
        total += p
        # The factors of the weights of its own class and of others.
        same, other = number((p - 1.0) / all_weight), number(p / all_weight)
        for j in range(n):
            row[j] *= same if codes[j] == codes[i] else other
    return total, count
