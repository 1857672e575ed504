"""Neighbours and triplets of labelled rows against a loop over all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.batch.label_neighbors import label_triplets, target_neighbors
from reference.boosting import triplets_of_labels
from strategies import labelled_rows


def columns(triplets):
    return triplets.anchor, triplets.positive, triplets.negative


@given(labelled_rows(), st.integers(1, 4), st.sampled_from([np.float64, np.float32]))
def test_labels_give_nearest_targets_and_impostors(data, k, dtype):
    X, codes = data[0].astype(dtype), data[1]
    expected = triplets_of_labels(X, codes, k)
    if not expected:
        with pytest.raises(ValueError, match="every row is alone in its class"):
            label_triplets(X, codes, k)
        return
    found = list(zip(*columns(label_triplets(X, codes, k)), strict=True))
    # Of equally near rows any may be chosen: what counts is how far they are.
    squared = np.square(X[:, None].astype(float) - X[None]).sum(axis=2)

    def key(rows):
        return sorted((i, codes[j] == codes[i], codes[m] != codes[i], squared[i, j], squared[i, m]) for i, j, m in rows)

    assert np.allclose(key(found), key(expected), rtol=1e-12)
    assert len(set(found)) == len(found)
    assert all(i != j for i, j, _ in found)


def test_small_classes():
    """In a small class all others are targets, and a row alone in its class has none."""
    X = np.array([[0.0], [1.0], [3.0], [1.5], [9.0], [9.5]])
    edges, ends = target_neighbors(X, np.array([0, 0, 0, 1, 2, 2]), 3)
    assert edges.T.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 1], [2, 0], [4, 5], [5, 4]]
    assert ends.tolist() == [0, 2, 4, 6, 6, 7, 8]
    with pytest.raises(ValueError, match="every row is alone in its class"):
        target_neighbors(X[:3], np.arange(3), 1)
