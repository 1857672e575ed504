"""PSDBoost against the plain objective, SciPy's minimiser, and the bound that proves it best."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from mahala.batch import psd_boost
from mahala.batch.psd_boost import PSDBoost, _weights, mean_of_worst
from mahala.batch.triplets import label_triplets
from reference.boosting import matrices, soft_margin_objective
from strategies import triplet_sets


def margins_of(triplets, M):
    A = matrices(triplets.X, triplets.anchor, triplets.positive, triplets.negative)
    return np.einsum("rij,ij->r", A, M), A


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.floats(0.01, 1.0))
def test_mean_of_worst_is_the_best_soft_margin(seed, n, nu):
    margins = np.random.default_rng(seed).integers(-3, 4, size=n).astype(float)
    assert -mean_of_worst(margins, nu * n) == pytest.approx(soft_margin_objective(margins, nu), abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 60), st.sampled_from([0.02, 0.3, 0.77, 1.0]))
def test_weights_are_those_of_the_whole_program(seed, n_rows, n, nu):
    """The primal over all triplets at once: max ρ - C Σ ξ with ρ - ξ ≤ wᵀH, Σ w = 1."""
    rng = np.random.default_rng(seed)
    gains = rng.normal(size=(n_rows, n)) * rng.choice([1.0, 1e-4], size=n)
    C = 1.0 / (nu * n)
    whole = linprog(
        np.concatenate([np.zeros(n_rows), [-1.0], np.full(n, C)]),
        A_ub=np.hstack([-gains.T, np.ones((n, 1)), -np.eye(n)]),
        b_ub=np.zeros(n),
        A_eq=np.concatenate([np.ones(n_rows), np.zeros(n + 1)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n_rows + [(None, None)] + [(0, None)] * n,
    )
    first = psd_boost.FIRST_TRIPLETS
    psd_boost.FIRST_TRIPLETS = 1 - 2 * n_rows  # so that triplets must be let in
    try:
        w, u = _weights(gains, nu * n, np.full(n_rows, 1.0 / n_rows))
    finally:
        psd_boost.FIRST_TRIPLETS = first
    assert w.sum() == pytest.approx(1.0)
    assert w.min() >= 0.0
    assert -mean_of_worst(w @ gains, nu * n) == pytest.approx(whole.fun, abs=1e-6)
    # What the weights of the triplets prove: no w has a larger margin.
    assert u.sum() == pytest.approx(1.0)
    assert u.min() >= 0.0
    assert u.max() <= C * (1 + 1e-6)
    assert (gains @ u).max() == pytest.approx(-whole.fun, abs=1e-6)


@given(triplet_sets(), st.sampled_from([0.05, 0.3, 1.0]))
def test_objective_of_any_triplets(triplets, nu):
    assume(np.ptp(triplets.X, axis=0).any())
    learner = PSDBoost(nu=nu, max_iter=10, shrinkage=0).fit(triplets)
    M = learner.metric_.matrix
    margins, A = margins_of(triplets, M)
    slack = (1e-9 if triplets.X.dtype == np.float64 else 1e-4) * (np.abs(A).max() + 1e-300)
    assert learner.objective_ == pytest.approx(soft_margin_objective(margins, nu), abs=slack)
    assert np.trace(M) == pytest.approx(1.0)
    assert np.all(np.diff(learner.objectives_) <= slack)
    assert learner.gap_ >= 0.0


def test_gap_bounds_every_other_matrix(labelled):
    """No matrix of trace one is better by more than the gap: neither SciPy's best LᵀL, nor at random."""
    X, y = labelled[0][:, :3], labelled[1]
    triplets = label_triplets(X, y, 2)
    learner = PSDBoost(n_neighbors=2, max_iter=300, tol=1e-4).fit(X, y)
    assert learner.stop_reason_ == "converged"
    assert learner.gap_ <= 1e-4 * abs(learner.objective_) * (1 + 1e-9)
    _, A = margins_of(triplets, np.eye(3))

    def objective(values):
        L = values.reshape(3, 3)
        M = L.T @ L
        return -mean_of_worst(np.einsum("rij,ij->r", A, M / np.trace(M)), 0.3 * len(A))

    rng = np.random.default_rng(0)
    found = [objective(rng.normal(size=9)) for _ in range(300)]
    runs = [minimize(objective, rng.normal(size=9), method="Nelder-Mead", options={"maxiter": 4000}) for _ in range(3)]
    best = min(found + [run.fun for run in runs])
    assert best >= learner.objective_ - learner.gap_ - 1e-9
    assert best == pytest.approx(learner.objective_, rel=1e-2)


