"""Checks of data: each error names the argument, what is wrong with it and what would be right."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mahala.support.arrays import FloatArray, IndexArray, RealArray, RowsLike, SignArray
from mahala.support.lazily import sklearn_checks, sp
from mahala.support.parameters import is_count, is_number

# The update rules need ‖v‖⁶ (see `compiled/psd.py`), which must not overflow; no metric can be learned at such a scale.
LARGEST_VALUE = 1e45
# What holds several labels of one row.
COLLECTIONS = (set, frozenset, list, tuple, np.ndarray)

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from scipy.sparse import csr_array
    from torch import Tensor

    from mahala.support.lazily import BaseEstimator

_ADVICE = "mahala.data.TablePreprocessor converts text and missing values to numbers"
_LARGEST_SQUARE = LARGEST_VALUE**2
_FLOAT64, _FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)


def is_sparse(X: object) -> TypeGuard[csr_array]:
    """Whether X is a sparse matrix or array of SciPy; there is none before its module is imported."""
    return type(X) is not np.ndarray and "scipy.sparse" in sys.modules and bool(sp.issparse(X))


def is_chunked(X: object) -> TypeGuard[DaskArray]:
    """Whether X is an array, data frame, series or bag in chunks that are computed later."""
    return hasattr(type(X), "__dask_graph__")


def is_tensor(X: object) -> TypeGuard[Tensor]:
    """Whether X is a tensor, which may be on another device than the processor."""
    return hasattr(type(X), "detach") and hasattr(type(X), "cpu")


def to_numpy(X: object) -> Any:
    """Return a tensor as an array of NumPy, which shares its memory if it is on the processor; others unchanged.

    A LazyFrame of Polars is collected.
    """
    if type(X).__name__ == "LazyFrame" and hasattr(X, "collect"):
        return X.collect()
    return X.detach().cpu().numpy() if is_tensor(X) else X


def check_rows(X: RowsLike, name: str = "X") -> Any:
    """Return X as a finite 2-D numeric array (dense, memory-mapped or CSR) in its own dtype, not copied if possible."""
    if _is_valid(X, 2):
        return X
    if is_chunked(X):
        advice = f"give NumPy rows, such as {name}[:10_000].compute(); docs/scale.md says what runs on rows in chunks"
        raise TypeError(f"{name} is of Dask, whose rows are not gathered here: {advice}")
    X = to_numpy(X)
    with _naming(X, name):
        rows = _floats(sklearn_checks.check_array(X, accept_sparse="csr", dtype="numeric", input_name=name), name)
    check_scale(rows, name)
    if is_sparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
        check_scale(rows, name)
    return rows


def check_features(estimator: BaseEstimator, X: RowsLike, *, reset: bool, at_least: int = 1) -> Any:
    """Return rows as `check_rows` does; their features are those of the estimator, or with `reset` become them."""
    X = to_numpy(X)
    with _naming(X, "X"):
        X = sklearn_checks.validate_data(
            estimator, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_min_samples=at_least
        )
        X = _floats(X, "X")
    return check_scale(X)


def _floats(X: Any, name: str) -> Any:
    """Return the result of a check of numbers; what it left as objects, such as a None in a list, as checked floats."""
    if X.dtype.kind == "O":
        X = sklearn_checks.check_array(X, accept_sparse="csr", dtype=np.float64, input_name=name)
    if X.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got {X.dtype}")
    return X


@contextmanager
def _naming(X: object, name: str) -> Iterator[None]:
    """Name the argument in errors of scikit-learn's checks of X, which would take what is masked as it is."""
    if _is_masked(X):
        raise ValueError(f"{name} must hold a number in each place, got a masked array; fill or remove what is masked")
    if is_sparse(X):
        check_valid_sparse(X, name)  # before another form of it is made, by compiled code
    try:
        with np.errstate(all="ignore"):  # scikit-learn adds up all values first, in their own type
            yield
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        message = str(error) if re.search(rf"\b{name}\b", str(error)) else f"{name}: {error}"
        if re.search("contains NaN|convert string|arrays of bytes", message):
            # What follows the first line names other estimators.
            message = f"{message.splitlines()[0].rstrip('.')}; {_ADVICE}"
        raise kind(message) from error


