"""What LEGO and RDML share: streams in the span of the rows, cycles, limits of memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import mahala
from mahala import LEGO, Pairs
from mahala.online import RDML
from mahala.online.state import definite
from mahala.online.state.definite import coordinates, span_is_cheaper

LEARNERS = [LEGO(eta=0.5, similar_target=0.5, dissimilar_target=4.0), LEGO(eta=1e-3), RDML(eta=0.05)]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=repr)


def wide_rows(rng, kind, n=20, d=60):
    """Fewer rows than features, kind and unkind."""
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    if kind == "low rank":
        X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) / np.sqrt(d)
    elif kind == "duplicates":
        X[n // 2 :] = X[rng.integers(0, n // 2, size=n - n // 2)]
    elif kind == "zero rows":
        X[rng.random(n) < 0.5] = 0.0
    elif kind == "offset":
        X += 1e4 * rng.normal(size=d)
    elif kind == "outlier":
        X[0] *= 30.0
    elif kind == "one row":
        X[:] = X[0]
    return X


KINDS = ["plain", "low rank", "duplicates", "zero rows", "offset", "outlier", "one row"]


def fit_both_ways(monkeypatch, learner, pairs):
    fitted = []
    for in_span in (True, False):
        monkeypatch.setattr(definite, "span_is_cheaper", lambda *args, way=in_span: way)
        fitted.append(clone(learner).fit(pairs))
    monkeypatch.undo()
    return fitted


@every_learner
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["dense", "float32", "csr"])
def test_the_span_gives_the_same_model(monkeypatch, learner, kind, form):
    rng = np.random.default_rng(0)
    X = wide_rows(rng, kind)
    X = {"dense": X, "float32": X.astype(np.float32), "csr": sp.csr_array(X)}[form]
    left, right = rng.integers(0, 20, size=(2, 300))
    pairs = Pairs(X, left, right, rng.random(300) < 0.5)
    in_span, direct = fit_both_ways(monkeypatch, learner, pairs)
    M = direct.metric_.matrix
    rtol = 1e-9 if kind in ("offset", "outlier") else 1e-10  # some differences are 1e-4 of a row, or of another
    np.testing.assert_allclose(in_span.metric_.matrix, M, rtol=0, atol=rtol * np.abs(M).max())
    np.testing.assert_array_equal(in_span._model.M, in_span._model.M.T)
    assert in_span.threshold_ == pytest.approx(direct.threshold_, rel=1e-9)
    assert in_span.n_updates_ == direct.n_updates_
    np.testing.assert_allclose(in_span.history_.tau, direct.history_.tau, rtol=1e-6, atol=1e-9)
    if kind != "one row":
        assert np.abs(M - np.eye(60)).max() > 1e-4

    # Both go on alike, in all features.
    more = Pairs(rng.normal(size=(30, 60)) / np.sqrt(60), np.arange(15), np.arange(15, 30), rng.random(15) < 0.5)
    in_span.partial_fit(more)
    direct.partial_fit(more)
    M = direct.metric_.matrix
    np.testing.assert_allclose(in_span.metric_.matrix, M, rtol=0, atol=rtol * np.abs(M).max())


@every_learner
def test_a_model_from_the_span_is_saved_and_goes_on(monkeypatch, learner, tmp_path):
    rng = np.random.default_rng(1)
    pairs = Pairs(wide_rows(rng, "plain"), *rng.integers(0, 20, size=(2, 300)), rng.random(300) < 0.5)
    fitted, _ = fit_both_ways(monkeypatch, learner, pairs)
    fitted.save(tmp_path / "model.safetensors")
    resumed = mahala.load(tmp_path / "model.safetensors").partial_fit(pairs)
    fitted.partial_fit(pairs)
    np.testing.assert_array_equal(resumed.metric_.matrix, fitted.metric_.matrix)


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), n=st.integers(2, 30), sparse=st.booleans())
def test_coordinates_keep_differences_and_distances(seed, kind, n, sparse):
    rng = np.random.default_rng(seed)
    X = wide_rows(rng, kind, n, 40)
    left, right = rng.integers(0, n, size=(2, 25))
    pairs = Pairs(sp.csr_matrix(X) if sparse else X, left, right, np.ones(25, dtype=bool))
    rows = np.unique(np.concatenate([left, right]))
    inside, Q = coordinates(pairs, rows)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-13)
    V = inside.differences()
    scale = np.abs(X - np.median(X[rows], axis=0)).max(axis=1)
    accuracy = 1e-14 * n * np.maximum(scale[left], scale[right])[:, None] + 1e-300
    assert (np.abs(V @ Q.T - pairs.differences()) <= accuracy).all()
    equal = (X[left] == X[right]).all(axis=1)
    np.testing.assert_array_equal((V == 0).all(axis=1), equal)
    np.testing.assert_array_equal(inside.similar, pairs.similar)


def test_the_span_is_chosen_where_it_is_cheaper():
    assert span_is_cheaper(n_rows=1557, d=9635, n_steps=20_000, n_matrices=2)
    assert not span_is_cheaper(n_rows=1557, d=9635, n_steps=100, n_matrices=2)  # the basis alone costs more
    assert not span_is_cheaper(n_rows=500, d=400, n_steps=10**6, n_matrices=2)
    assert not span_is_cheaper(n_rows=399, d=400, n_steps=10**4, n_matrices=2)


@every_learner
def test_many_features_and_few_rows_from_labels(learner):
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1, 2], 12)
    X = np.zeros((36, 1000))
    X[:, :200] = rng.normal(size=(36, 200)) / 20
    X[np.arange(36), y] += 0.5
    fitted = clone(learner).set_params(n_pairs=500, random_state=0).fit(sp.csr_matrix(X), y)
    assert fitted.metric_.matrix.shape == (1000, 1000)
    values = np.linalg.eigvalsh(fitted.metric_.matrix)
    assert values[0] > 0
    assert np.count_nonzero(np.abs(values - 1) > 1e-9) <= 36


@every_learner
def test_steps_beyond_the_pairs_go_round_again(monkeypatch, learner, labelled):
    X, y = labelled
    pairs = Pairs.from_labels(X / 4, y, 100, random_state=0)
    monkeypatch.setattr(definite, "BLOCK_BYTES", 64 * 5 * 8)  # several chunks a cycle
    cycles = clone(learner).set_params(n_steps=270).fit(pairs)
    monkeypatch.undo()
    assert cycles.n_steps_ == len(cycles.history_) == 270
    np.testing.assert_array_equal(cycles.history_.y, np.resize(pairs.y, 270))
    expected = clone(learner).fit(pairs).partial_fit(pairs).partial_fit(pairs[:70])
    np.testing.assert_allclose(cycles.metric_.matrix, expected.metric_.matrix, rtol=0, atol=1e-10)
    assert clone(learner).set_params(n_steps=7).fit(pairs).n_steps_ == 7


@every_learner
def test_a_matrix_beyond_all_memory_is_refused(learner):
    X = sp.csr_matrix(([1.0, 2.0, 3.0], ([0, 1, 2], [0, 5, 7])), shape=(4, 10**7))
    fresh = clone(learner)
    with pytest.raises(MemoryError, match="10000000 features"):
        fresh.fit(X, [0, 0, 1, 1])
    assert not hasattr(fresh, "n_steps_")
