"""Hypothesis strategies for differences of pairs, kind and unkind, and how many examples a test draws."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from mahala import Triplets


def examples(n):
    """Decorate a test that draws another number of examples than the others; MAHALA_EXAMPLES can only raise it."""
    return settings(max_examples=max(n, int(os.environ.get("MAHALA_EXAMPLES") or 0)))


@st.composite
def streams(draw, max_n=60, max_d=9):
    """Differences V (n, d) and labels y: duplicates, zero vectors, low rank, constant features, mixed scales."""
    n, d = draw(st.integers(1, max_n)), draw(st.integers(1, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["normal", "low rank", "integers", "duplicates", "few directions", "scales"]))
    V = rng.normal(size=(n, d))
    if kind == "low rank":
        V = rng.normal(size=(n, 1)) @ rng.normal(size=(1, d))
    elif kind == "integers":
        V = rng.integers(-1, 2, size=(n, d)).astype(float)
    elif kind == "duplicates":
        V = V[rng.integers(0, max(1, n // 4), size=n)]
    elif kind == "few directions":
        V = np.eye(d)[rng.integers(0, d, size=n)] * rng.choice([0.1, 1.0, 3.0], size=(n, 1))
    elif kind == "scales":
        V = V * 10.0 ** rng.integers(-2, 3, size=d)
    V[rng.random(n) < draw(st.sampled_from([0.0, 0.2]))] = 0.0
    if draw(st.booleans()):
        V[:, 0] = 0.0
    y = rng.choice([-1, 1], size=n).astype(np.int8)
    if draw(st.integers(0, 5)) == 0:
        y[:] = draw(st.sampled_from([-1, 1]))
    return np.ascontiguousarray(V), y


@st.composite
def labelled_rows(draw, max_n=30, max_d=6):
    """Rows X (n, d) of at least two classes: duplicates, ties, zero vectors, low rank, constant features, scales."""
    n, d = draw(st.integers(2, max_n)), draw(st.integers(1, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["normal", "low rank", "integers", "duplicates", "scales", "one class apart"]))
    X = rng.normal(size=(n, d))
    if kind == "low rank":
        X = rng.normal(size=(n, 1)) @ rng.normal(size=(1, d))
    elif kind == "integers":
        X = rng.integers(-1, 2, size=(n, d)).astype(float)
    elif kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 3), size=n)]
    elif kind == "scales":
        X = X * 10.0 ** rng.integers(-2, 3, size=d)
    X[rng.random(n) < draw(st.sampled_from([0.0, 0.2]))] = 0.0
    if draw(st.booleans()):
        X[:, 0] = draw(st.sampled_from([0.0, 3.0]))
    codes = rng.integers(0, draw(st.integers(2, 4)), size=n)
    if kind == "one class apart":
        codes[:] = 0
    codes[0], codes[1] = 0, 1
    return np.ascontiguousarray(X), np.unique(codes, return_inverse=True)[1].astype(np.intp)


@st.composite
def triplet_sets(draw):
    """Triplets over rows with duplicates, ties, low rank; some of their roles played by the same row; two dtypes."""
    X, _ = draw(labelled_rows())
    X = X.astype(draw(st.sampled_from([np.float64, np.float32])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Triplets(X, *rng.integers(0, len(X), size=(3, draw(st.integers(1, 40)))))
