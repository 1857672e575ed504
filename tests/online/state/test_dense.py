from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import mahala
from mahala import AROMA, OASIS, OGD, SORS, AdaSORS, Triplets
from mahala.online.state.dense import csr_rows
from reference import online_triplets as reference


@given(arrays(np.float64, st.tuples(st.integers(0, 5), st.integers(1, 20)), elements=st.sampled_from([0.0, -0.0, 1.5])))
def test_rows_are_scipys(X):
    expected = sp.csr_array(X)
    expected.eliminate_zeros()
    indptr, columns, values = csr_rows(X)
    assert (indptr.dtype, columns.dtype, values.dtype) == (np.int64, np.int32, np.float64)
    np.testing.assert_array_equal(indptr, expected.indptr)
    np.testing.assert_array_equal(columns, expected.indices)
    np.testing.assert_array_equal(values, expected.data)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "learner", [OASIS(), OGD(average=True), SORS(), AdaSORS(), AROMA(), AROMA(covariance="diagonal")], ids=repr
)
def test_a_short_stream_calls_no_kernel(learner, sparse, monkeypatch):
    """Nothing is compiled, or loaded, for a fit of a small table to few triplets."""
    X, y = np.random.default_rng(0).normal(size=(178, 13)), np.arange(178) % 3

    def refuse(*arguments):
        raise AssertionError("a kernel is called")

    for kernel in ("lazy_dense.stream", "gram.stream", "aroma.stream_full"):
        monkeypatch.setattr(f"mahala.compiled.triplets.{kernel}", refuse)
    learner.set_params(n_triplets=3500).fit(sp.csr_array(X) if sparse else X, y)
    learner.partial_fit(Triplets(X, [0], [3], [1])).learn_one(X[0], X[3], X[1])
    assert learner.n_updates_ > 0


def test_a_file_with_late_thresholds_goes_on_in_numpy(monkeypatch, tmp_path):
    """It may be of a version with fewer steps in NumPy."""
    rng = np.random.default_rng(0)
    X, numbers = rng.normal(size=(9, 5)), rng.integers(0, 9, (3, 80))
    triplets, path = Triplets(X, *numbers), tmp_path / "stream.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr("mahala.online.state.dense.most_steps", lambda work: 0)
        SORS(0.1, lam=0.05, average=True).partial_fit(triplets[:40]).save(path)
    stream = mahala.load(path).partial_fit(triplets[40:])
    _, mean, _ = reference.sors([X[list(each)] for each in numbers.T], np.eye(5), 0.1, 0.05, False)
    np.testing.assert_allclose(stream.metric_.matrix, mean, rtol=0, atol=1e-12)
