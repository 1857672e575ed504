import numpy as np
import pytest

from mahala.engine.inputs import as_rows, computed
from mahala.engine.moments import extremes, sum_over_rows
from mahala.support.validation import is_chunked

da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'mahala[dask]'")

X = np.arange(40.0).reshape(10, 4)


def test_rows_are_in_chunks_of_known_lengths_that_are_not_empty():
    rows = da.from_array(X, chunks=(3, 2))
    assert as_rows(rows).chunks == ((3, 3, 3, 1), (4,))
    some = as_rows(rows[da.from_array(np.arange(10) // 3 != 1, chunks=3)])
    assert some.chunks == ((3, 3, 1), (4,))
    np.testing.assert_array_equal(some.compute(), X[np.arange(10) // 3 != 1])
    with pytest.raises(ValueError, match="X must have 2 axes, got a Dask array with 1"):
        as_rows(rows[0])


def test_values_that_are_not_of_dask_stay_as_they_are():
    given = X.max(axis=0)
    assert computed(given) is given
    assert not is_chunked(X)
    assert is_chunked(da.from_array(X))
    one, other = computed(da.from_array(X).sum(), 3)
    assert (one, other) == (X.sum(), 3)


def test_sums_over_parts_and_extremes():
    rows = da.from_array(X, chunks=(1, -1))
    weights = np.arange(10)
    np.testing.assert_array_equal(sum_over_rows(lambda part, own: own @ part, rows, weights), weights @ X)
    low, high = extremes(rows)
    assert (low.tolist(), high.tolist()) == (X[0].tolist(), X[-1].tolist())
