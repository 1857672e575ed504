from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mahala.online.state.dense import csr_rows


@given(arrays(np.float64, st.tuples(st.integers(0, 5), st.integers(1, 20)), elements=st.sampled_from([0.0, -0.0, 1.5])))
def test_rows_are_scipys(X):
    expected = sp.csr_array(X)
    expected.eliminate_zeros()
    indptr, columns, values = csr_rows(X)
    assert (indptr.dtype, columns.dtype, values.dtype) == (np.int64, np.int32, np.float64)
    np.testing.assert_array_equal(indptr, expected.indptr)
    np.testing.assert_array_equal(columns, expected.indices)
    np.testing.assert_array_equal(values, expected.data)
