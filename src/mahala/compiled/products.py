"""The product of dense rows with a CSR matrix, summed in float64 whatever the types of its numbers and indices.

SciPy brings both sides to one type first, and would copy a large float32 matrix for a few float64 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Index = NDArray[np.signedinteger[Any]]


def multiply(rows: Floats, matrix: Any) -> Floats:
    """`rows @ matrix`, dense. Equal columns of the matrix give results that are equal to the last bit.

    >>> from scipy.sparse import csr_array
    >>> multiply(np.array([[1.0, 2.0]]), csr_array([[0.0, 3.0], [4.0, 5.0]]))
    array([[ 8., 13.]])
    """
    out = np.zeros((len(rows), matrix.shape[1]))
    _multiply(np.ascontiguousarray(rows), matrix.data, matrix.indices, matrix.indptr, out)
    return out


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _multiply(rows: Floats, data: NDArray[Any], indices: Index, indptr: Index, out: Floats) -> None:
    for i in range(rows.shape[0]):
        sums = out[i]
        for feature in range(rows.shape[1]):
            value = rows[i, feature]
            if value != 0.0:
                # Unsigned: for a signed index Numba asks each time whether it counts from the end.
                for a in range(np.uint64(indptr[feature]), np.uint64(indptr[feature + 1])):
                    sums[np.uint64(indices[a])] += value * data[a]
