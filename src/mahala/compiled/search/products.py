"""The product of dense rows with a CSR matrix, summed in float64 whatever the dtypes of the matrix.

SciPy converts both operands to one dtype first, and would copy a large float32 matrix for a few float64 rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.jit import kernel
from mahala.support.arrays import FloatArray, RealArray

Index = NDArray[np.signedinteger[Any]]


def multiply(rows: FloatArray, matrix: Any) -> FloatArray:
    """Return `rows @ matrix` as a dense array. Equal columns of the matrix give bit-identical results.

    >>> from scipy.sparse import csr_array
    >>> multiply(np.array([[1.0, 2.0]]), csr_array([[0.0, 3.0], [4.0, 5.0]]))
    array([[ 8., 13.]])
    """
    out = np.zeros((len(rows), matrix.shape[1]))
    _multiply(np.ascontiguousarray(rows), matrix.data, matrix.indices, matrix.indptr, out)
    return out


@kernel
def _multiply(rows: FloatArray, data: RealArray, indices: Index, indptr: Index, out: FloatArray) -> None:
    for i in range(rows.shape[0]):
        sums = out[i]
        for feature in range(rows.shape[1]):
            value = rows[i, feature]
            if value != 0.0:
                # Unsigned, because Numba checks every signed index for counting from the end.
                for a in range(np.uint64(indptr[feature]), np.uint64(indptr[feature + 1])):
                    sums[np.uint64(indices[a])] += value * data[a]