def _is_masked(X: object) -> bool:
    return isinstance(X, np.ma.MaskedArray) and bool(np.ma.is_masked(X))


def csr_from_arrays(
    data: RealArray, indices: IndexArray, indptr: IndexArray, shape: Sequence[int], *, canonical: bool = False
) -> csr_array:
    """Return the CSR matrix of arrays from a file; raise a ValueError unless they fit together, and are canonical."""
    if not data.ndim == indices.ndim == indptr.ndim == 1 or len(shape) != 2 or len(indptr) != int(shape[0]) + 1:
        raise ValueError("data, indices and indptr should be vectors, and indptr one longer than shape has rows")
    if indptr[-1] != len(data):  # SciPy would cut off what is beyond the end
        raise ValueError(f"indptr should end with the {len(data)} entries, found {indptr[-1]}")
    matrix = sp.csr_array((data, indices, indptr), shape=(shape[0], shape[1]))
    check_sparse(matrix)
    if canonical and not matrix.has_canonical_format:
        raise ValueError("indices should be sorted within each row, without duplicates")
    return matrix


def check_sparse(matrix: Any) -> None:
    """Raise a ValueError unless the arrays of a sparse matrix fit together; compiled code, SciPy's too, trusts them."""
    if matrix.format == "dok":
        matrix = matrix.tocoo()
    if matrix.format == "dia" and not (matrix.data.ndim == 2 and len(matrix.data) == len(matrix.offsets)):
        raise ValueError(f"it has {len(matrix.offsets)} diagonals, but data of shape {matrix.data.shape}")
    if matrix.format == "lil" and not (
        len(matrix.rows) == len(matrix.data) == matrix.shape[0]
        and all(len(columns) == len(values) for columns, values in zip(matrix.rows, matrix.data, strict=True))
    ):
        raise ValueError("each row should have as many indices as values")
    if matrix.format == "coo":
        for index, length in zip(matrix.coords, matrix.shape, strict=True):
            if len(index) and not 0 <= index.min() <= index.max() < length:
                raise ValueError(f"its indices should be from 0 to {length - 1}, found {index.min()} to {index.max()}")
    if hasattr(matrix, "indptr"):
        lengths = np.floor_divide((1, *matrix.shape)[-2:], getattr(matrix, "blocksize", 1)).tolist()
        n_rows, n_columns = reversed(lengths) if matrix.format == "csc" else lengths
        if matrix.data.ndim != (3 if matrix.format == "bsr" else 1) or matrix.indices.dtype.kind not in "iu":
            raise ValueError(f"data of shape {matrix.data.shape} with indices of {matrix.indices.dtype} do not fit it")
        if len(matrix.indptr) != n_rows + 1:
            raise ValueError(f"indptr should have {n_rows + 1} numbers, found {len(matrix.indptr)}")
        check_index_arrays(matrix.indptr, matrix.indices, len(matrix.data), n_columns)


def check_index_arrays(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], n_entries: int, n_columns: int
) -> None:
    """Raise a ValueError unless indptr counts up from 0 to the number of entries and every index is that of a column.

    Compiled code, SciPy's too, trusts these arrays, and SciPy's `check_format` passes over those that end with 0 or
    less.
    """
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any() or not indptr[-1] == n_entries == len(indices):
        raise ValueError(f"indptr should count up from 0 to the {n_entries} entries")
    if n_entries and not 0 <= indices.min() <= indices.max() < n_columns:
        raise ValueError(f"indices should be from 0 to {n_columns - 1}, found {indices.min()} to {indices.max()}")


