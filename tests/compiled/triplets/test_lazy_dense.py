from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import NONE, RULES, after, csr, record, sparse_rows, state, triplets
from mahala.compiled.triplets.lazy_dense import stream
from mahala.online.state.dense import DenseState


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_steps_are_the_papers(name, dense):
    X = np.random.default_rng(3).normal(size=(12, 6)) if dense else sparse_rows()
    d = X.shape[1]
    numbers, rows = triplets(X)
    layout, rule, penalty = RULES[name]
    model = state(DenseState, name, d, 40)
    for part in (slice(0, 25), slice(25, 40)):
        triplet = (column[part] for column in numbers)
        steps = record(part.stop - part.start)
        settings = part.start, rule, penalty, 0.1, NONE, NONE, (0.0, 0.0)
        stream(csr(X), csr(X), *triplet, model.planes, layout, *settings, *steps)
    M = model.matrix()
    np.testing.assert_allclose(M, after(name, rows, np.eye(d)), atol=1e-12)
    model.settle()
    np.testing.assert_allclose(model.matrix(), M, atol=1e-14)
    assert layout[0] == 1 or not model.planes[:, 1].any()
