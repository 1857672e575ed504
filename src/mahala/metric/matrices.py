"""The matrix M of a metric, dense or CSR: what it may be, its arrays in a file, and products of rows with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mahala.compiled.products import multiply
from mahala.support.model_files import ModelFileError, array_value
from mahala.support.params import is_count
from mahala.support.validation import LARGEST_VALUE, is_sparse

FloatArray = NDArray[np.float64]
Matrix = FloatArray | Any  # Any is a csr_array, which mypy would have every user of a dense M tell apart

# Between points as large as are accepted, distances under a larger matrix overflow.
LARGEST_ENTRY = 1e300 / LARGEST_VALUE**2
# The most memory of one block of products or of scores.
BLOCK_BYTES = 16 * 2**20


def check_matrix(matrix: Any, kind: str, dimension: int | None) -> Matrix:
    """A read-only M: float64 and dense, or canonical CSR where it is sparse and bilinear.

    `dimension` is the number of kernel coordinates on which it acts, None without a kernel.
    """
    sparse = is_sparse(matrix) and kind == "bilinear"
    raw: Any = matrix if is_sparse(matrix) else np.asarray(matrix)
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"matrix must hold real numbers, got dtype {raw.dtype}")
    if raw.ndim != 2 or (kind == "mahalanobis" and raw.shape[0] != raw.shape[1]):
        shape = "square" if kind == "mahalanobis" else "2-D"
        raise ValueError(f"matrix must be {shape} where kind={kind!r}, got shape {raw.shape}")
    if dimension is None and 0 in raw.shape:
        raise ValueError(f"matrix must have at least one row and one column, got shape {raw.shape}")
    if dimension is not None and raw.shape[0] != dimension:
        raise ValueError(
            f"matrix must have a row for each of the {dimension} coordinates of kernel_map, got shape {raw.shape}"
        )
    array: Any
    if sparse:
        array = _canonical(raw)
    else:
        array = np.array(raw.toarray() if is_sparse(raw) else raw, dtype=np.float64, order="C")
    values = array.data if sparse else array
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not math.isfinite(largest):
        raise ValueError("matrix must be finite, got NaN or infinity")
    if largest > LARGEST_ENTRY:
        raise ValueError(f"matrix must have entries up to {LARGEST_ENTRY:g}, got {largest:.3g}: distances overflow")
    if kind == "mahalanobis" and not np.array_equal(array, array.T):
        asymmetry = np.abs(array - array.T).max()
        if asymmetry > 1e-8 * largest:
            raise ValueError(
                f"matrix must be symmetric where kind='mahalanobis', but M - Mᵀ is as large as {asymmetry:.3g}; "
                "pass (M + M.T) / 2, or kind='bilinear'"
            )
        array = (array + array.T) / 2
    if sparse:
        _freeze(array, raw)
    else:
        array.flags.writeable = False
    return array


def _canonical(matrix: Any) -> Any:
    """CSR with sorted indices, no duplicates and no zeros, in float32 or float64; shares memory where it can."""
    try:
        csr: Any = sp.csr_array(matrix, dtype=np.float32 if matrix.dtype == np.float32 else np.float64)
        csr.check_format(full_check=True)  # what is compiled trusts the indices
    except ValueError as error:
        raise ValueError(f"matrix must be a valid sparse matrix: {error}") from error
    if not csr.has_canonical_format or np.count_nonzero(csr.data) < csr.nnz:
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return csr


def _freeze(csr: Any, given: Any) -> None:
    """Make the arrays read-only, and those given with which they share memory: a metric never changes."""
    for name in ("data", "indices", "indptr"):
        own, other = getattr(csr, name), getattr(given, name, None)
        own.flags.writeable = False
        if isinstance(other, np.ndarray) and np.may_share_memory(own, other):
            other.flags.writeable = False


def csr_arrays(matrix: Any) -> dict[str, NDArray[Any]]:
    """A CSR matrix as the arrays of a model file."""
    return {"matrix.data": matrix.data, "matrix.indices": matrix.indices, "matrix.indptr": matrix.indptr}


def csr_from_arrays(arrays: Mapping[str, NDArray[Any]], shape: list[Any]) -> Any:
    """The matrix that `csr_arrays` took apart; a ModelFileError where the parts do not fit together."""
    if len(shape) != 2 or not all(is_count(n) and n <= np.iinfo(np.int64).max for n in shape):
        raise ModelFileError(f"header entry 'shape' should be two lengths of at least 1, found {str(shape)[:40]}")
    types = {key: array.dtype for key, array in arrays.items()}
    number = np.float32 if types.get("matrix.data") == np.float32 else np.float64
    index = np.int32 if types.get("matrix.indptr") == np.int32 else np.int64
    data = array_value(arrays, "matrix.data", number, (None,))
    indices = array_value(arrays, "matrix.indices", index, data.shape)
    indptr = array_value(arrays, "matrix.indptr", index, (shape[0] + 1,))
    if indptr[-1] != len(data):
        raise ModelFileError(f"array 'matrix.indptr' should end with the {len(data)} entries, found {indptr[-1]}")
    try:
        matrix: Any = sp.csr_array((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ModelFileError(f"the sparse matrix is damaged: {error}") from error
    if not matrix.has_canonical_format:
        raise ModelFileError("array 'matrix.indices' should be sorted within each row, without duplicates")
    return matrix


def row_blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Slices of rows, so many at a time that float64 rows of this width stay within BLOCK_BYTES."""
    step = max(1, BLOCK_BYTES // (8 * max(width, 1)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def times_matrix(rows: Any, matrix: Matrix | None) -> FloatArray:
    """`rows @ matrix` as a dense array; None is the identity. The caller takes few rows at a time."""
    if matrix is None:
        return _dense(rows)
    return multiply(_dense(rows), matrix) if is_sparse(matrix) else np.asarray(rows @ matrix, dtype=np.float64)


def map_rows(rows: Any, L: FloatArray) -> NDArray[Any]:
    """`rows @ Lᵀ` through float64, some rows at a time; rows of float32 stay float32."""
    result = np.empty((rows.shape[0], len(L)), dtype=np.float32 if rows.dtype == np.float32 else np.float64)
    for block in row_blocks(*rows.shape):
        part = rows[block] if is_sparse(rows) else rows[block].astype(np.float64, copy=False)
        result[block] = part @ L.T
    return result


def row_dots(product: FloatArray, rows: Any) -> FloatArray:
    """The inner product of each row of a dense array with the same row of another, dense or CSR."""
    if is_sparse(rows):
        return np.asarray(rows.multiply(product).sum(axis=1), dtype=np.float64).ravel()
    result: FloatArray = np.einsum("ij,ij->i", product, rows)
    return result


def score_blocks(rows: Any, items: Any, matrix: Matrix | None, distances: bool) -> Iterator[tuple[slice, FloatArray]]:
    """Scores of rows (queries) × items, some rows at a time: which ones, and theirs. The larger, the more similar.

    They are the similarities `xᵀ M y`, or for distances `2 xᵀ M y - yᵀ M y`, which puts the items in the order of
    their squared distances at the cost of matrix products alone, whatever M is. Rounding is relative to the squared
    norms: it hides differences of distances below about 1e-8 of the distances from dense items to one amidst them,
    of sparse items to zero. Items that are equal have equal scores, to the last bit.
    """
    numbers = origin = None
    width = max(items.shape[0], items.shape[1], rows.shape[1])
    if is_sparse(items):
        items_T: Any = sp.csr_array(items.T, dtype=np.float64)
    else:
        items = _dense(items)
        # What a matrix product makes of a row may depend on its place: of equal rows only one is multiplied.
        numbers, first = _distinct(items)
        items = items if len(first) == len(items) else items[first]
        if distances:
            # Around one of the items no digits are lost to an offset that all share, and whole numbers stay whole.
            centred = items - items.mean(axis=0)
            origin = items[row_dots(centred, centred).argmin()]
            items = items - origin
    norms = _quadratic_forms(items, matrix) if distances else None
    for block in row_blocks(rows.shape[0], width):
        product = times_matrix(rows[block] if origin is None else _dense(rows[block]) - origin, matrix)
        scores = multiply(product, items_T) if is_sparse(items) else product @ items.T
        if norms is not None:
            scores *= 2.0
            scores -= norms
        yield block, scores if numbers is None else scores[:, numbers]


def _distinct(items: FloatArray) -> tuple[NDArray[np.intp] | None, NDArray[np.intp]]:
    """The number of each row among the different ones (None: all differ), and the first row of each number."""
    seen: dict[bytes, int] = {}
    numbers = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in items], dtype=np.intp)
    first = np.unique(numbers, return_index=True)[1]
    return (None if len(first) == len(items) else numbers), first


def _quadratic_forms(items: Any, matrix: Matrix | None) -> FloatArray:
    result = np.empty(items.shape[0])
    for block in row_blocks(items.shape[0], items.shape[1]):
        result[block] = row_dots(times_matrix(items[block], matrix), items[block])
    return result


def _dense(rows: Any) -> FloatArray:
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)
