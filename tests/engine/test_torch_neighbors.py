"""Neighbours on a device of PyTorch against those of the cores, with and without a second search."""

from __future__ import annotations

import numpy as np
import pytest

from mahala.engine import current_engine
from mahala.support.parameters import config_context

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'mahala[gpu]'")
neighbors = pytest.importorskip("mahala.engine.torch.neighbors")

without_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")
rng = np.random.default_rng(0)
ROWS = rng.normal(size=(900, 3))
CASES = {
    "plain": (ROWS, False),
    "float32": (ROWS.astype(np.float32), False),
    "ties": (rng.integers(3, size=(900, 3)).astype(np.float32), True),
    "far from zero": (ROWS + 1e6, False),
    "one far away": (np.vstack([ROWS, 1e6 * ROWS[:1]]), True),
    "squares underflow in float32": (1e-30 * ROWS, True),
    "squares overflow in float32": (1e30 * ROWS, True),
}


@pytest.mark.parametrize("engine", ["torch-cpu", pytest.param("cuda", marks=without_gpu)])
@pytest.mark.parametrize("case", CASES)
def test_neighbours_are_those_of_the_cores(engine, case, monkeypatch):
    X, again = CASES[case]
    searches, run = [], neighbors._Search.run

    def counted(self, dtype, asked):
        searches.append(dtype)
        run(self, dtype, asked)

    monkeypatch.setattr(neighbors._Search, "run", counted)
    expected, distances = current_engine().nearest(X, X, 7)
    with config_context(engine=engine):
        numbers, squared = current_engine().nearest(X, X, 7)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_allclose(squared, distances, rtol=1e-12)
    assert (torch.float64 in searches) == again
