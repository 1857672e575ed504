from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import RULES, after, csr, record, rule_of, sparse_rows, state, triplets
from mahala.online.state.dense import DenseState
from mahala.online.state.similarity import TripletChunk


@pytest.fixture(autouse=True, params=[0, 10, 100])
def _steps_in_numpy(request, monkeypatch):
    """So many first steps are NumPy's: none, some, or all."""
    monkeypatch.setattr("mahala.online.state.dense.most_steps", lambda work: request.param)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_steps_are_the_papers(name, dense):
    X = np.random.default_rng(3).normal(size=(12, 6)) if dense else sparse_rows()
    d = X.shape[1]
    numbers, rows = triplets(X)
    model, rows_and_items = state(DenseState, name, d), (csr(X), csr(X))
    for part in (slice(0, 25), slice(25, 40)):
        chunk = TripletChunk(*rows_and_items, tuple(column[part] for column in numbers), np.ones(40)[part])
        model.feed(chunk, rule_of(name), record(len(chunk.y)))
    M = model.matrix()
    np.testing.assert_allclose(M, after(name, rows, np.eye(d)), atol=1e-12)
    model.settle()
    np.testing.assert_allclose(model.matrix(), M, atol=1e-14)
    assert model.layout[0] == 1 or not model.planes[:, 1].any()


@pytest.mark.parametrize("name", RULES)
def test_whole_rows_and_scattered_entries_take_turns(name):
    """Entries of whole rows share a stamp within a stream; the next stream reads one for each of them."""
    scattered = sparse_rows()
    full = np.random.default_rng(4).normal(size=scattered.shape) / 5.0
    model, rows = state(DenseState, name, scattered.shape[1]), []
    for seed, X in enumerate((full, scattered, full, scattered)):
        numbers, more = triplets(X, n=12, seed=seed)
        rows += more
        model.feed(TripletChunk(csr(X), csr(X), numbers, np.ones(12)), rule_of(name), record(12))
    np.testing.assert_allclose(model.matrix(), after(name, rows, np.eye(len(X.T))), atol=1e-12)
