from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import NONE, RULES, after, csr, record, sparse_rows, state, store, triplets
from mahala.compiled.triplets.block_store import DONE, PAYLOAD_IS_FULL
from mahala.compiled.triplets.lazy_sparse import search, stream
from mahala.online.state.sparse import SparseState


def with_store(name, sparse, clock):
    model = state(SparseState, name, len(sparse.log), clock)
    model.store, model.numbers, model.features = sparse, *np.tile(np.arange(len(sparse.log)), (2, 1))
    return model


@pytest.mark.parametrize("name", RULES)
def test_steps_are_the_papers(name):
    X = sparse_rows()
    d = X.shape[1]
    numbers, rows = triplets(X)
    layout, rule, penalty = RULES[name]
    initial = (1.0, 1.0 if layout[2] else 0.0)
    sparse = store(d, 2**15, 2**12)
    settings = 0, rule, penalty, 0.1, (NONE, NONE), (0.0, 0.0)
    taken = stream(csr(X), csr(X), numbers, sparse, layout, initial, *settings, record(40))
    assert taken == (40, DONE)
    model = with_store(name, sparse, 40)
    M = model.matrix().toarray()
    np.testing.assert_allclose(M, after(name, rows, np.eye(d)), atol=1e-12)
    model.settle()
    np.testing.assert_allclose(model.matrix().toarray(), M, atol=1e-14)


def test_a_stream_stops_before_the_step_for_which_there_is_no_room():
    X = sparse_rows()
    numbers, rows = triplets(X)
    layout, rule, penalty = RULES["oasis"]
    sparse, settings = store(70, 400), (0, rule, penalty, 0.1, (NONE, NONE), (0.0, 0.0))
    taken, why = stream(csr(X), csr(X), numbers, sparse, layout, (1.0, 0.0), *settings, record(40))
    assert 0 < taken < 40
    assert why == PAYLOAD_IS_FULL
    M = with_store("oasis", sparse, taken).matrix().toarray()
    np.testing.assert_allclose(M, after("oasis", rows[:taken], np.eye(70)), atol=1e-12)


def test_search():
    columns = np.array([1, 4, 9, 0])
    assert [search(columns, 3, column) for column in (0, 1, 4, 5, 9, 10)] == [-1, 0, 1, -1, 2, -1]
