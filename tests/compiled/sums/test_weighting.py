from __future__ import annotations

import numpy as np
import pytest

from mahala.batch.triplets import hits_and_misses, rows_in_shared_classes
from mahala.batch.whitening import to_unit_range
from mahala.compiled.sums import weighting
from mahala.compiled.sums.weighting import extreme_pairs, simba_pass
from reference import weighting as reference


@pytest.fixture(params=["NumPy", "compiled"])
def rows(request, monkeypatch):
    if request.param == "compiled":  # as for many rows
        monkeypatch.setattr(weighting, "FEW_PAIRS", 0)
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 4)), np.append(rng.integers(0, 2, size=29), 2)


def test_unit_range_and_company(rows):
    X, codes = rows
    X[:, 1] = 7.0
    scaled, extent = to_unit_range(X)
    np.testing.assert_array_equal(scaled.min(axis=0), 0.0)
    np.testing.assert_array_equal(scaled.max(axis=0), [1.0, 0.0, 1.0, 1.0])
    assert extent[1] == np.inf
    np.testing.assert_array_equal(rows_in_shared_classes(codes), np.arange(29))
    with pytest.raises(ValueError, match="at least one class needs two rows"):
        rows_in_shared_classes(np.arange(5))


def test_neighbours_and_simba_are_the_reference(rows):
    X, codes = rows
    order = np.arange(29)
    found = [reference.hit_and_miss(X, codes, row, np.ones(4)) for row in order]
    np.testing.assert_array_equal(np.transpose(hits_and_misses(X, codes, order)), found)
    w = np.ones(4)
    simba_pass(X, codes, order, w)
    np.testing.assert_allclose(w, reference.simba(X, codes, order, np.ones(4)), rtol=1e-10)


def test_extreme_pairs_are_the_extremes_of_all_pairs(rows):
    X, codes = rows
    weights = np.array([1.0, 0.0, 2.0, 0.5])
    far, far_rows, near, near_rows, n_close = extreme_pairs(X, codes, weights, 1e-12)
    i, j, similar = reference.pairs_of(codes)
    squared = (X[i] - X[j]) ** 2 @ weights
    assert far.max() == pytest.approx(squared[similar].max())
    assert near.min() == pytest.approx(squared[~similar].min())
    for row, other, distance in zip(range(30), far_rows, far, strict=True):
        assert distance < 0 or distance == pytest.approx((X[row] - X[other]) ** 2 @ weights)
    for row, other, distance in zip(range(30), near_rows, near, strict=True):
        assert distance == np.inf or distance == pytest.approx((X[row] - X[other]) ** 2 @ weights)
    assert n_close == 0
