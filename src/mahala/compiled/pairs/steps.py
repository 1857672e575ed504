"""Passive-aggressive streams over pairs in which M may become indefinite (version "-").

Every step rule of the family is three numbers: τ = clip(p / (‖v‖⁴ + 1 + slack), lower, upper), with
p = 1 - y (b - vᵀMv); the update is M ← M - τ y v vᵀ, b ← b + τ y. A fourth number is the shortest step that is taken.

Each kernel takes differences V (n, d) and labels y (±1), writes the steps, changes the model in place and returns the
threshold.
"""

import numpy as np

from mahala.compiled.blas import gemm
from mahala.compiled.jit import Steps, helper, kernel
from mahala.compiled.pairs.symmetric import subtract_terms
from mahala.support.arrays import FloatArray, IntArray, SignArray

Rule = tuple[float, float, float, float]  # slack, lower, upper, the least |τ|

# Steps whose quadratic forms and updates are computed by one matrix product.
BLOCK = 64
# Below this squared length v vᵀ underflows, and the two points count as coinciding.
COINCIDING = 1e-304


@helper
def dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@helper
def step(t: int, label: int, margin: float, norm4: float, rule: Rule, steps: Steps) -> float:
    """Predict pair t from its margin b - vᵀMv, then choose τ; record all three. Return s = τy."""
    slack, lower, upper, least = rule
    p, tau, predicted = steps
    predicted[t] = 1 if margin >= 0.0 else -1
    p[t] = 1.0 - label * margin
    length = min(max(p[t] / (norm4 + 1.0 + slack), lower), upper)
    tau[t] = 0.0 if abs(length) < least else length + 0.0  # never SKIPPED
    return float(tau[t] * label)


@kernel
def stream_indefinite(V: FloatArray, y: SignArray, M: FloatArray, b: float, rule: Rule, steps: Steps) -> float:
    """Take one step per row of V, in blocks; M is read and written once per block.

    The distances inside a block are exact: `dist_t = v_tᵀM₀v_t - Σ_{l<t} c_l (v_lᵀv_t)²`.
    """
    n, d = V.shape
    size = min(BLOCK, n)
    product, gram = np.empty((size, d)), np.empty((size, size))
    c, weights = np.empty(size), np.empty(size)
    terms = np.empty((size, d))
    for start in range(0, n, BLOCK):
        n_rows = min(BLOCK, n - start)
        gemm(V, start, False, M, 0, False, product, n_rows, d, d, False)
        gemm(V, start, False, V, start, True, gram, n_rows, n_rows, d, False)
        n_terms = 0
        for i in range(n_rows):
            t, norm2, dist = start + i, gram[i, i], dot(product[i], V[start + i])
            for l in range(i):
                dist -= c[l] * gram[i, l] * gram[i, l]
            s = step(t, y[t], b - dist, norm2 * norm2, rule, steps)
            b += s
            c[i] = 0.0 if norm2 < COINCIDING else s
            if c[i] != 0.0:
                weights[n_terms] = c[i]
                for j in range(d):
                    terms[n_terms, j] = V[t, j]
                n_terms += 1
        subtract_terms(M, product, terms, weights, n_terms)
    return b


@kernel
def stream_sparse(
    rows: tuple[FloatArray, IntArray, IntArray], y: SignArray, M: FloatArray, b: float, rule: Rule, steps: Steps
) -> float:
    """Take the same steps over the rows of a CSR matrix of differences; a step touches nnz(v)² entries of M."""
    data, indices, indptr = rows
    for t in range(len(y)):
        entries = slice(indptr[t], indptr[t + 1])
        columns, values = indices[entries], data[entries]
        norm2 = dist = 0.0
        for i in range(len(values)):
            row = M[columns[i]]
            inner = 0.0
            for j in range(len(values)):
                inner += values[j] * row[columns[j]]
            dist += values[i] * inner
            norm2 += values[i] * values[i]
        s = step(t, y[t], b - dist, norm2 * norm2, rule, steps)
        b += s
        if s != 0.0 and norm2 >= COINCIDING:
            for i in range(len(values)):
                row = M[columns[i]]
                weight = s * values[i]
                for j in range(len(values)):
                    row[columns[j]] -= weight * values[j]
    return b


@kernel
def stream_dual(
    gram2: FloatArray, distances: FloatArray, weights: FloatArray, y: SignArray, b: float, rule: Rule, steps: Steps
) -> float:
    """Take the same steps over a fixed set of r pairs, in cycles, by updating all r distances.

    `gram2` holds (v_kᵀv_l)². A passive step costs O(1), an update O(r); M changes by Σ weights_k v_k v_kᵀ.
    """
    k = -1
    for t in range(len(steps[0])):
        k = k + 1 if k + 1 < len(y) else 0
        s = step(t, y[k], b - distances[k], gram2[k, k], rule, steps)
        if s != 0.0:
            b += s
            weights[k] -= s
            row = gram2[k]
            for l in range(len(distances)):
                distances[l] -= s * row[l]
    return b
