"""A bilinear form held as a full matrix: steps one by one, and steps through the rows' inner products."""

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import blas

from mahala.comparisons import Triplets
from mahala.compiled.jit import SKIPPED, Steps
from mahala.compiled.triplets import gram
from mahala.compiled.triplets import lazy_dense as kernels
from mahala.compiled.triplets.rows import CSR
from mahala.metric.matrices import row_dots
from mahala.online.state.similarity import SimilarityRule, SimilarityState, TripletChunk, tidy
from mahala.support.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    IntArray,
    RealArray,
    Rows,
    block_size,
    check_room,
    row_blocks,
    slices,
)
from mahala.support.limits import most_steps
from mahala.support.states import Array
from mahala.support.validation import is_sparse

# Entries of whole rows are read in order, about so many in the time of one at a scattered place.
IN_ORDER = 8.0
# From this share of M on, what a triplet touches is whole rows.
WHOLE = 1 / 18
# Of the rows' inner products: K, L and P take 512 MiB each at this number of rows.
MOST_GRAM_ROWS = 8192
GRAM_ROOM = 24.0  # bytes for each two rows
# Bytes of a matrix that stays near the processor.
NEAR = 2**22
# Triplets whose differences are held at a time.
GRAM_BLOCK = 4096


def dense_bytes(shape: tuple[int, int], rule: SimilarityRule, dtype: DTypeLike) -> float:
    """Return the bytes that a full matrix takes."""
    return float(shape[0]) * shape[1] * rule.layout(dtype)[0] * np.dtype(dtype).itemsize


