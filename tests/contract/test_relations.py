"""How a metric changes with its data: features and rows in another order, other classes, rotations and units."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import mahala
from contract.learners import parametrize
from contract.relations import LEARNERS, relations
from mahala import MahalanobisMetric
from mahala.batch import LSML, SDML
from mahala.metric import Scales, UnitRows

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 5)) + 2.0 * np.eye(3, 5)[Y]


@parametrize(LEARNERS)
def test_a_metric_follows_its_data(learner):
    for what, got, expected, near in relations(learner, X, Y, np.random.default_rng(1)):
        assert got == pytest.approx(expected, rel=0, abs=near * float(np.abs(expected).max())), what


@pytest.mark.parametrize(
    "learner",
    [
        *(mahala.ITML(max_iter=3), mahala.LogisticMetric(lam=0.1, max_iter=3), LSML(max_iter=3), SDML(balance=1e-3)),
        *(mahala.PA(psd="end"), mahala.NCA(max_iter=2), mahala.GML(diagonal=True, max_iter=2)),
    ],
    ids=repr,
)
def test_a_metric_to_start_from_may_have_scales(learner):
    """Scales and a matrix learn what the matrix in units of the features does; directions cannot be learned from."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    A, scales = rng.normal(size=(3, 3)), np.array([0.5, 2.0, 3.0])
    name = "prior" if "prior" in learner.get_params() else "init"
    M = np.diag([1.0, 2.0, 3.0]) if "diagonal" in learner.get_params() else A.T @ A + np.eye(3)
    metrics = MahalanobisMetric(M, 1.0, steps=[Scales(scales)]), MahalanobisMetric(M / np.outer(scales, scales), 1.0)
    one, other = (
        clone(learner).set_params(**{name: metric, "random_state": 0}).fit(X, y).metric_.matrix for metric in metrics
    )
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match=f"{name} must be a MahalanobisMetric of 3 features without"):
        clone(learner).set_params(**{name: MahalanobisMetric(M, 1.0, steps=[UnitRows()])}).fit(X, y)
