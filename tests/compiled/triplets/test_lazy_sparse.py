from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from compiled.kernel_inputs import NONE, RULES, after, csr, record, sparse_rows, store, triplets
from mahala.compiled.triplets.block_store import DONE, PAYLOAD_IS_FULL
from mahala.compiled.triplets.lazy_sparse import export, search, settle, stream


def exported(sparse, layout, penalty, virgin, clock, n_averaged, d):
    numbers, indptr = np.arange(d), np.zeros(d + 1, dtype=np.int64)
    model = sparse, layout, penalty, virgin, clock, n_averaged, numbers, numbers, indptr
    export(*model, np.empty(0, dtype=np.int32), np.empty(0))
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    export(*model, indices, data)
    return sp.csr_array((data, indices, indptr), shape=(d, d)).toarray()


@pytest.mark.parametrize("name", RULES)
def test_steps_are_the_papers(name):
    X = sparse_rows()
    d = X.shape[1]
    numbers, rows = triplets(X)
    layout, rule, penalty = RULES[name]
    virgin = (1.0, 1.0 if layout[2] else 0.0)
    sparse = store(d, 2**15, 2**12)
    settings = 0, rule, penalty, 0.1, NONE, NONE, (0.0, 0.0)
    taken = stream(csr(X), csr(X), *numbers, sparse, layout, virgin, *settings, *record(40))
    assert taken == (40, DONE)
    M = exported(sparse, layout, penalty, virgin, 40, 40 if layout[2] else 0, d)
    np.testing.assert_allclose(M, after(name, rows, np.eye(d)), atol=1e-12)
    if layout[0] > 1 and not layout[2]:
        settle(sparse, layout, penalty, 40)
        np.testing.assert_allclose(exported(sparse, layout, penalty, virgin, 0, 0, d), M, atol=1e-15)


def test_a_stream_stops_before_the_step_for_which_there_is_no_room():
    X = sparse_rows()
    numbers, rows = triplets(X)
    layout, rule, penalty = RULES["oasis"]
    sparse, settings = store(70, 400), (0, rule, penalty, 0.1, NONE, NONE, (0.0, 0.0))
    taken, why = stream(csr(X), csr(X), *numbers, sparse, layout, (1.0, 0.0), *settings, *record(40))
    assert 0 < taken < 40
    assert why == PAYLOAD_IS_FULL
    M = exported(sparse, layout, penalty, (1.0, 0.0), taken, 0, 70)
    np.testing.assert_allclose(M, after("oasis", rows[:taken], np.eye(70)), atol=1e-12)


def test_search():
    columns = np.array([1, 4, 9, 0])
    assert [search(columns, 3, column) for column in (0, 1, 4, 5, 9, 10)] == [-1, 0, 1, -1, 2, -1]
