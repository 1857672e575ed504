"""SDML against its objective in a loop, other solvers, and pairs for which there is no minimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import graphical_lasso

import mahala
from contract.learners import rewritten
from mahala import MahalanobisMetric, Pairs
from mahala.batch import SDML
from mahala.support.model_files import ModelFileError
from reference.sdml import objective


def drawn(n=40, d=4, seed=0, share=0.6, scale=1.0):
    """Pairs at random, of features of different scales, a share of which are similar."""
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(20, d)) @ rng.normal(size=(d, d))
    return Pairs(X, *rng.integers(20, size=(2, n)), rng.random(n) < share)


def matrix_of(pairs, prior, balance):
    """The P whose graphical lasso is SDML."""
    v = pairs.differences()
    return np.linalg.inv(prior) + balance * (v.T * pairs.y) @ v


def is_minimum(M, P, sparsity):
    """Whether 0 is a subgradient: P - M⁻¹ is 0 on the diagonal, and minus the slope of the penalty elsewhere."""
    slope, off = (P - np.linalg.inv(M)) / np.abs(P).max(), sparsity * (1.0 - np.eye(len(M))) / np.abs(P).max()
    at_zero = np.abs(slope) <= off + 1e-4
    return np.where(M != 0.0, np.abs(slope + off * np.sign(M)) < 1e-4, at_zero).all()


@pytest.mark.parametrize("sparsity", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_it_finds_the_minimum(share, sparsity):
    pairs, A = drawn(share=share), np.random.default_rng(1).normal(size=(4, 4))
    prior = A @ A.T + np.eye(4)
    learner = SDML(sparsity, prior=MahalanobisMetric(prior)).fit(pairs)
    M, balance = learner.get_mahalanobis_matrix(), learner.balance_
    assert learner.stop_reason_ == "converged"
    assert learner.objective_ == pytest.approx(objective(M, prior, pairs, balance, sparsity), rel=1e-9, abs=1e-9)
    assert is_minimum(M, matrix_of(pairs, prior, balance), sparsity)


@pytest.mark.parametrize("seed", [0, 2])
def test_it_finds_what_scikit_learn_finds(seed):
    pairs = drawn(seed=seed)
    learner = SDML(0.1).fit(pairs)
    _, other = graphical_lasso(matrix_of(pairs, np.eye(4), learner.balance_), alpha=0.1, tol=1e-6)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), other, atol=1e-3)
    assert learner.objective_ <= objective(other, np.eye(4), pairs, learner.balance_, 0.1) + 1e-7


def test_an_indefinite_matrix_may_have_a_minimum():
    pairs, sparsity = drawn(share=0.3, seed=3), 3.0
    balance = 2.2 * SDML(sparsity).fit(pairs).balance_  # P is definite below 2 times that of "auto"
    P = matrix_of(pairs, np.eye(4), balance)
    assert np.linalg.eigvalsh(P)[0] < 0.0
    learner = SDML(sparsity, balance=balance).fit(pairs)
    assert learner.stop_reason_ == "converged"
    assert is_minimum(learner.get_mahalanobis_matrix(), P, sparsity)


@pytest.mark.parametrize("sparsity", [0.0, 0.01])
def test_without_a_minimum_it_says_which_balance_has_one(sparsity):
    with pytest.raises(ValueError, match=r"balance must be smaller for these pairs, got 0\.5: .* below 0\.0") as error:
        SDML(sparsity, balance=0.5).fit(drawn(share=0.3))
    bound = float(str(error.value).split("below ")[1].split()[0])
    assert SDML(sparsity, balance=0.99 * bound).fit(drawn(share=0.3)).stop_reason_ == "converged"


def test_sparsity_empties_m():
    pairs = drawn(d=6)
    counts = [np.count_nonzero(SDML(lam).fit(pairs).get_mahalanobis_matrix()) for lam in (0.0, 0.05, 10.0)]
    assert counts[0] == 36 > counts[1] > counts[2] == 6


@given(
    seed=st.integers(0, 1000), n=st.integers(1, 30), d=st.integers(1, 25), share=st.sampled_from([0.0, 0.5, 1.0]),
    sparsity=st.sampled_from([0.0, 0.01, 10.0]), scale=st.sampled_from([1e-43, 1e-10, 1.0, 1e20, 1e42]),
)  # fmt: skip
def test_the_metric_stays_definite_whatever_is_asked_for(seed, n, d, share, sparsity, scale):
    learner = SDML(sparsity, max_iter=50).fit(drawn(n, d, seed, share, scale))
    assert learner.metric_.is_psd
    assert np.isfinite(learner.objectives_).all()
    assert (np.diff(learner.objectives_) <= 1e-9 * np.abs(learner.objectives_[:-1]) + 1e-12).all()


def test_priors(labelled):
    X, y = labelled
    constant = np.column_stack([X, np.full(len(X), 3.0)])
    learner = SDML(prior="covariance", random_state=0).fit(constant, y)
    assert not learner.get_mahalanobis_matrix()[-1].any()
    assert learner.score(constant, y) > 0.7
    partial = MahalanobisMetric(np.diag([1.0, 1.0, 1.0, 1.0, 0.0]))
    assert not SDML(prior=partial, random_state=0).fit(X, y).get_mahalanobis_matrix()[-1].any()
    with pytest.raises(ValueError, match="prior must be positive definite"):
        SDML(prior=MahalanobisMetric(np.ones((5, 5)))).fit(X, y)


def test_a_file_without_its_balance_is_refused(labelled, tmp_path):
    learner = SDML(random_state=0).fit(*labelled)
    learner.save(tmp_path / "model.safetensors")
    assert mahala.load(tmp_path / "model.safetensors").balance_ == learner.balance_
    with pytest.raises(ModelFileError):
        mahala.load(rewritten(tmp_path / "model.safetensors", arrays={"model.balance": None}))
