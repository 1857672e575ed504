from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import NONE, RULES, after, csr, record, sparse_rows, triplets
from mahala.compiled.triplets.lazy_dense import export, settle, stream


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_steps_are_the_papers(name, dense):
    X = np.random.default_rng(3).normal(size=(12, 6)) if dense else sparse_rows()
    d = X.shape[1]
    numbers, rows = triplets(X)
    layout, rule, penalty = RULES[name]
    planes = np.zeros((d, layout[0], d))
    planes[np.arange(d), 0, np.arange(d)] = 1.0
    if layout[2]:
        planes[np.arange(d), -1, np.arange(d)] = 1.0  # S counts the first model
    model = planes, layout
    for part in (slice(0, 25), slice(25, 40)):
        triplet = (column[part] for column in numbers)
        steps = record(part.stop - part.start)
        settings = part.start, rule, penalty, 0.1, NONE, NONE, (0.0, 0.0)
        stream(csr(X), csr(X), *triplet, *model, *settings, *steps)
    M = np.empty((d, d))
    export(*model, penalty, 40, 40 if layout[2] else 0, M)
    np.testing.assert_allclose(M, after(name, rows, np.eye(d)), atol=1e-12)
    if layout[0] > 1 and not layout[2]:
        settle(*model, penalty, 40)
        np.testing.assert_allclose(planes[:, 0], M, atol=1e-15)
        assert not planes[:, 1].any()
