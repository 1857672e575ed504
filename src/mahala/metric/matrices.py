"""The matrix M of a metric, dense or CSR: its checks, its arrays in a file, and products of rows with it."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mahala.support.arrays import (
    Arrays,
    FloatArray,
    IndexArray,
    RealArray,
    Rows,
    RowsLike,
    check_room,
    read_only,
    row_blocks,
)
from mahala.support.lazily import linalg, sp
from mahala.support.model_files import ModelFileError, array_value, finite, header_value
from mahala.support.parameters import is_count
from mahala.support.states import Field, Header
from mahala.support.validation import LARGEST_VALUE, check_valid_sparse, csr_from_arrays, is_sparse

Matrix = FloatArray | Any  # Any is a csr_array: mypy would require every user of a dense M to rule it out
# Directions as columns, their values from the largest down, and the directions of items; all read-only.
Decomposition = tuple[FloatArray, FloatArray, FloatArray]

_CSR_PARTS = ("data", "indices", "indptr")
# Distances between the largest points accepted overflow under a larger matrix.
LARGEST_ENTRY = 1e300 / LARGEST_VALUE**2
# Up to this share of the features, a rank is low.
_LOW_RANK = 0.25
# Bytes of one block of products or of scores.
BLOCK_BYTES = 16 * 2**20
# From this share of numbers that are not zero on, a product with sparse rows takes longer than with the same rows as a
# dense array, which is taken up to so many bytes.
DENSE_SHARE = 1 / 16
DENSE_BYTES = 2**30


def check_symmetric(matrix: RowsLike, may_be_empty: bool) -> FloatArray:
    """Return a symmetric M as a read-only dense float64 array."""
    raw = _real(matrix, may_be_empty)
    if raw.shape[0] != raw.shape[1]:
        raise ValueError(f"matrix must be square, got shape {raw.shape}")
    array = np.array(raw.toarray() if is_sparse(raw) else raw, dtype=np.float64, order="C")
    largest = _check_entries(array)
    if not np.array_equal(array, array.T):
        asymmetry = np.abs(array - array.T).max()
        if asymmetry > 1e-8 * largest:
            advice = "pass (M + M.T) / 2, or use BilinearMetric"
            raise ValueError(f"matrix must be symmetric, but M - Mᵀ is as large as {asymmetry:.3g}; {advice}")
        array = (array + array.T) / 2
    return read_only(array)


def check_matrix(matrix: RowsLike) -> Matrix:
    """Return a read-only M: a dense float64 array, or canonical CSR if it is sparse."""
    raw = _real(matrix)
    if not is_sparse(raw):
        array = np.array(raw, dtype=np.float64, order="C")
        _check_entries(array)
        return read_only(array)
    csr: Any = sp.csr_array(raw).astype(np.float32 if raw.dtype == np.float32 else np.float64, copy=False)
    csr.check_format()  # gives all indices one type
    if not csr.has_canonical_format or np.count_nonzero(csr.data) < csr.nnz:
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    _check_entries(csr.data)
    for part in _CSR_PARTS:  # also those given that share memory: a metric never changes
        array, given = read_only(getattr(csr, part)), getattr(raw, part, None)
        if isinstance(given, np.ndarray) and np.may_share_memory(array, given):
            read_only(given)
    return csr


def _real(matrix: RowsLike, may_be_empty: bool = False) -> Any:
    raw: Any = matrix if is_sparse(matrix) else np.asarray(matrix)
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"matrix must hold real numbers, got dtype {raw.dtype}")
    if is_sparse(raw):
        check_valid_sparse(raw, "matrix")
    if raw.ndim != 2:
        raise ValueError(f"matrix must be 2-D, got shape {raw.shape}")
    if 0 in raw.shape and not may_be_empty:
        raise ValueError(f"matrix must have at least one row and one column, got shape {raw.shape}")
    return raw


def _check_entries(values: RealArray) -> float:
    """Return the largest magnitude; raise a ValueError if it is not finite, or so large that distances overflow."""
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not math.isfinite(largest):
        raise ValueError("matrix must be finite, got NaN or infinity")
    if largest > LARGEST_ENTRY:
        raise ValueError(f"matrix must have entries up to {LARGEST_ENTRY:g}, got {largest:.3g}: distances overflow")
    return largest


def to_arrays(matrix: Matrix, name: str) -> Arrays:
    """Return a matrix, dense or CSR, as arrays for a model file."""
    if not is_sparse(matrix):
        return {name: matrix}
    return {f"{name}.{part}": getattr(matrix, part) for part in _CSR_PARTS}


class MatrixField(Field):
    """A matrix, dense or CSR, or a vector of integers, whose shape is in the header."""

    def write(self, value: Matrix, header: dict[str, object], arrays: Arrays) -> None:
        """Put the shape into the header and the parts among the arrays."""
        header["shape"] = list(value.shape)
        arrays |= to_arrays(value, self.key)

    def read(self, state: object, header: Header, arrays: Arrays) -> Matrix:
        """Return the matrix; raise ModelFileError if it is damaged."""
        name, shape = self.key, tuple(header_value(header, "shape", list))
        if len(shape) not in (1, 2) or not all(is_count(n) and n <= np.iinfo(np.int64).max for n in shape):
            found = f"found {list(shape)!r:.40}"
            raise ModelFileError(f"header entry 'shape' should be one or two lengths of at least 1, {found}")
        types = {key: array.dtype for key, array in arrays.items()}
        if f"{name}.indptr" not in arrays:
            whole = types.get(name) == np.int64
            return finite(array_value(arrays, name, np.int64 if whole else np.float64, shape), name)
        number = np.float32 if types.get(f"{name}.data") == np.float32 else np.float64
        index = np.int32 if types.get(f"{name}.indptr") == np.int32 else np.int64
        data = finite(array_value(arrays, f"{name}.data", number, (None,)), name)
        indices = array_value(arrays, f"{name}.indices", index, data.shape)
        indptr = array_value(arrays, f"{name}.indptr", index, (shape[0] + 1,))
        try:
            return csr_from_arrays(data, indices, indptr, shape, canonical=True)
        except ValueError as error:
            raise ModelFileError(f"the sparse {name} is damaged: {error}") from error


def decompose(matrix: FloatArray, symmetric: bool) -> Decomposition:
    """Decompose a dense M into eigenvectors, which stand for both sides, or into singular vectors."""
    try:
        if symmetric:
            ascending, vectors = np.linalg.eigh(matrix)
            left, values, right = vectors[:, ::-1], ascending[::-1], vectors[:, ::-1]
        else:
            left, values, rows = np.linalg.svd(matrix, full_matrices=False)
            right = rows.T
    except np.linalg.LinAlgError as error:
        raise ValueError("the decomposition of matrix does not converge: rescale the features") from error
    return _with_signs(left, values, right)


def decompose_low_rank(matrix: FloatArray) -> Decomposition | None:
    """Decompose a positive semi-definite M of low rank, without the directions whose eigenvalue is zero.

    None stands for any other matrix. A Cholesky factorisation with pivots of d features and rank r takes O(d r²).
    """
    d, largest = len(matrix), float(np.abs(matrix.diagonal()).max())
    tolerance = d * np.finfo(np.float64).eps * largest
    factor, pivots, rank, _ = linalg.lapack.dpstrf(matrix, tol=tolerance, lower=1)
    if not 0 < rank <= _LOW_RANK * d:
        return None
    L = np.empty((d, rank))
    L[pivots - 1] = np.tril(factor[:, :rank])
    if np.abs(L @ L.T - matrix).max() > tolerance:
        return None
    vectors, roots, _ = np.linalg.svd(L, full_matrices=False)
    return _with_signs(vectors, roots**2, vectors)


def _with_signs(left: FloatArray, values: FloatArray, right: FloatArray) -> Decomposition:
    """Return read-only directions: of each and its opposite, the one whose largest entry is positive."""
    signs = np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
    return read_only(left * signs), read_only(values), read_only(right * signs)


def times_matrix(rows: Rows, matrix: Matrix | None) -> FloatArray:
    """Return `rows @ matrix` as a dense array; None is the identity. The caller passes a block of rows."""
    if matrix is None:
        return _dense(rows)
    if not is_sparse(matrix):
        return np.asarray((_dense(rows) if _nearly_dense(rows) else rows) @ matrix, dtype=np.float64)
    n, d = rows.shape[0], matrix.shape[1]
    check_room(8 * n * d, None, f"X, mapped to {n} rows of {d} features,", "give fewer rows at a time")
    return _times_sparse(_dense(rows), matrix)


def map_rows(rows: Rows, L: FloatArray) -> RealArray:
    """Return `rows @ Lᵀ`, computed in float64 in blocks of rows; rows of float32 stay float32."""
    result = np.empty((rows.shape[0], len(L)), dtype=np.float32 if rows.dtype == np.float32 else np.float64)
    for block in row_blocks(rows.shape[0], rows.shape[1], BLOCK_BYTES):
        part = rows[block] if is_sparse(rows) else rows[block].astype(np.float64, copy=False)
        result[block] = in_dtype(part @ L.T, rows.dtype)
    return result


def in_dtype(mapped: Any, dtype: Any) -> Any:
    """Return what rows of a dtype are mapped to, which stays float32 if that is; raise a ValueError if it cannot."""
    if dtype != np.float32:
        return mapped
    with np.errstate(over="ignore", under="ignore"):
        result = mapped.astype(np.float32)
    if not np.isfinite(result.data if is_sparse(result) else result).all():
        raise ValueError("the rows of X must be float64, because float32 cannot hold what they are mapped to")
    return result


def similarities(x: Any, matrix: Matrix, x2: Rows) -> Any:
    """Return `xᵀ M x2` of two points, or row by row; either may be a single point."""
    if x.ndim == 1:
        return x2 @ times_matrix(x[np.newaxis], matrix)[0]
    if x2.ndim == 1 and not is_sparse(matrix):
        return x @ (matrix @ x2)
    result = np.empty(x.shape[0])
    for block in row_blocks(x.shape[0], max(matrix.shape), BLOCK_BYTES):
        product = times_matrix(x[block], matrix)
        result[block] = product @ x2 if x2.ndim == 1 else row_dots(product, x2[block])
    return result


def squared_lengths(x: Rows, x2: Rows, L: FloatArray) -> Any:
    """Return `‖L (x - x2)‖²` of two points, or row by row; either may be a single point."""
    dense = isinstance(x, np.ndarray) and isinstance(x2, np.ndarray)
    # The difference of a sparse row and a dense one is dense; the mapped rows have no more columns than L has rows.
    differences = (x - x2) @ L.T if dense else x @ L.T - x2 @ L.T
    return differences @ differences if differences.ndim == 1 else np.square(differences).sum(axis=-1)


def row_dots(others: Any, rows: Any) -> Any:
    """Return the inner product of each row with the same one of others, sparse only if the rows are; or of vectors."""
    if rows.ndim == 1:
        return others @ rows
    if is_sparse(rows):
        return np.asarray(rows.multiply(others).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", others, rows)


def score_blocks(rows: Rows, items: Rows, matrix: Matrix | None, distances: bool) -> Iterator[tuple[slice, FloatArray]]:
    """Yield blocks of rows (queries) and their scores with all items; more similar items score higher.

    The scores are the similarities `xᵀ M y`, or for distances `2 xᵀ M y - yᵀ M y`, which orders the items by their
    squared distances, for any M, at the cost of matrix products alone. Rounding is relative to the squared norms: it
    hides differences below about 1e-8 of the distances from the items to a central one of them, or to zero if they stay
    sparse. Equal items have equal scores, to the last bit.
    """
    numbers = origin = None
    width = max(items.shape[0], items.shape[1], rows.shape[1])
    if is_sparse(items) and not _nearly_dense(items):
        items_T: Any = sp.csr_array(items.T).astype(np.float64, copy=False)
    else:
        items = _dense(items)
        # The rounding of a matrix product may depend on the place of a row, so equal rows are multiplied only once.
        numbers, first = _distinct(items)
        items = items if len(first) == len(items) else items[first]
        if distances:
            # Relative to one of the items no digits are lost to a shared offset, and integers stay integers.
            centred = items - items.mean(axis=0)
            origin = items[row_dots(centred, centred).argmin()]
            items = items - origin
    norms = None
    if distances:
        blocks = row_blocks(items.shape[0], items.shape[1], BLOCK_BYTES)
        norms = np.concatenate([row_dots(times_matrix(items[block], matrix), items[block]) for block in blocks])
    for block in row_blocks(rows.shape[0], width, BLOCK_BYTES):
        product = times_matrix(rows[block] if origin is None else _dense(rows[block]) - origin, matrix)
        scores = product @ items.T if isinstance(items, np.ndarray) else _times_sparse(product, items_T)
        if norms is not None:
            scores *= 2.0
            scores -= norms
        yield block, scores if numbers is None else scores[:, numbers]


def leading(scores: FloatArray, k: int) -> IndexArray:
    """Return the columns of the k largest scores of each row, in descending order of scores; ties in column order.

    >>> leading(np.array([[1.0, 3.0, 2.0, 3.0, 2.0]]), k=3)
    array([[1, 3, 2]])
    """
    costs = -scores
    n = costs.shape[1]
    if k == n:
        return np.argsort(costs, axis=1, kind="stable")
    result = np.empty((len(costs), k), dtype=np.intp)
    border = np.partition(costs, k - 1, axis=1)[:, k - 1]
    for i, row in enumerate(costs):
        candidates = np.flatnonzero(row <= border[i])  # with all ties at the border, which the stable sort decides
        result[i] = candidates[np.argsort(row[candidates], kind="stable")[:k]]
    return result


def _distinct(items: FloatArray) -> tuple[IndexArray | None, IndexArray]:
    """The number of each row among the distinct rows (None: all are distinct), and the first row of each number."""
    seen: dict[bytes, int] = {}
    numbers = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in items], dtype=np.intp)
    first = np.unique(numbers, return_index=True)[1]
    return (None if len(first) == len(items) else numbers), first


def _times_sparse(rows: FloatArray, matrix: Rows) -> FloatArray:
    from mahala.compiled.search.products import multiply  # Numba takes longer to import than everything else here

    return multiply(rows, matrix)


def _nearly_dense(rows: Rows) -> bool:
    size = float(math.prod(rows.shape))
    return is_sparse(rows) and rows.nnz >= DENSE_SHARE * size and 8.0 * size <= DENSE_BYTES


def _dense(rows: Rows) -> FloatArray:
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)