class DenseState(SimilarityState):
    """Every entry is stored, in planes of one number each."""

    FIELDS: ClassVar = (Array("planes"),)
    storage = "dense"

    def __init__(self, shape: tuple[int, int], start: float, rule: SimilarityRule, dtype: DTypeLike) -> None:
        super().__init__(shape, start, rule, dtype)
        what = f"a full matrix of {shape[0]} × {shape[1]} features"
        advice = "raise max_memory, use storage='sparse', dtype='float32' or fewer features"
        check_room(dense_bytes(shape, rule, dtype), rule.max_memory, what, advice)
        self.planes = np.zeros((shape[0], self.layout[0], shape[1]), dtype=self.dtype)
        diagonal = np.arange(min(shape))
        self.planes[diagonal, 0, diagonal] = self.initial[0]
        if rule.average:
            self.planes[diagonal, -1, diagonal] = self.initial[1]
        self.stamps = np.full(shape[0], -1)  # work space
        # So many steps are NumPy's, from the first one on, whatever the chunks are: these do not change a bit.
        self.n_first = most_steps(4.0 * self.planes.size) if self.dtype == np.float64 else 0
        if rule.r:
            self.left, self.right = np.ones(shape[0]), np.ones(shape[1])

    def translate(self, X: Rows) -> CSR:
        return csr_rows(X)

    def _stream(self, chunk: TripletChunk, rule: SimilarityRule, steps: Steps) -> tuple[int, int]:
        if not self.planes.flags.writeable:  # and so the others
            self.make_writable("planes", "stamps", "left", "right")
        n = min(self.n_first - self.n_steps, len(chunk.y))
        if n > 0:
            for part, x, q in chunk.part(slice(n)).in_full(block_size(2 * max(self.shape)), self.shape):
                outcomes = self._take(x, q, rule, self.clock + part.stop)
                steps[0][part], steps[1][part], steps[2][part] = zip(*outcomes, strict=True)
            return n, 0
        step, penalty, eta, shrinkage = self.settings(rule)
        width, adaptive, average = self.layout
        parts: Any = penalty if width > 1 else None, adaptive or None, average or None
        covariances: Any = (self.left, self.right) if rule.r else (None, None)
        state: Any = self.planes, self.stamps, *parts, self.clock, step, eta, *covariances, shrinkage
        n_columns, (ends, filled, _) = self.shape[1], chunk.items
        # Reading a whole row in order is faster than reading a third of it at scattered places.
        whole = 6 * len(filled) > n_columns * (len(ends) - 1)
        n = n_columns if whole else 2 * n_columns
        space: Any = None if whole else np.empty(n, dtype=np.int64), np.empty(n), np.empty(n) if rule.r else self.left
        arguments: Any = *chunk[:3], *state, steps, *space
        kernels.stream(*arguments)
        return len(chunk.y), 0

    def feed_one(self, rows: FloatArray, items: FloatArray | None, rule: SimilarityRule) -> tuple[float, float, int]:
        # A new rule may settle the entries.
        if self.n_steps >= self.n_first or rule is not self._rule or not self.planes.flags.writeable:
            return super().feed_one(rows, items, rule)
        positive, negative = rows[1:] if items is None else items
        (outcome,) = self._take(rows[:1], (positive - negative)[np.newaxis], rule, self.clock + 1)
        self.clock += 1
        self.n_steps += 1
        return outcome

    def _take(self, X: FloatArray, Q: FloatArray, rule: SimilarityRule, clock: int) -> list[tuple[float, float, int]]:
        """Take a step in NumPy for each x and q, up to the clock; return p, τ and predicted label of each.

        All entries are at the present before the first one, and after the last one.
        """
        (scale, slack, upper, largest, margin), (theta, exempts_diagonal, delta), eta, shrinkage = self.settings(rule)
        width, adaptive, average = self.layout
        M, S, left, right = np.ascontiguousarray(self.planes[:, 0]), self.planes[:, -1], self.left, self.right
        H, threshold = (self.planes[:, 2], theta / (delta + self.planes[:, 2])) if adaptive else (M, theta)
        if exempts_diagonal:
            threshold = threshold * ~np.eye(*self.shape, dtype=bool)
        MT, dot, add_outer, outcomes = M.T, blas.ddot, blas.dger, []
        for x, q in zip(X, Q, strict=True):
            score = dot(x, M.dot(q))
            p, tau = margin - score, 0.0
            if p > 0.0:
                u, v = (left * x, right * q) if rule.r else (x, q)
                x_norm, q_norm = dot(u, x), dot(v, q)
                norm = x_norm * q_norm
                if norm != 0.0:
                    tau = min(upper, p / (scale * norm + slack)) if scale else upper
                    tau = tau if tau * norm**0.5 <= largest else SKIPPED
            if tau and adaptive:
                gradient = x[:, np.newaxis] * q
                H[:] = np.sqrt(H * H + gradient * gradient)
                M += eta * gradient / (delta + H)
                threshold = theta / (delta + H)
                if exempts_diagonal:
                    np.fill_diagonal(threshold, 0.0)
            elif tau:
                add_outer(tau, v, u, 1, 1, MT, 1, 1, 1)
                if rule.r:
                    left /= 1.0 + shrinkage[0] * q_norm * x * x * left
                    right /= 1.0 + shrinkage[1] * x_norm * q * q * right
            if theta:
                M -= np.maximum(np.minimum(M, threshold), -threshold)
            if average:
                S += M
            outcomes.append((p, tau, 1 if score > 0.0 else -1))
        self.planes[:, 0] = M
        if width > 1:
            self.planes[:, 1] = clock
        return outcomes

    def cost(self, touched: float) -> float:
        return touched / (IN_ORDER if touched >= WHOLE * self.shape[0] * self.shape[1] else 1.0)

    def _settle(self) -> None:
        self.make_writable("planes", "stamps", "left", "right")
        for rows in row_blocks(*self.shape):
            self.bring_to_present(*self._part(rows))

    def _part(self, rows: slice) -> tuple[RealArray, BoolArray]:
        """Return the numbers of some rows by kind, and which entries are on the diagonal."""
        diagonal = np.arange(self.shape[0])[rows, np.newaxis] == np.arange(self.shape[1])
        return self.planes[rows].swapaxes(0, 1), diagonal

    def matrix(self) -> FloatArray:
        M = np.empty(self.shape)
        for rows in row_blocks(*self.shape):
            M[rows] = self.present(*self._part(rows), self.n_averaged)
        return M

    def add(self, change: Rows, total: Rows) -> None:
        self.planes[:, 0] += change.toarray() if is_sparse(change) else change
        if self.layout[2]:
            self.planes[:, -1] += total.toarray() if is_sparse(total) else total

    def _check(self) -> None:
        super()._check()
        self._check_entries(self.planes.swapaxes(0, 1))
        if self.n_steps < self.n_first and self.layout[0] > 1 and (self.planes[:, 1] != self.clock).any():
            self.settle()  # as after steps in NumPy


def csr_rows(X: Any) -> CSR:
    """Return the entries of rows that are not zero, row by row, as compiled code takes them."""
    if is_sparse(X):
        rows = tidy(X)
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data
    X = np.ascontiguousarray(X, dtype=np.float64)
    n, d = X.shape
    if np.count_nonzero(X) == X.size:
        return *(_places_in_triplet(d) if n == 3 else _places(n, d)), X.ravel()
    at = X.nonzero()
    return np.searchsorted(at[0], np.arange(n + 1)), at[1].astype(np.int32), X[at]


