"""Steps in blocks are the steps one by one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mahala import AROMA, OASIS, SORS, AdaSORS, Triplets
from mahala.compiled.triplets import dense_blocks as kernels
from mahala.online.state import dense as dense_state
from reference import online_triplets as reference

pytestmark = pytest.mark.usefixtures("as_published")

TAKES_BLOCKS = dense_state.takes_blocks  # before it is patched

LEARNERS = {
    "SORS-I": SORS(eta=0.3, lam=1e-3),
    "SORS-II": SORS(eta=0.3, lam=0.1, penalty="offdiagonal"),
    "AdaSORS-I": AdaSORS(eta=0.1, lam=1e-2, delta=0.5),
    "AdaSORS-II": AdaSORS(eta=0.1, lam=1e-3, delta=0.1, penalty="offdiagonal"),
    "OASIS": OASIS(C=0.1),
    "AROMA": AROMA(r=1.0, covariance="diagonal"),
}


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    """Blocks of which a small problem has several, for all but short streams."""
    monkeypatch.setattr(dense_state, "BLOCK", 24)
    monkeypatch.setattr(dense_state, "takes_blocks", lambda planes, layout, chunk: len(chunk.y) >= 16)


def some_triplets(n=200, d=70, e=None, seed=0):
    """Triplets of rows of which some are zero; among them the same ones again, and ones without a difference."""
    rng = np.random.default_rng(seed)
    X, items = (rng.normal(size=(40, size)) * (rng.random((40, size)) < 0.6) / 5.0 for size in (d, e or d))
    X[3] = items[5] = 0.0
    anchor, positive, negative = rng.integers(0, 40, size=(3, n))
    positive[n // 2 : n // 2 + 10], negative[20] = positive[n // 2], positive[20]
    return Triplets(X, anchor, positive, negative, items=items if e else None)


def fitted(learner, triplets, **changed):
    return type(learner)(**learner.get_params() | {"storage": "dense"} | changed).fit(triplets)


def one_by_one(monkeypatch):
    return monkeypatch.setattr(dense_state, "takes_blocks", lambda *_: False)


@pytest.mark.parametrize("name", LEARNERS)
def test_blocks_are_steps_one_by_one(name, monkeypatch):
    triplets = some_triplets()
    learner = fitted(LEARNERS[name], triplets)
    one_by_one(monkeypatch)
    plain = fitted(LEARNERS[name], triplets)
    assert 0 < plain.n_updates_ < len(triplets)
    np.testing.assert_array_equal(learner.history_.tau != 0.0, plain.history_.tau != 0.0)
    np.testing.assert_allclose(learner.history_.p, plain.history_.p, atol=1e-12)
    np.testing.assert_allclose(_full(learner), _full(plain), atol=1e-12)


def _full(learner):
    matrix = learner.metric_.matrix
    return matrix.toarray() if sp.issparse(matrix) else matrix


@pytest.mark.parametrize(("penalty", "exempt"), [("l1", False), ("offdiagonal", True)])
def test_blocks_are_the_papers_steps(penalty, exempt):
    triplets = some_triplets(seed=1)
    rows = [tuple(triplets.X[i] for i in one) for one in np.stack(_numbers(triplets), axis=1)]
    sors = fitted(SORS(eta=0.3, lam=1e-2, penalty=penalty), triplets)
    np.testing.assert_allclose(_full(sors), reference.sors(rows, np.eye(70), 0.3, 1e-2, exempt)[0], atol=1e-12)
    ada = fitted(AdaSORS(eta=0.2, lam=1e-2, delta=0.5, penalty=penalty), triplets)
    expected = reference.adasors(rows, np.eye(70), 0.2, 1e-2, 0.5, exempt)[0]
    np.testing.assert_allclose(_full(ada), expected, atol=1e-12)


def _numbers(triplets):
    return triplets.anchor, triplets.positive, triplets.negative


@pytest.mark.parametrize("name", LEARNERS)
def test_float32_and_items_of_other_features(name, monkeypatch):
    triplets = some_triplets(e=50, seed=2) if "-II" not in name and name != "AROMA" else some_triplets(seed=2)
    init = "zero" if triplets.items is not None else "identity"
    learner = fitted(LEARNERS[name], triplets, dtype="float32", init=init)
    one_by_one(monkeypatch)
    exact = fitted(LEARNERS[name], triplets, init=init)
    np.testing.assert_allclose(_full(learner), _full(exact), atol=2e-6)


@pytest.mark.parametrize("name", ["SORS-II", "AdaSORS-I", "AROMA"])
def test_blocks_and_single_steps_take_turns(name, monkeypatch):
    """A stream in parts has blocks, and single steps where a part is short."""
    triplets = some_triplets(seed=3)
    parts = [slice(0, 60), slice(60, 63), slice(63, 64), slice(64, 200)]
    learner = fitted(LEARNERS[name], triplets[parts[0]])
    for part in parts[1:]:
        learner.partial_fit(triplets[part])
    one_by_one(monkeypatch)
    np.testing.assert_allclose(_full(learner), _full(fitted(LEARNERS[name], triplets)), atol=1e-12)


def test_more_columns_than_a_tile_has(monkeypatch):
    triplets = some_triplets(n=40, d=kernels.TILE + 40)
    learner = fitted(LEARNERS["SORS-II"], triplets)
    one_by_one(monkeypatch)
    plain = fitted(LEARNERS["SORS-II"], triplets)
    assert plain.n_updates_ > 10
    np.testing.assert_allclose(learner.history_.p, plain.history_.p, atol=1e-10)
    np.testing.assert_allclose(_full(learner), _full(plain), atol=1e-12)


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(dense_state, "n_threads", lambda work: 3)
    shared = _full(fitted(LEARNERS["SORS-I"], some_triplets()))
    monkeypatch.setattr(dense_state, "n_threads", lambda work: 1)
    np.testing.assert_array_equal(shared, _full(fitted(LEARNERS["SORS-I"], some_triplets())))


def test_large_numbers_in_float32_are_left_to_single_steps(monkeypatch):
    monkeypatch.setattr(dense_state, "FAR", 0)
    monkeypatch.setattr(dense_state, "takes_blocks", TAKES_BLOCKS)
    triplets = some_triplets()
    large = Triplets(1e9 * triplets.X, *_numbers(triplets))
    learner = fitted(AdaSORS(eta=0.1, lam=1e-6), large, dtype="float32")
    assert np.isfinite(_full(learner)).all()
    assert learner.n_updates_ > 0


def test_blocks_are_for_dense_rows_and_large_matrices():
    few, many = np.empty((30, 2, 30)), np.empty((400, 2, 400))
    sors, averaged, adaptive = (2, False, False), (3, False, True), (3, True, False)
    assert dense_state.may_take_blocks(20_000, many, sors)
    assert not dense_state.may_take_blocks(2_000, many, sors)
    assert not dense_state.may_take_blocks(20_000, many, averaged)
    assert not dense_state.may_take_blocks(900, few, sors)
    large = np.zeros((2_000, 3, 2_000), dtype=np.float32)
    assert dense_state.may_take_blocks(1e6, large, adaptive)
    assert not dense_state.may_take_blocks(1e6, large.astype(np.float64), adaptive)