def test_nu_one_is_the_leading_eigenvector(labelled):
    X, y = labelled
    learner = PSDBoost(nu=1.0).fit(X, y)
    _, A = margins_of(label_triplets(X, y, 3), np.eye(5))
    assert (learner.stop_reason_, learner.n_iter_) == ("converged", 1)
    assert -learner.objective_ == pytest.approx(np.linalg.eigvalsh(A.mean(axis=0))[-1])


def test_scale_of_x_does_not_matter(labelled):
    X, y = labelled
    expected = PSDBoost(max_iter=8).fit(X, y)
    for factor in (2.0**-140, 2.0**140):
        found = PSDBoost(max_iter=8).fit(X * factor, y)
        assert found.objectives_ / factor**2 == pytest.approx(expected.objectives_, rel=1e-6)
        assert found.metric_.matrix == pytest.approx(expected.metric_.matrix, abs=1e-6)


def test_stop_reasons(labelled, monkeypatch):
    X, y = labelled
    assert PSDBoost(max_iter=2).fit(X, y).stop_reason_ == "max_iter"
    stopped = PSDBoost(callback=lambda iteration: iteration.number == 2).fit(X, y)
    assert (stopped.stop_reason_, stopped.n_iter_) == ("callback", 2)
    monkeypatch.setattr(psd_boost, "_weights", lambda gains, n_worst, guess: None)
    failed = PSDBoost().fit(X, y)
    assert (failed.stop_reason_, failed.n_iter_) == ("precision", 1)
    margins, _ = margins_of(label_triplets(X, y, 3), failed.metric_.matrix)
    assert failed.objective_ == pytest.approx(soft_margin_objective(margins, 0.3))


def test_equal_rows_hold_nothing_to_learn_from():
    with pytest.raises(ValueError, match="X must have rows that differ"):
        PSDBoost().fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1])


def test_warm_start_goes_on(labelled):
    X, y = labelled
    learner = PSDBoost(max_iter=4, warm_start=True).fit(X, y)
    before = learner.objective_
    learner.fit(X, y)
    assert learner.objectives_[0] <= before + 1e-9
    assert learner.objective_ < before
    learner.set_params(max_iter=200).fit(X, y)
    assert learner.stop_reason_ == "converged"
    reached = learner.objective_
    learner.fit(X, y)
    assert (learner.stop_reason_, learner.n_iter_) == ("converged", 1)
    assert learner.objective_ == pytest.approx(reached, rel=1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be an integer"),
        ({"nu": 0.0}, "nu must be a number above 0 and at most 1"),
        ({"nu": 1.5}, "nu must be a number above 0 and at most 1"),
        ({"tol": -1.0}, "tol must be a number of at least 0"),
    ],
)
def test_bad_parameters(params, message, labelled):
    with pytest.raises(ValueError, match=message):
        PSDBoost(**params).fit(*labelled)


def test_rows_alone_in_their_class():
    X = np.arange(6.0).reshape(3, 2)
    with pytest.raises(ValueError, match="every row is alone in its class"):
        PSDBoost().fit(X, [0, 1, 2])
    assert PSDBoost().fit(np.vstack([X, X + 0.1]), [0, 1, 2, 0, 3, 4]).metric_.matrix.any()


def test_save_and_load(labelled, tmp_path):
    X, y = labelled
    learner = PSDBoost(max_iter=5, warm_start=True).fit(X, y)
    learner.save(tmp_path / "learner")
    loaded = PSDBoost.load(tmp_path / "learner")
    assert loaded.gap_ == learner.gap_
    assert loaded.fit(X, y).objectives_.tolist() == learner.fit(X, y).objectives_.tolist()


def test_a_share_below_one_triplet_is_the_worst_triplet():
    X, y = np.array([[0.0], [1.0], [3.0], [3.5], [7.0]]), [0, 0, 1, 1, 0]
    smallest, worst = (PSDBoost(nu=nu).fit(X, y) for nu in (1e-300, 1e-9))
    np.testing.assert_array_equal(smallest.metric_.matrix, worst.metric_.matrix)
