"""Steps of OASIS and OGD over a fixed set of rows: M = M₀ + XᵀΘX, learned through the rows' inner products."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mahala.comparisons import Triplets
from mahala.compiled.triplets import gram as kernels
from mahala.metric.matrices import row_dots
from mahala.online.storage.model import Steps
from mahala.online.storage.similarity_model import SimilarityRule
from mahala.support.arrays import check_room, slices
from mahala.support.validation import is_sparse

# K, L and P take 512 MiB each at this number of rows.
MOST_ROWS = 8192
ROOM = 24.0  # bytes for each two rows
# Bytes of a matrix that stays near the processor.
NEAR = 2**22
# Triplets whose differences are held at a time.
BLOCK = 4096


def fit_gram(triplets: Triplets, start: float, rule: SimilarityRule, sparse: bool) -> tuple[Any, Any, Steps]:
    """Take a step for each triplet, from M₀ = start · I; return XᵀΘX, its sum over all models, and the steps.

    Both matrices are CSR if `sparse`.
    """
    T = len(triplets)
    used, numbers = np.unique(np.stack([triplets.anchor, triplets.positive, triplets.negative]), return_inverse=True)
    a, b, c = numbers.reshape(3, -1)
    check_room(
        ROOM * len(used) ** 2,
        rule.max_memory,
        f"all inner products of {len(used)} rows",
        "raise max_memory, or use another storage",
    )
    X = triplets.X[used].astype(np.float64)
    K = _inner_products(X)
    # Around one of the rows: whole numbers stay whole, and with them ties.
    L = K
    if not is_sparse(X):
        centred = X - X.mean(axis=0)
        L = _inner_products(X - X[row_dots(centred, centred).argmin()])
    firsts, q_norms = np.empty(T), np.empty(T)
    for own in slices(T, BLOCK):
        q = X[b[own]] - X[c[own]]
        firsts[own], q_norms[own] = start * row_dots(q, X[a[own]]), row_dots(q, q)
    steps = np.empty(T), np.empty(T), np.empty(T, dtype=np.int8)
    kernels.stream(K, L, np.zeros_like(K), a, b, c, firsts, q_norms, rule.step(np.float64), *steps)
    tau = steps[1]
    weights = (tau, tau * np.arange(T, 0, -1)) if rule.average else (tau,)
    matrices = [_outer(X, a, b, c, weight, sparse) for weight in weights]
    return matrices[0], matrices[-1], steps


def _outer(X: Any, a: Any, b: Any, c: Any, weights: Any, sparse: bool) -> Any:
    """Return Σ_t weight_t x_a (x_b - x_c)ᵀ, from differences: what is zero in all of them stays exactly zero."""
    X = sp.csr_matrix(X) if sparse else X
    right: Any = 0
    for own in slices(len(a), BLOCK):
        q = X[b[own]] - X[c[own]]
        by_anchor = sp.csr_matrix((weights[own], (a[own], np.arange(len(a[own])))), shape=(X.shape[0], len(a[own])))
        product = by_anchor @ q
        right = right + (product.toarray() if is_sparse(product) and not sparse else product)
    return sp.csr_matrix(X.T @ right) if sparse else np.asarray(X.T @ right)


def _inner_products(X: Any) -> Any:
    products = X @ X.T
    return products.toarray() if is_sparse(products) else products


def gram_is_cheaper(triplets: Triplets, max_memory: float | None) -> bool:
    """Whether the triplets cost less through inner products, by nanoseconds measured for each kind of work."""
    X, T = triplets.X, len(triplets)
    n = min(X.shape[0], 3 * T)
    if n > MOST_ROWS or (max_memory is not None and ROOM * n * n > max_memory):
        return False
    nnz = X.nnz / X.shape[0] if is_sparse(X) else float(X.shape[1])
    d = float(X.shape[1])
    entry = 1.5 if 8.0 * d * d <= NEAR else 6.0
    direct = entry * T * nnz * min(2.0 * nnz, d)
    return bool(20.0 * T * n + n * nnz * (n + d) < direct)
