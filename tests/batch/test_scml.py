"""SCML against its objective in a loop, a linear program, and what its bases promise."""

from __future__ import annotations

import numpy as np
import pytest

import mahala
from contract.learners import rewritten
from mahala import Triplets
from mahala.batch import SCML
from mahala.batch.scml import _discriminants, _local_discriminants, _triplet_differences
from mahala.support.model_files import ModelFileError
from reference.scml import minimum, objective


def drawn(labelled, n=80):
    return Triplets.from_labels(*labelled, n, random_state=0)


@pytest.mark.parametrize("beta", [1e-5, 1e-2, 0.3])
def test_it_finds_the_minimum_of_the_linear_program(labelled, beta):
    triplets, bases = drawn(labelled), np.random.default_rng(0).normal(size=(30, 5))
    learner = SCML(beta, bases=bases, tol=1e-5, max_iter=10_000).fit(triplets)
    assert learner.stop_reason_ == "converged"
    assert learner.objective_ == pytest.approx(minimum(triplets, bases, beta), rel=2e-3)
    assert learner.objective_ == pytest.approx(objective(learner.basis_weights_, triplets, learner.bases_, beta))
    assert len(learner.bases_) < 20
    expected = (learner.bases_.T * learner.basis_weights_) @ learner.bases_
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), expected, atol=1e-9 * expected.max())


def test_units_of_the_rows_change_the_penalty_only(labelled):
    triplets, bases = drawn(labelled), np.eye(5)
    one = SCML(1e-2, bases=bases, tol=1e-4).fit(triplets)
    other = SCML(1e-2 * 1e8, bases=bases, tol=1e-4).fit(triplets.over(1e4 * triplets.X))
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    np.testing.assert_allclose(1e8 * other.get_mahalanobis_matrix(), one.get_mahalanobis_matrix(), rtol=1e-4)


def test_discriminants_are_those_of_lda(labelled):
    X, y = labelled
    L = mahala.LDA().fit(X, y).components_
    expected = L / np.linalg.norm(L, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs(_discriminants(X, y) @ expected.T).max(axis=1), 1.0, atol=1e-9)
    bases = _local_discriminants(X, y, 37, np.random.default_rng(0))
    assert bases.shape == (37, 5)
    np.testing.assert_allclose(np.linalg.norm(bases, axis=1), 1.0)


def test_differences_of_triplets_point_to_far_rows(labelled):
    triplets = drawn(labelled)
    X, rng = triplets.X, np.random.default_rng(0)
    bases = _triplet_differences(triplets[:5], 3, rng)  # as many as features: all are chosen each time
    near, far = (X[triplets.anchor[:5]] - X[side[:5]] for side in (triplets.positive, triplets.negative))
    assert (np.square(far @ bases.T).sum(axis=0) > np.square(near @ bases.T).sum(axis=0)).all()
    with pytest.raises(ValueError, match="the far rows of triplets must differ"):
        SCML().fit(Triplets(X, [0], [1], [0]))


def test_what_it_refuses(labelled):
    X, y = labelled
    triplets = drawn(labelled)
    with pytest.raises(ValueError, match="'lda' needs class labels"):
        SCML(bases="lda").fit(triplets)
    for wrong in (np.ones((3, 4)), np.ones(5), np.full((3, 5), np.nan), np.array([["a"] * 5])):
        with pytest.raises(ValueError, match=r"bases must be an array of finite numbers of shape \(n_bases, 5\)"):
            SCML(bases=wrong).fit(X, y)
    with pytest.raises(ValueError, match="beta must be smaller for rows that differ by"):
        SCML(1e6).fit(X, y)


def test_files_keep_the_bases(labelled, tmp_path):
    path = tmp_path / "model.safetensors"
    learner = SCML(bases=np.random.default_rng(0).normal(size=(30, 5))).fit(*labelled)
    learner.save(path)
    loaded = mahala.load(path)
    np.testing.assert_array_equal(loaded.bases_, learner.bases_)
    np.testing.assert_array_equal(loaded.basis_weights_, learner.basis_weights_)
    np.testing.assert_array_equal(loaded.bases, learner.bases)
    for arrays in ({"model.basis_weights": -learner.basis_weights_}, {"model.bases": None}):
        with pytest.raises(ModelFileError):
            mahala.load(rewritten(path, arrays=arrays))
