"""Streams of documents, kind and unkind, for Hypothesis, and the filters that take them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import mahala
from papers.pola2004.filters.nearest import NearestFilter
from papers.pola2004.filters.paum import PAUM
from papers.pola2004.filters.perceptron import Perceptron

FILTERS = [
    Perceptron(),
    Perceptron(fit_intercept=False),
    PAUM(),
    PAUM(tau_relevant=2.0, tau_irrelevant=-0.5, eta=0.25),
    NearestFilter(),
    NearestFilter(mahala.POLA()),
    NearestFilter(mahala.PA("I", C=0.1, psd="end")),
    NearestFilter(mahala.PA("II", C=0.1, psd=3)),
    NearestFilter(mahala.LEGO(similar_target=1.0, dissimilar_target=2.0)),
    NearestFilter(mahala.online.RDML()),
]


@st.composite
def streams(draw, max_n=40, max_d=6):
    """Documents and whether they are relevant.

    Values are small multiples of 1/4, so that sums of their products are exact in any order, and ties are ties.
    """
    n, d = draw(st.integers(1, max_n)), draw(st.integers(1, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(-8, 9, size=(n, d)) / 4.0
    kind = draw(st.sampled_from(["as they are", "sparse", "duplicates", "binary", "far away"]))
    if kind == "sparse":
        X[rng.random((n, d)) < 0.7] = 0.0
    elif kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 4), size=n)]
    elif kind == "binary":
        X = (X > 0.0).astype(float)
    elif kind == "far away":
        X += 2.0**16
    relevant = rng.random(n) < draw(st.sampled_from([0.1, 0.5, 0.9]))
    return X, relevant
