"""The sums of every engine against their definition, and a learner on every engine against one thread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import mahala
from engine.devices import ENGINES, torch, without_torch
from mahala.batch.triplets import target_neighbors
from mahala.compiled.sums import pair_sums
from mahala.engine import current_engine
from mahala.engine.cores import Cores
from mahala.support.parameters import config_context
from reference import lmnn as reference
from strategies import labelled_rows

SCALES = st.sampled_from([0.01, 1.0, 30.0])


def placed(engine, Z):
    with config_context(engine=engine):
        own = current_engine()
    return own, own.place(Z)


def near(value, expected, Z):
    np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-9 * (1.0 + np.abs(Z).max() ** 2) * len(Z))


def all_differences(Z):
    return Z[:, None] - Z[None]


@pytest.mark.parametrize("engine", ENGINES)
@given(case=labelled_rows(max_n=20, max_d=4), scale=SCALES)
def test_softmax_is_its_definition(engine, case, scale):
    Z, codes = case[0] * scale, case[1]
    own, rows = placed(engine, Z)
    distances = np.square(all_differences(Z)).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    p = np.exp(distances.min(axis=1, keepdims=True) - distances)
    p /= p.sum(axis=1, keepdims=True)
    same = codes[:, None] == codes
    hits = (p * same).sum(axis=1)
    W = p * (hits[:, None] - same)
    total, pull = own.softmax(rows, codes)
    near(total, hits.sum(), Z)
    near(own.fetch(pull), ((W + W.T)[:, :, None] * all_differences(Z)).sum(axis=1), Z)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("share", "few_pairs"), [(1, 0), (10**9, 10**9)], ids=["few", "many"])
@given(
    case=labelled_rows(max_n=20, max_d=4), scale=SCALES, cutoff=st.sampled_from([1.0, np.inf]), weighted=st.booleans()
)
def test_sums_over_pairs_are_their_definitions(engine, share, few_pairs, case, scale, cutoff, weighted):
    Z, codes = case[0] * scale, case[1]
    w = np.random.default_rng(0).uniform(0.1, 3.0, size=len(Z)) if weighted else None
    both = np.ones((len(Z), len(Z))) if w is None else np.outer(w, w)
    own, rows = placed(engine, Z)
    d = np.sqrt(np.square(all_differences(Z)).sum(axis=2))
    other = codes[:, None] != codes
    counted = other & (d < cutoff)
    weights = both * np.where(counted & (d > 0.0), -1.0 / np.where(d > 0.0, d, 1.0) + 1.0, 0.0)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("mahala.compiled.sums.pair_sums", *(["mahala.engine.torch.device"] if torch else [])):
            patch.setattr(f"{module}.SPARSE_SHARE", share)
        patch.setattr(pair_sums, "FEW_PRODUCTS", 0)
        patch.setattr(pair_sums, "FEW_PAIRS", few_pairs)
        total, pull = own.between(rows, codes, (1.0, -2.0, 1.0, cutoff), w)
    # Products leave a distance of √eps of their size between rows that coincide.
    rounding = 1e-7 * (1.0 + np.abs(Z).max()) * len(Z) ** 2
    np.testing.assert_allclose(total, (both * np.square(1.0 - d))[counted].sum() / 2.0, rtol=1e-7, atol=9 * rounding)
    # A distance that is nearly the cutoff may be on either side of it, with a pull of nearly zero for a cutoff of 1.
    near(own.fetch(pull), (weights[:, :, None] * all_differences(Z)).sum(axis=1), Z)
    total, pull = own.within(rows, codes, w)
    near(total, (both * np.square(d))[~other].sum() / 2.0, Z)
    near(own.fetch(pull), ((both * ~other)[:, :, None] * all_differences(Z)).sum(axis=1), Z)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["softmax", "between", "hinges"])
@pytest.mark.parametrize("scale", [0.01, 0.1, 0.5])
def test_shares_of_a_sum_are_the_whole(engine, dtype, name, scale):
    X, codes = load_digits(return_X_y=True)
    codes = codes[:300]
    own, Z = placed(engine, ((X - X.mean(axis=0))[:300, 2:20] * scale).astype(dtype))
    if name == "hinges" and engine != "cpu":
        pytest.skip("the workers of a cluster compute hinges on their cores")
    compute = {
        "softmax": own.softmax,
        # No two rows lie on the cutoff: rounding would decide on which side.
        "between": lambda Z, codes, rows=None: own.between(Z, codes, (1.0, -2.0, 1.0, 2.001), rows=rows),
        "hinges": lambda Z, codes, rows=None: own.hinges(codes, *target_neighbors(Z, codes, 2), 0.7)(Z, 0.01, rows),
    }[name]
    *values, pull = compute(Z, codes)
    shares = [compute(Z, codes, rows=rows) for rows in (slice(0, 1), slice(1, 90), slice(90, 300))]
    # What the rounding of squared distances, which are differences of squared norms, may add to a sum of them.
    tol = 300 * float(np.finfo(dtype).eps) * max(1.0, float((own.fetch(Z) ** 2).sum(axis=1).max()))
    for value, *parts in zip(values, *(share[:-1] for share in shares), strict=True):
        assert sum(parts) == pytest.approx(value, rel=tol)
    pull, found = own.fetch(pull), sum(own.fetch(share[-1]) for share in shares)
    np.testing.assert_allclose(found, pull, rtol=0.0, atol=tol * max(np.abs(pull).max(), 1.0))


@pytest.mark.parametrize("engine", ENGINES)
@given(case=labelled_rows(max_n=20, max_d=4), scale=SCALES)
def test_hinges_are_their_definition(engine, case, scale):
    Z, codes = case[0] * scale, case[1]
    if np.bincount(codes).max() < 2:
        return
    own, rows = placed(engine, Z)
    pairs = reference.targets(Z, codes, 2)
    triplets = reference.triplets(pairs, codes)
    smooth, plain, pull = own.hinges(codes, *target_neighbors(Z, codes, 2), 0.3)(rows, 0.01)
    expected, gradient = reference.rounded_objective(Z, pairs, triplets, 0.3, 0.01)
    near(smooth, expected, Z)
    near(plain, reference.objective(Z, pairs, triplets, 0.3), Z)
    near(own.fetch(pull), gradient, 100.0 * Z)


@pytest.mark.parametrize("engine", ENGINES)
@given(case=labelled_rows(max_n=20, max_d=4), k=st.integers(1, 4), seed=st.integers(0, 100))
def test_neighbours_and_edges_are_their_definitions(engine, case, k, seed):
    X, codes = case
    own, _ = placed(engine, X)
    n, rng = len(X), np.random.default_rng(seed)
    distances = np.square(all_differences(X)).sum(axis=2)
    order = np.lexsort((np.broadcast_to(np.arange(n), (n, n)), distances), axis=-1)
    if k <= n:
        numbers, squared = own.nearest(X, X, k)
        np.testing.assert_array_equal(numbers, order[:, :k])
        np.testing.assert_allclose(squared, np.take_along_axis(distances, order[:, :k], axis=1))
    rows = rng.permutation(n)[: max(1, n // 2)]
    for found, same in zip(own.nearest_by_class(X, codes, rows, k, k), (True, False), strict=True):
        for row, its in zip(rows, found.tolist(), strict=True):
            wanted = [j for j in order[row].tolist() if j != row and (codes[j] == codes[row]) == same][:k]
            assert its == wanted + [n] * (k - len(wanted))
    left, right = rng.integers(0, n, size=(2, 10))
    weights = rng.normal(size=10)
    v = X[left] - X[right]
    scatter = (weights[:, None] * v).T @ v
    vector = own.edge_graph(X, left, right)(weights)
    assert np.linalg.norm(vector) == pytest.approx(1.0)
    size = 1.0 + float(np.abs(scatter).max())
    assert vector @ scatter @ vector == pytest.approx(np.linalg.eigvalsh(scatter)[-1], abs=1e-9 * size)


LEARNERS = [
    mahala.NCA(4, max_iter=5, random_state=0),
    mahala.GML(max_iter=5),
    mahala.GML(diagonal=True, max_iter=5),
    mahala.MMC(max_iter=5),
    mahala.LMNN(max_iter=8),
    mahala.BoostMetric(max_iter=5),
    mahala.batch.Relief(),
]


@pytest.mark.filterwarnings("ignore:.* found a metric mostly along one direction")  # after so few iterations
@pytest.mark.parametrize("engine", [pytest.param("three threads"), *ENGINES[1:]])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: repr(learner)[:20])
def test_a_learner_learns_the_same_on_every_engine(learner, engine):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300, 2:40], y[:300]
    with config_context(n_threads=1):
        expected = mahala.MahalanobisMetric(learner.fit(X, y).metric_.matrix).pairwise(X[:20])
    with config_context(n_threads=3) if engine == "three threads" else config_context(engine=engine):
        found = learner.fit(X, y)
    assert isinstance(found.metric_.matrix, np.ndarray)
    np.testing.assert_allclose(found.metric_.pairwise(X[:20]), expected, rtol=1e-5, atol=1e-6 * expected.max())


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_threads_change_rounding_only_and_always_in_the_same_way(threads, dtype, monkeypatch):
    monkeypatch.setattr("mahala.compiled.threads.DISPATCH", 1)
    X, y = load_digits(return_X_y=True)
    rows = (np.hstack([X, X[:, ::-1], X])[:700] * 0.1).astype(dtype)
    codes, engine = y[:700], Cores()
    sums = {
        "softmax": lambda: engine.softmax(rows, codes),
        "narrow softmax": lambda: engine.softmax(rows[:, :30].copy(), codes),
        "between": lambda: engine.between(rows, codes, (1.0, -2.0, 1.0, 20.0)),
        "within": lambda: engine.within(rows, codes),
        "nearest": lambda: engine.nearest(rows, rows, 3)[::-1],
    }
    for name, compute in sums.items():
        with config_context(n_threads=1):
            alone = compute()
        with config_context(n_threads=threads):
            together, again = compute(), compute()
        for value, expected, same in zip(together, alone, again, strict=True):
            np.testing.assert_array_equal(value, same, err_msg=name)
            size = np.abs(expected).max()
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5 * size, err_msg=name)


@without_torch
def test_tensors_are_rows_and_are_answered_in_kind():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, labels = torch.as_tensor(X, device=device), torch.as_tensor(y, device=device)
    for learner in (mahala.NCA(2, max_iter=3, random_state=0), mahala.RCA(), mahala.PA("I", random_state=0)):
        expected = learner.fit(X, y).transform(X)
        found = learner.fit(rows, labels).transform(rows)
        assert isinstance(found, torch.Tensor)
        assert found.device == rows.device
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
        assert isinstance(learner.metric_.matrix, np.ndarray)
        assert learner.score(rows, labels) == pytest.approx(learner.score(X, y))
    assert mahala.knn_error(None, rows, labels).at(3) == mahala.knn_error(None, X, y).at(3)


@without_torch
def test_a_device_that_runs_out_of_memory_takes_smaller_blocks(monkeypatch):
    from mahala.engine.torch.device import TorchDevice

    engine = TorchDevice("torch-cpu")
    X, y = load_digits(return_X_y=True)
    whole = engine.softmax(engine.place(X), y)
    tried, never = [], []
    rows_per_block = TorchDevice.rows_per_block

    def failing(self, n, Z):
        tried.append(self.block_bytes)
        if len(tried) < 4 or never:
            raise torch.OutOfMemoryError("of the test")
        return rows_per_block(self, n, Z)

    monkeypatch.setattr(TorchDevice, "rows_per_block", failing)
    again = engine.softmax(engine.place(X), y)
    assert len(tried) == 4
    assert tried == sorted(tried, reverse=True)
    assert again[0] == pytest.approx(whole[0], rel=1e-12)
    never.append(True)
    with pytest.raises(MemoryError, match="do not fit into the memory of the device cpu"):
        engine.softmax(engine.place(X), y)


@without_torch
def test_a_search_that_runs_out_of_memory_leaves_no_old_pairs(monkeypatch):
    from mahala.engine.torch.device import TorchDevice

    X, y = load_digits(return_X_y=True)
    X, y = X[:200] * 0.05, y[:200]
    edges = target_neighbors(X, y, 3)
    engine = TorchDevice("torch-cpu")
    kept, failures = engine.hinges(y, *edges, 0.5), []
    heads = kept._search.heads

    def failing(Z):
        if len(failures) % 2 == 1:
            failures.append(1)
            raise torch.OutOfMemoryError("of the test")
        failures.append(0)
        return heads(Z)

    monkeypatch.setattr(kept._search, "heads", failing)
    for scale in (1.0, 1.0001, 1.0002, 3.0, 0.3, 0.30001):
        Z = X * scale
        value = kept(engine.place(Z), 0.01)[0]
        assert value == pytest.approx(Cores().hinges(y, *edges, 0.5)(Z, 0.01)[0], rel=1e-9)
    assert sum(failures) > 0


@without_torch
@pytest.mark.skipif(torch is not None and torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_named():
    with config_context(engine="cuda"), pytest.raises(ValueError, match="engine is 'cuda', but PyTorch finds no CUDA"):
        mahala.NCA().fit(np.eye(4), [0, 0, 1, 1])


@pytest.mark.skipif(torch is not None, reason="PyTorch is installed")
def test_without_pytorch_the_extra_is_named():
    with config_context(engine="cuda"), pytest.raises(ImportError, match=r"needs PyTorch: pip install 'mahala\[gpu\]'"):
        mahala.NCA().fit(np.eye(4), [0, 0, 1, 1])
