from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from compiled.kernel_inputs import NONE, RULES, csr, record, sparse_rows, store, triplets
from compiled.triplets.test_lazy_sparse import with_store
from mahala.compiled.triplets.block_store import ENTRIES, PAYLOAD, TABLE
from mahala.compiled.triplets.lazy_sparse import stream
from mahala.compiled.triplets.pattern import count_pattern, reserve


def test_room_is_reserved_for_just_what_a_stream_can_change():
    X = sparse_rows()
    numbers, _ = triplets(X)
    d = X.shape[1]
    order = np.argsort(numbers[0], kind="stable")
    by_anchor = np.searchsorted(numbers[0][order], np.arange(len(X) + 1)), numbers[1][order], numbers[2][order]
    csc = sp.csc_matrix(X)
    by_column = csc.indptr.astype(np.int64), csc.indices, csc.data

    touched = np.zeros((d, d), dtype=bool)
    for a, b, c in zip(*numbers, strict=True):
        touched |= np.outer(X[a] != 0, (X[b] != 0) | (X[c] != 0))
    rooms, slots = count_pattern(by_column, by_anchor, csr(X))
    sparse = store(d, rooms + 1, slots)
    reserve(by_column, by_anchor, csr(X), sparse, 1, (1.0, 0.0))
    assert sparse.tails[ENTRIES] == touched.sum()
    assert (sparse.tails[PAYLOAD], sparse.tails[TABLE]) == (rooms + 1, slots)

    # A stream needs no more room, and makes the same changes as in a store that grows.
    layout, rule, penalty = RULES["oasis"]
    results = []
    for full in (sparse, store(d, 2**15, 2**12)):
        settings = 0, rule, penalty, 0.1, (NONE, NONE), (0.0, 0.0)
        assert stream(csr(X), csr(X), numbers, full, layout, (1.0, 0.0), *settings, record(40))[0] == 40
        results.append(with_store("oasis", full, 40).matrix().toarray())
    np.testing.assert_allclose(*results, atol=1e-15)
