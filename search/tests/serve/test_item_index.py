"""The index: exact results from bounds, while items come and go."""

from __future__ import annotations

import numpy as np
import pytest

from mahala_search.serve.index.item_index import Index, payload_filter
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.rows import NewItem


def best(X, live, query, k):
    scores = (X.astype(np.float64) * query).sum(axis=1)
    order = np.argsort(-scores, kind="stable")
    return [(int(row), float(scores[row])) for row in order if live[row]][:k]


def pairs(found):
    return [(one.row, one.score) for one in found]


def filled(tmp_path, X, payloads=None):
    store = Store(tmp_path / "s.db")
    store.create("c", width=X.shape[1], settings={})
    index = Index("c", X.shape[1])
    for start in range(0, len(X), 700):  # rows grow, and are taken in several times
        part = range(start, min(start + 700, len(X)))
        store.put_items("c", [NewItem(f"i{at}", X[at], payloads[at] if payloads else {}) for at in part])
        index.refresh(store)
    return store, index


@pytest.mark.parametrize("kind", ["normal", "ties", "one large entry", "nearly parallel", "tiny", "huge", "zero"])
def test_what_is_found_is_exactly_the_best(tmp_path, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 19)).astype(np.float32)
    if kind == "ties":
        X = np.sign(X[rng.integers(40, size=len(X))])
    elif kind == "one large entry":
        X[:, 3] += 1e4 * rng.normal(size=len(X))
    elif kind == "nearly parallel":  # bounds tell hardly any two apart
        X = (X[:1] * (1.0 + 1e-6 * rng.normal(size=(len(X), 19)))).astype(np.float32)
    elif kind in ("tiny", "huge", "zero"):
        X *= np.float32({"tiny": 1e-42, "huge": 1e15, "zero": 0.0}[kind])
    store, index = filled(tmp_path, X)
    live = np.ones(len(X), dtype=bool)
    gone = rng.choice(len(X), size=300, replace=False)
    live[gone] = False
    store.delete_items("c", [f"i{row}" for row in gone])
    index.refresh(store)
    for scale in (1.0, 1e-30, 1e20):
        query = scale * rng.normal(size=19)
        for k in (1, 10, 400, 1200, 5000):
            assert pairs(index.search(query, k)) == best(X, live, query, k)
    left = int(np.flatnonzero(live)[0])
    live[left] = False
    assert pairs(index.search(query, 10, leave_out=left)) == best(X, live, query, 10)
    assert [one.row for one in index.search(np.zeros(19), 3, leave_out=left)] == np.flatnonzero(live)[:3].tolist()


def test_filters_are_exact_however_few_pass(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 5)).astype(np.float32)
    kinds = rng.choice(["many", "few"], p=[0.995, 0.005], size=len(X))
    _, index = filled(tmp_path, X, [{"kind": str(kind)} for kind in kinds])
    query = rng.normal(size=5)
    for kind in ("many", "few", "none"):
        found = index.search(query, 10, payload_filter({"kind": kind}))
        assert pairs(found) == best(X, kinds == kind, query, 10)
