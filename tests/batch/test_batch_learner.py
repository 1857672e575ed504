"""The base class of batch learners, with a learner that does nothing but count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from mahala import Pairs
from mahala.batch.batch_learner import BatchLearner
from mahala.batch.run import IterationParams
from mahala.learner import LabelledRows


@dataclass(eq=False, repr=False, kw_only=True)
class Counter(IterationParams, BatchLearner):
    """Learns the weights 1, 2, ... of as many iterations; the error says when to fail."""

    max_iter: int = 3
    error: object = None

    def _learn(self, data, run):
        self.data = data
        warm = run.warm
        n = 0.0 if warm is None else warm["w"][0]
        for _ in range(self.max_iter):
            n += 1.0
            if run.step(-n, {"w": np.full(data.X.shape[1], n)}):
                return "callback"
            if self.error is not None:
                raise self.error
        return "max_iter"


def test_a_fit_records_its_iterations(labelled):
    X, y = labelled
    learner = Counter().fit(X, y)
    assert (learner.n_iter_, learner.objective_, learner.stop_reason_) == (3, -3.0, "max_iter")
    assert learner.objectives_.tolist() == [-1.0, -2.0, -3.0]
    np.testing.assert_array_equal(learner.feature_importances_, np.full(5, 3.0))
    assert Counter(warm_start=True).fit(X, y).fit(X, y).feature_importances_[0] == 6.0
    assert learner.fit(X, y).feature_importances_[0] == 3.0
    with pytest.raises(NotFittedError):
        Counter()._learned("w")


@pytest.mark.parametrize(("error", "n_iter"), [(KeyboardInterrupt(), 1), (RuntimeError("no"), None)])
def test_only_an_interrupt_leaves_a_model(labelled, error, n_iter):
    learner = Counter(error=error)
    with pytest.raises(type(error)):
        learner.fit(*labelled)
    assert getattr(learner, "n_iter_", None) == n_iter
    assert getattr(learner, "stop_reason_", None) == ("interrupted" if n_iter else None)


def test_rows_arrive_dense_in_the_dtype_that_holds_their_squares(labelled):
    X, y = labelled
    for given, dtype in (
        (X, np.float64),
        (X.astype(np.float32), np.float32),
        ((1e25 * X).astype(np.float32), np.float64),
        (np.rint(X).astype(int), np.float64),
        (sp.csr_array(X.astype(np.float32)), np.float32),
    ):
        data = Counter().fit(given, y).data
        assert isinstance(data, LabelledRows)
        assert data.X.dtype == dtype
        np.testing.assert_allclose(data.X, given.toarray() if sp.issparse(given) else given)
        np.testing.assert_array_equal(data.codes, y)


def test_what_it_does_not_learn_from(labelled):
    X, y = labelled
    with pytest.raises(TypeError, match="Counter learns from labelled rows, got Pairs"):
        Counter().fit(Pairs.from_labels(X, y, 10))
    with pytest.raises(ValueError, match="y has one class; Counter needs rows of at least two"):
        Counter().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="tol must be a number of at least 0, got -1"):
        Counter(tol=-1).fit(X, y)
