"""Arguments of kernels, in the types with which the library calls them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mahala.compiled.triplets.block_store import N_SIZES, Store
from mahala.online.state.similarity import SimilarityRule
from reference import online_triplets

NONE = np.empty(0)


def read_only(array):
    """The array, as comparisons and metrics hold theirs."""
    array.flags.writeable = False
    return array


def record(n):
    """Empty arrays for p, τ and the predictions of n steps."""
    return np.empty(n), np.empty(n), np.empty(n, dtype=np.int8)


def pairs(n=90, d=5, seed=0):
    """Differences, one of them zero, and labels."""
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(n, d))
    V[n // 2] = 0.0
    return V, rng.choice([-1, 1], size=n).astype(np.int8)


def csr(X):
    rows = sp.csr_array(X)
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data


def sparse_rows(n=12, d=70, seed=0):
    """Rows of which about one value in ten is not zero; some rows are all zero."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.1)


def triplets(X, n=40, seed=0):
    """Row numbers of n triplets, and their rows."""
    numbers = np.random.default_rng(seed).integers(0, len(X), size=(3, n))
    return (*numbers,), [(X[a], X[b], X[c]) for a, b, c in numbers.T]


def store(n_rows, n_payload=4096, n_slots=1024):
    """An empty store."""
    payload = np.zeros(n_payload)
    return Store(
        start=np.zeros(n_rows, dtype=np.int64),
        log=np.full(n_rows, -1, dtype=np.int64),
        used=np.zeros(n_rows, dtype=np.int64),
        table=np.zeros(2 * n_slots, dtype=np.uint64),
        payload=payload,
        links=payload.view(np.int64),
        free=np.full(N_SIZES + 64, -1, dtype=np.int64),
        tails=np.array([1, 0, 0]),
    )


# Layout, step rule and penalty of learners with η = C = 0.1, λ = 0.1 off the diagonal and δ = 1.
RULES = {
    "oasis": ((1, False, False), (1.0, 0.0, 0.1, 1e25, 1.0), (0.0, False, 1.0)),
    "mean of oasis": ((3, False, True), (1.0, 0.0, 0.1, 1e25, 1.0), (0.0, False, 1.0)),
    "sors": ((2, False, False), (0.0, 0.0, 0.1, 1e25, 1.0), (0.01, True, 1.0)),
    "adasors": ((3, True, False), (0.0, 0.0, 0.1, np.inf, 1.0), (0.01, True, 1.0)),
}


def rule_of(name):
    """One of these rules, as states take it."""
    (_, adaptive, average), (scale, slack, upper, *_), (theta, exempt, delta) = RULES[name]
    return SimilarityRule(scale, slack, upper, 0.1, theta, exempt, delta, theta > 0.0, adaptive, average)


def state(kind, name, d, clock=0):
    """A state in which steps of one of these rules have been taken."""
    made = kind((d, d), 1.0, rule_of(name), np.float64)
    made.clock = made.n_steps = clock
    return made


def after(name, rows, M):
    """M after one step for each triplet of rows by the papers, or the mean of the models before each step."""
    if name == "sors":
        return online_triplets.sors(rows, M, 0.1, 0.1, True)[0]
    if name == "adasors":
        return online_triplets.adasors(rows, M, 0.1, 0.1, 1.0, True)[0]
    return online_triplets.oasis(rows, M, 0.1)[1 if name == "mean of oasis" else 0]
