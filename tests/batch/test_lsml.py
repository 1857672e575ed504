"""LSML against its objective in a loop, another solver, and input that is out to break it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from mahala import MahalanobisMetric, Quadruplets
from mahala.batch import LSML
from reference.lsml import objective


def drawn(n=40, d=3, seed=0, scale=1.0):
    """Rows and quadruplets of them at random; some rows are the same."""
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(20, d)) * np.arange(1, d + 1)
    X[-2:] = X[0]
    return Quadruplets(X, *rng.integers(20, size=(4, n)))


def as_array(quadruplets):
    return np.stack([quadruplets.X[getattr(quadruplets, name)] for name in Quadruplets._names], axis=1)


def priors(d):
    A = np.random.default_rng(1).normal(size=(d, d))
    return {"identity": ("identity", np.eye(d)), "metric": (MahalanobisMetric(A @ A.T), A @ A.T)}


@pytest.mark.parametrize(("prior", "gamma"), [("identity", 0.1), ("metric", 1.0), ("identity", 30.0)])
def test_it_converges_to_what_another_solver_finds(prior, gamma):
    quadruplets, (given, M0) = drawn(), priors(3)[prior]
    array, weights = as_array(quadruplets), np.random.default_rng(2).uniform(0.5, 2.0, size=40)
    learner = LSML(given, gamma=gamma, tol=1e-9).fit(quadruplets, weights=weights)
    M = learner.get_mahalanobis_matrix()
    assert learner.stop_reason_ == "converged"
    assert learner.objective_ == pytest.approx(objective(M, M0, array, gamma, weights), rel=1e-9)
    corner = np.tril_indices(3)

    def value(entries):
        root = np.zeros((3, 3))
        root[corner] = entries
        return objective(root @ root.T + 1e-12 * np.eye(3), M0, array, gamma, weights)

    best = minimize(value, np.linalg.cholesky(M0)[corner], method="BFGS", options={"gtol": 1e-7})
    assert learner.objective_ <= best.fun + 1e-7
    assert learner.objective_ == pytest.approx(best.fun, rel=1e-4)


def test_weights_count_quadruplets():
    quadruplets = drawn()
    counts = np.random.default_rng(0).integers(1, 4, size=40)
    repeated = LSML(tol=1e-10).fit(quadruplets[np.repeat(np.arange(40), counts)])
    weighted = LSML(tol=1e-10).fit(quadruplets, weights=counts)
    np.testing.assert_allclose(weighted.get_mahalanobis_matrix(), repeated.get_mahalanobis_matrix(), rtol=1e-4)
    with pytest.raises(ValueError, match="weights must be 40 positive numbers"):
        LSML().fit(quadruplets, weights=-counts)
    with pytest.raises(ValueError, match="weights must be None with class labels"):
        LSML().fit(quadruplets.X, np.arange(20) % 2, weights=counts)


@pytest.mark.filterwarnings("ignore:LSML learned nothing")  # from rows in a tiny unit
@given(
    seed=st.integers(0, 1000), n=st.integers(1, 30), d=st.integers(1, 25), gamma=st.sampled_from([1e-3, 1.0, 1e6]),
    scale=st.sampled_from([1e-43, 1e-10, 1.0, 1e20, 1e42]),
)  # fmt: skip
def test_the_metric_stays_definite_whatever_is_asked_for(seed, n, d, gamma, scale):
    learner = LSML(gamma=gamma, max_iter=30).fit(drawn(n, d, seed, scale))
    values = np.linalg.eigvalsh(learner.get_mahalanobis_matrix())
    assert values[0] > 0.0
    assert np.isfinite(learner.objectives_).all()
    assert (np.diff(learner.objectives_) <= 1e-9 * np.abs(learner.objectives_[:-1])).all()


def test_what_is_in_order_already_changes_nothing():
    quadruplets = Quadruplets([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]], [0], [1], [0], [2])
    learner = LSML().fit(quadruplets)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), np.eye(2), atol=1e-6)
    assert learner.score(quadruplets) == 1.0
    assert learner.predict_comparisons(quadruplets).tolist() == [1]


def test_labels_and_arrays(labelled):
    X, y = labelled
    rows = Quadruplets.from_labels(X, y, 50, random_state=0)
    assert (y[rows.near_left] == y[rows.near_right]).all()
    assert (y[rows.far_left] != y[rows.far_right]).all()
    one, other = LSML().fit(rows), LSML().fit(as_array(rows))
    np.testing.assert_allclose(one.get_mahalanobis_matrix(), other.get_mahalanobis_matrix(), atol=1e-3)
    assert len(Quadruplets.from_labels(X, y, random_state=0)) == 180
    assert len(Quadruplets.from_labels(X[:3], [0, 0, 1], random_state=0)) == 1
    with pytest.raises(ValueError, match="every row is alone in its class"):
        Quadruplets.from_labels(X[:3], [0, 1, 2])
    with pytest.raises(ValueError, match="y must be None with quadruplets"):
        LSML().fit(rows, y)
