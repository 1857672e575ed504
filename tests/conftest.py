"""Data that many tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

DATA = Path(os.environ.get("MAHALA_DATA") or Path(__file__).parents[2] / "shared" / "data")

# A run in the background begins with Ctrl-C switched off, and hands that on; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def labelled():
    """Three overlapping classes in five features, of which two are noise."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 3, size=90)
    X = rng.normal(size=(90, 5))
    X[:, :3] += 2.0 * np.eye(3)[y]
    return X, y


@pytest.fixture
def dataset():
    """Loads a data set by name from the data folder; skips where it is not there."""

    def load(name):
        path = DATA / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"{path} is not there; set MAHALA_DATA to the folder with the data sets")
        with np.load(path) as file:
            return file["X"].astype(float), file["y"]

    return load