def _is_valid(X: object, ndim: int) -> TypeGuard[RealArray]:
    """Whether X is surely valid; False means that it needs the full checks, which take a hundred times as long."""
    if type(X) is not np.ndarray or X.ndim != ndim or X.size == 0 or X.dtype not in (_FLOAT64, _FLOAT32):
        return False
    if ndim > 1:
        if not (X.flags.c_contiguous or X.flags.f_contiguous):
            return False  # its values could not be read as one vector without a copy
        X = X.ravel(order="K")
    # It is NaN or infinite if a value is. Unlike dot, vdot does not warn of that.
    return float(np.vdot(X, X)) <= _LARGEST_SQUARE


def stacked_vectors(*vectors: Any) -> FloatArray | None:
    """Return valid vectors of float64 of one length as rows; None means that they need the full checks."""
    for x in vectors:
        if type(x) is not np.ndarray or x.ndim != 1 or x.shape != vectors[0].shape or x.dtype is not _FLOAT64:
            return None
    rows = np.array(vectors)
    return rows if _is_valid(rows, 2) else None


def is_vector(x: object, n_features: int) -> TypeGuard[FloatArray]:
    """Whether x is a valid vector of float64 of so many features; False means that it needs the full checks."""
    return _is_valid(x, 1) and len(x) == n_features and x.dtype is _FLOAT64


def check_scale(X: Any, name: str = "X") -> Any:
    """Return X; raise a ValueError if it has values too large to learn from, or is sparse with impossible indices."""
    values: Any = X
    if hasattr(X, "indptr"):
        values = X.data
        check_valid_sparse(X, name)
    if values.size and values.dtype.kind == "f":
        largest = max(abs(float(values.max())), abs(float(values.min())))
        if largest > LARGEST_VALUE:
            advice = f"scale the features below {LARGEST_VALUE:g}, for instance with StandardScaler"
            raise ValueError(f"{name} has values as large as {largest:.3g}, whose sixth power overflows; {advice}")
    return X


def check_valid_sparse(X: csr_array, name: str) -> None:
    """Raise a ValueError that names the argument unless a sparse matrix is valid, before compiled code reads it."""
    try:
        check_sparse(X)
    except ValueError as error:
        raise ValueError(f"{name} must be a valid sparse matrix: {error}") from error


def check_indices(indices: ArrayLike, n_rows: int, name: str) -> IndexArray:
    """Return row numbers from 0 to n_rows - 1 as a 1-D array."""
    array = np.asarray(indices)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a 1-D array of row numbers, got an array of shape {array.shape}")
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integer row numbers, got dtype {array.dtype}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= n_rows:
        wrong = low if low < 0 else high
        raise ValueError(f"{name} must hold row numbers from 0 to {n_rows - 1}, got {wrong}")
    return np.ascontiguousarray(array, dtype=np.intp)


def check_signs(similar: ArrayLike, n: int, name: str = "similar") -> SignArray:
    """Return the labels of n pairs, given as booleans or as +1 and -1, as +1 and -1."""
    array = np.asarray(similar)
    if array.ndim != 1 or len(array) != n:
        raise ValueError(f"{name} must be 1-D with one label for each of the {n} pairs, got shape {array.shape}")
    if array.dtype == bool:
        return np.where(array, np.int8(1), np.int8(-1))
    if array.dtype.kind not in "iuf" or not np.isin(array, (-1, 1)).all():
        values = np.unique(array.astype(str))[:5].tolist()
        raise ValueError(f"{name} must hold booleans, or +1 for similar and -1 for dissimilar, got {values}")
    return array.astype(np.int8)


def check_weights(weights: ArrayLike, n: int) -> FloatArray:
    """Return positive weights of n comparisons in float64."""
    values = np.asarray(to_numpy(weights))
    values = values.astype(np.float64) if values.dtype.kind in "biuf" else np.array([np.nan])
    if values.shape != (n,) or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"weights must be {n} positive numbers, one for each comparison")
    return values