def _places(n: int, d: int) -> tuple[IntArray, NDArray[np.int32]]:
    """Return indptr and columns of n rows without zeros."""
    return np.arange(n + 1) * d, np.tile(np.arange(d, dtype=np.int32), n)


@functools.lru_cache(maxsize=4)
def _places_in_triplet(d: int) -> tuple[IntArray, NDArray[np.int32]]:
    """Return them for the three rows of a triplet; to make them takes longer than to learn from it."""
    return _places(3, d)


def fit_gram(
    triplets: Triplets, start: float, rules: Sequence[SimilarityRule], sparse: bool
) -> tuple[Rows, Rows, Steps]:
    """Take a step for each triplet, from M₀ = start · I; return XᵀΘX, its sum over all models, and the steps.

    Each rule but the last is for one triplet, and that for the rest. Both matrices are CSR if `sparse`.
    """
    T, rule = len(triplets), rules[-1]
    used, numbers = np.unique(np.stack([triplets.anchor, triplets.positive, triplets.negative]), return_inverse=True)
    a, b, c = numbers.reshape(3, -1)
    what, advice = f"all inner products of {len(used)} rows", "raise max_memory, or use another storage"
    check_room(GRAM_ROOM * len(used) ** 2, rule.max_memory, what, advice)
    X = triplets.X[used].astype(np.float64)
    K = _inner_products(X)
    # Around one of the rows: whole numbers stay whole, and with them ties.
    L = K
    if not is_sparse(X):
        centred = X - X.mean(axis=0)
        L = _inner_products(X - X[row_dots(centred, centred).argmin()])
    firsts, q_norms = np.empty(T), np.empty(T)
    for block in slices(T, GRAM_BLOCK):
        q = X[b[block]] - X[c[block]]
        firsts[block], q_norms[block] = start * row_dots(q, X[a[block]]), row_dots(q, q)
    steps = np.empty(T), np.empty(T), np.empty(T, dtype=np.int8)
    P = np.zeros_like(K)
    for at, rule in enumerate(rules):
        part = slice(at, at + 1 if at + 1 < len(rules) else T)
        triple = a[part], b[part], c[part]
        taken = steps[0][part], steps[1][part], steps[2][part]
        gram.stream(K, L, P, triple, firsts[part], q_norms[part], rule.step(np.float64), taken)
    tau = steps[1]
    weights = (tau, tau * np.arange(T, 0, -1)) if rule.average else (tau,)
    matrices = [_outer(X, a, b, c, weight, sparse) for weight in weights]
    return matrices[0], matrices[-1], steps


def _outer(X: Rows, a: IndexArray, b: IndexArray, c: IndexArray, weights: FloatArray, sparse: bool) -> Rows:
    """Return Σ_t weight_t x_a (x_b - x_c)ᵀ, from differences: what is zero in all of them stays exactly zero."""
    X = sp.csr_array(X) if sparse else X
    right: Any = 0
    for block in slices(len(a), GRAM_BLOCK):
        q = X[b[block]] - X[c[block]]
        n = q.shape[0]
        by_anchor = sp.csr_matrix((weights[block], (a[block], np.arange(n))), shape=(X.shape[0], n))
        product = by_anchor @ q
        right = right + (product.toarray() if is_sparse(product) and not sparse else product)
    return sp.csr_array(X.T @ right) if sparse else np.asarray(X.T @ right)


def _inner_products(X: Any) -> Any:
    products = X @ X.T
    return products.toarray() if is_sparse(products) else products


def gram_is_cheaper(triplets: Triplets, max_memory: float | None) -> bool:
    """Whether the triplets cost less through inner products, by nanoseconds measured for each kind of work."""
    X, T = triplets.X, len(triplets)
    n = min(X.shape[0], 3 * T)
    if n > MOST_GRAM_ROWS or (max_memory is not None and GRAM_ROOM * n * n > max_memory):
        return False
    d = float(X.shape[1])
    nnz, product = (X.nnz / X.shape[0], 1.0) if is_sparse(X) else (d, 0.06)
    touched = nnz * min(2.0 * nnz, d)
    in_order = touched >= WHOLE * d * d
    entry = 0.15 if in_order else 1.5 if 8.0 * d * d <= NEAR else 6.0
    return bool(3.0 * T * n + product * n * nnz * (n + d) < entry * T * touched)
