"""Labels that are numbers, and columns that give them away."""

from __future__ import annotations

import numpy as np
import pytest

from mahala.data.labels import binned, is_continuous


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.random.default_rng(0).normal(size=100), True),
        (np.arange(100), True),
        (np.arange(2600) % 26, False),
        (np.arange(100) % 2 + 0.5, False),
        (np.arange(10_000) % 100, False),
        (np.array([str(i) for i in range(100)], dtype=object), False),
        (np.array([1.5, 2.5]), False),
    ],
)
def test_continuous(labels, expected):
    assert is_continuous(labels) is expected


def test_bins_have_about_equal_size():
    labels = np.random.default_rng(0).normal(size=1000)
    names, counts = np.unique(binned(labels, 4), return_counts=True)
    assert len(names) == 4
    assert (np.abs(counts - 250) <= 1).all()
    assert set(binned(np.array([0, 0, 0, 0, 5, 7]), 3)) == {"up to 0", "above 1.66667"}
    with pytest.raises(ValueError, match="cannot be divided into 2 bins: most of them are 3"):
        binned(np.array([3, 3, 3, 1]), 2)
    with pytest.raises(ValueError, match="bins need labels that are numbers, got 'a'"):
        binned(np.array(["a", "b"], dtype=object), 2)
    with pytest.raises(ValueError, match="bins must be at least 2"):
        binned(labels, 1)
