from __future__ import annotations

import numpy as np
import pytest

from compiled.kernel_inputs import csr, sparse_rows
from mahala.compiled.triplets.rows import difference, late, late_sum, shrink, step_length
from reference.online_triplets import soft


def test_differences_of_sparse_rows():
    X = sparse_rows()
    X[1] = X[0]
    columns, values = np.empty(140, dtype=np.int64), np.empty(140)
    for a, b in ((0, 1), (0, 2), (3, 4), (5, 3)):
        n = difference(csr(X), a, b, columns, values)
        np.testing.assert_array_equal(columns[:n], np.flatnonzero(X[a] - X[b]))
        np.testing.assert_array_equal(values[:n], (X[a] - X[b])[columns[:n]])


def test_deferred_thresholds_are_those_of_every_step():
    for m in (1.0, -0.35, 0.0):
        each = [float(soft(m, k * 0.1)) for k in range(1, 8)]
        assert late(m, 0.7) == pytest.approx(each[-1])
        assert late_sum(m, 7.0, 0.1) == pytest.approx(sum(each))


def test_step_lengths():
    assert step_length(0.5, 4.0, (1.0, 1.0, 9.0, 1e25, 1.0)) == 0.1
    assert step_length(0.5, 4.0, (1.0, 1.0, 0.05, 1e25, 1.0)) == 0.05
    assert step_length(0.0, 4.0, (1.0, 1.0, 9.0, 1e25, 1.0)) == step_length(0.5, 0.0, (1.0, 1.0, 9.0, 1e25, 1.0)) == 0.0
    assert step_length(0.5, 4.0, (1.0, 1.0, 9.0, 0.1, 1.0)) == 0.0


def test_variances_shrink_as_their_inverses_grow():
    variances = np.array([1.0, 0.5, 0.25])
    shrink(np.array([0, 2]), np.array([1.0, 2.0]), 0, 2, variances, 0.3)
    np.testing.assert_allclose(variances, [1 / 1.3, 0.5, 1 / (4.0 + 0.3 * 4.0)])