def check_labels(y: Any, n_rows: int, name: str = "y") -> NDArray[Any]:
    """Return the class labels of the rows as a 1-D array, strings as objects; raise if a label is missing."""
    y = y.compute() if is_chunked(y) else to_numpy(y)
    array = np.asarray(y)
    if array.ndim != 1 or len(array) != n_rows:
        raise ValueError(f"{name} must be 1-D with a label for each of the {n_rows} rows, got shape {array.shape}")
    if array.dtype.kind in "OSTU":
        array = np.asarray(y, dtype=object)  # from y again: in a list of strings a NaN has become "nan"
        if (tags := next((label for label in array if isinstance(label, COLLECTIONS)), None)) is not None:
            advice = "sets of tags are for samplers and learners, see docs/guides/tags.md"
            raise ValueError(f"{name} must hold one class for each row here, got {tags!r}: {advice}")
        missing = np.fromiter(map(is_missing, array), dtype=bool, count=n_rows)
    else:
        missing = array != array
    missing = missing | np.ma.getmaskarray(np.ma.asarray(y)) if isinstance(y, np.ma.MaskedArray) else missing
    if missing.any():
        row = int(missing.argmax())
        raise ValueError(f"{name} must hold a class for each row, got {array[row]} for row {row}")
    return array


def class_codes(y: Any, n_rows: int, name: str = "y") -> IndexArray:
    """Return the class of each row as a number from 0, in the order of the sorted labels."""
    labels = check_labels(y, n_rows, name)
    if labels.dtype.kind == "c" or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        kind = "complex numbers" if labels.dtype.kind == "c" else "infinity"
        raise ValueError(f"{name} must hold class labels, such as integers or text, got {kind}")
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise TypeError(f"{name} must hold labels of one type, got types that cannot be sorted together") from None


def is_missing(label: object) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA is neither equal to itself nor different
        return True


def as_floats(values: ArrayLike, name: str) -> FloatArray:
    """Return real numbers as float64; raise a ValueError for others, also where NumPy would drop or invent a part."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "cmM" or _is_masked(values):
            raise TypeError(f"got {'masked values' if _is_masked(values) else array.dtype}")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must hold real numbers: {error}") from error


def check_row(x: RowsLike, name: str) -> FloatArray:
    """Return one vector of finite numbers as a dense float64 array."""
    if _is_valid(x, 1):
        # For a vector with gaps in memory Numba would compile every kernel once more.
        return x if x.dtype is _FLOAT64 and x.flags.c_contiguous else np.ascontiguousarray(x, dtype=np.float64)
    if is_sparse(x):
        check_valid_sparse(x, name)
        x = x.toarray()
        x = x[0] if x.shape[0] == 1 and x.ndim == 2 else x
    row = as_floats(to_numpy(x), name)
    if row.ndim != 1 or row.size == 0:
        raise ValueError(f"{name} must be one vector of features, got an array of shape {row.shape}")
    if not np.isfinite(row).all():
        raise ValueError(f"{name} contains NaN or infinity; every feature must be a finite number")
    return np.asarray(check_scale(row, name))


def check_sign(similar: object) -> bool:
    """Return the label of one pair, given as a boolean or as +1 or -1, as a boolean."""
    if isinstance(similar, (bool, np.bool_)):  # of `bool | np.bool_` the union is made in each call
        return bool(similar)
    if is_number(similar) and similar in (1, -1):
        return bool(similar == 1)
    raise ValueError(f"similar must be True or False, or +1 or -1, got {similar!r}")


def check_counts(counts: int | Iterable[int], default: range, available: int, name: str, what: str) -> IndexArray:
    """Return one or several numbers from 1 to `available`, sorted and distinct; the default is cut to `available`."""
    if isinstance(counts, range) and counts == default:
        counts = range(1, min(default[-1], available) + 1)
    values = list(counts) if isinstance(counts, Iterable) else [counts]
    if not values or not all(is_count(value) for value in values):
        raise ValueError(f"{name} must be one or several integers of at least 1, got {values}")
    if max(values) > available:
        raise ValueError(f"{name} must be at most {available}, {what}, got {max(values)}")
    return np.unique(np.array(values, dtype=np.intp))
