"""Minibatches on every engine, against a descent in plain NumPy and against all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from engine.devices import ENGINES, torch, without_gpu, without_torch
from mahala.engine import current_engine
from mahala.engine.map_descent import DeviceArrays, MapProblem
from mahala.engine.minibatches import GivenComparisons, Minibatches, PairRanges
from mahala.engine.row_parts import RowParts, read_rows
from mahala.support.parameters import config_context
from reference import minibatches as reference


def given(rng, n_rows, n, *, pairs):
    """Comparisons of random rows with random weights; half of the pairs are similar."""
    near, far = rng.permuted(np.tile(np.arange(n_rows), (2 * n, 1)), axis=1)[:, :2].T.reshape(2, 2, n).swapaxes(0, 1)
    if pairs:
        far[:, : n // 2], near[:, n // 2 :] = -1, -1
    return GivenComparisons(near, far, rng.uniform(0.5, 2.0, size=n))


def slow_batches(X, comparisons, size, seed, n_steps):
    n = len(comparisons.weights)
    weights = comparisons.weights / comparisons.weights.mean()

    def difference(pair):
        return None if pair[0] < 0 else X[pair[0]] - X[pair[1]]

    for step in range(n_steps):
        order = np.random.default_rng([seed, step // (n // size)]).permutation(n)
        chosen = order[step % (n // size) * size :][:size]
        near, far = comparisons.near[:, chosen].T, comparisons.far[:, chosen].T
        yield [(difference(a), difference(b), w) for a, b, w in zip(near, far, weights[chosen], strict=True)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "quadruplets"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_descent_is_that_of_plain_numpy(engine, pairs, noise, monkeypatch):
    if torch is not None:
        monkeypatch.setattr("mahala.engine.torch.memory.GPU_FACTORS", "float32")
    rng = np.random.default_rng(0)
    X, prior, start = rng.normal(size=(30, 5)), rng.normal(size=(4, 5)), rng.normal(size=(3, 4))
    comparisons = given(rng, 30, 50, pairs=pairs)
    problem = MapProblem(prior, start, 8.0 * pairs, 5.0, 0.01, noise, n_steps=60)
    with config_context(engine=engine):
        options = {"batch_size": 16, "seed": 3, "state": None}
        batches = Minibatches(current_engine().arrays(), X.astype(np.float32), comparisons, problem, **options)
        objective = batches.run(60)
    slow = slow_batches(X.astype(np.float32).astype(np.float64), comparisons, 16, 3, 60)
    A, theta, losses = reference.descend(
        slow, start, problem.threshold, temperature=5.0, lam=0.01, noise=noise, prior=prior, n_steps=60
    )
    np.testing.assert_allclose(batches.descent.fetch_map(), A, atol=1e-4 * np.abs(A).max())
    assert batches.descent.threshold == pytest.approx(5.0 * theta, rel=1e-4)
    assert objective == pytest.approx(np.mean(losses) + 0.01 * np.sum((A - start) ** 2), rel=1e-4)
    assert np.abs(A - start).max() > 0.1  # something was learned


@without_gpu
def test_bfloat16_reaches_the_objective_of_float32(monkeypatch):
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=500)
    X = (rng.normal(size=(500, 20)) + 2.0 * rng.normal(size=(5, 20))[codes]).astype(np.float16)
    problem = MapProblem(None, np.eye(20), 80.0, 60.0, 1e-4, 0.0, n_steps=200)
    objectives = []
    for factors in ("float32", "bfloat16"):
        monkeypatch.setattr("mahala.engine.torch.memory.GPU_FACTORS", factors)
        with config_context(engine="cuda"):
            batches = Minibatches(current_engine().arrays(), X, codes, problem, batch_size=256, seed=0, state=None)
        batches.run(150)
        objectives.append(batches.run(50))
    assert objectives[1] == pytest.approx(objectives[0], rel=0.01)


@pytest.mark.parametrize("engine", ["cpu", pytest.param("torch-cpu", marks=without_torch)])
def test_each_pair_of_rows_has_one_number(engine):
    codes = np.array([2, 0, 2, 1, 0, 2, 4])  # a class of one row, and one without rows
    arrays = DeviceArrays()
    if engine != "cpu":
        from mahala.engine.torch.memory import TorchArrays

        arrays = TorchArrays(torch.device("cpu"))
    ranges = PairRanges(arrays, codes)

    class AllNumbers:
        def integers(self, total, size):
            assert total == size
            return np.arange(total)

    left, right = (np.asarray(rows) for rows in ranges.draw(AllNumbers(), (8, 34)))
    same = {(i, j) for i in range(7) for j in range(7) if i != j and codes[i] == codes[j]}
    other = {(i, j) for i in range(7) for j in range(7) if codes[i] != codes[j]}
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    assert set(pairs[:8]) == same
    assert set(pairs[8:]) == other
    with pytest.raises(ValueError, match="two classes, and two rows of a class"):
        PairRanges(arrays, np.array([0, 0, 0]))


class SmallArrays(DeviceArrays):
    """The arrays of a machine with little memory."""

    def holds(self, X):
        return False

    def room(self):
        return 100 * 4 * 2.0  # 100 rows of two float16 features, at most


def test_rows_larger_than_memory_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("mahala.engine.row_parts.PIECE_BYTES", 7 * 4)  # seven rows
    X = np.random.default_rng(0).normal(size=(450, 2)).astype(np.float16)
    np.save(tmp_path / "rows.npy", X)
    kinds = {"array": X, "memory map": np.load(tmp_path / "rows.npy", mmap_mode="r")}
    da, zarr = pytest.importorskip("dask.array"), pytest.importorskip("zarr")
    kinds |= {"dask": da.from_array(X, chunks=(100, 2)), "zarr": zarr.array(X, chunks=(100, 2))}
    expected = RowParts(SmallArrays(), X, seed=5)
    assert expected.n_parts == 3
    for turn in range(2):
        numbers = np.concatenate([expected.part(3 * turn + part)[0] for part in range(3)])
        np.testing.assert_array_equal(np.sort(numbers), np.arange(450))
    for name, rows in kinds.items():
        numbers, part = RowParts(SmallArrays(), rows, seed=5).part(4)
        np.testing.assert_array_equal(numbers, expected.part(4)[0], err_msg=name)
        np.testing.assert_array_equal(part, X[numbers], err_msg=name)
        np.testing.assert_array_equal(read_rows(rows, np.array([3, 44, 449])), X[[3, 44, 449]], err_msg=name)
