"""Input checks: each error names the argument, what is wrong with it and what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from mahala.support.arrays import FloatArray, IndexArray, RealArray, SignArray
from mahala.support.params import is_count, is_number

# The update rules need ‖v‖⁴, which overflows for larger values; no metric can be learned at such a scale.
LARGEST_VALUE = 1e60

_LARGEST_SQUARE = LARGEST_VALUE**2
_FLOAT64, _FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)


# SciPy's issparse, without its narrowing to a static type that has no attributes.
is_sparse: Callable[[Any], bool] = sp.issparse


def check_rows(X: Any, name: str = "X") -> Any:
    """Return X as a finite 2-D numeric array (dense, memory-mapped or CSR) in its own dtype, not copied if possible."""
    if _is_valid(X, 2):
        return X
    X = check_array(X, accept_sparse="csr", dtype="numeric", input_name=name)
    if hasattr(X, "indptr") and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return check_scale(X, name)


def _is_valid(X: Any, ndim: int) -> bool:
    """Whether X is surely valid; False means that it needs the full checks, which take a hundred times as long."""
    if type(X) is not np.ndarray or X.ndim != ndim or X.size == 0 or X.dtype not in (_FLOAT64, _FLOAT32):
        return False
    if ndim > 1:
        if not (X.flags.c_contiguous or X.flags.f_contiguous):
            return False  # its values could not be read as one vector without a copy
        X = X.ravel(order="K")
    return _sum_of_squares(X) <= _LARGEST_SQUARE  # it is NaN or infinite if a value is


@np.errstate(over="ignore", invalid="ignore")
def _sum_of_squares(x: RealArray) -> float:
    return float(x.dot(x))


def check_scale(X: Any, name: str = "X") -> Any:
    """Return X; raise a ValueError if it has values too large to learn from."""
    values: Any = X.data if hasattr(X, "indptr") else X
    if values.size and values.dtype.kind == "f":
        largest = max(abs(float(values.max())), abs(float(values.min())))
        if largest > LARGEST_VALUE:
            raise ValueError(
                f"{name} has values as large as {largest:.3g}, whose fourth power overflows; "
                f"scale the features below {LARGEST_VALUE:g}, for instance with StandardScaler"
            )
    return X


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
        raise ValueError(
            f"{name} must be a 1-D array with one label for each of the {n} pairs, got shape {array.shape}"
        )
    if array.dtype == bool:
        return np.where(array, np.int8(1), np.int8(-1))
    if array.dtype.kind not in "iuf" or not np.isin(array, (-1, 1)).all():
        found = np.unique(array.astype(str))[:5].tolist()
        raise ValueError(f"{name} must hold booleans, or +1 for similar and -1 for dissimilar, got {found}")
    return array.astype(np.int8)


def check_labels(y: Any, n_rows: int, name: str = "y") -> NDArray[Any]:
    """Return the class labels of the rows as a 1-D array, strings as objects; raise if a label is missing."""
    array = np.asarray(y)
    if array.ndim != 1 or len(array) != n_rows:
        raise ValueError(f"{name} must be 1-D with a label for each of the {n_rows} rows, got shape {array.shape}")
    if array.dtype.kind in "OSTU":
        array = np.asarray(y, dtype=object)  # from y again: in a list of strings a NaN has become "nan"
        missing = np.fromiter(map(_is_missing, array), dtype=bool, count=n_rows)
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
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise TypeError(f"{name} must hold labels of one type, got types that cannot be sorted together") from None


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA is neither equal to itself nor different
        return True


def check_row(x: Any, name: str) -> FloatArray:
    """Return one vector of finite numbers as a dense float64 array."""
    if _is_valid(x, 1):
        vector: FloatArray = x.astype(np.float64, copy=False)
        return vector
    try:
        row = np.asarray(x.toarray().ravel() if hasattr(x, "toarray") else x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be one vector of numbers: {error}") from error
    if row.ndim != 1 or row.size == 0:
        raise ValueError(f"{name} must be one vector of features, got an array of shape {row.shape}")
    if not np.isfinite(row).all():
        raise ValueError(f"{name} contains NaN or infinity; every feature must be a finite number")
    return np.asarray(check_scale(row, name))


def check_sign(similar: Any) -> bool:
    """Return the label of one pair, given as a boolean or as +1 or -1, as a boolean."""
    if isinstance(similar, bool | np.bool_):
        return bool(similar)
    if is_number(similar) and similar in (1, -1):
        return bool(similar == 1)
    raise ValueError(f"similar must be True or False, or +1 or -1, got {similar!r}")


def check_positive(value: Any, name: str, most: float = np.inf) -> None:
    """Raise a ValueError if a parameter is not a positive, finite number of at most `most`."""
    if not (is_number(value) and 0.0 < value < np.inf):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    if value > most:
        raise ValueError(f"{name} must be at most {most:g}, got {value!r}: steps so long overflow")


def check_count(value: Any, name: str) -> None:
    """Raise a ValueError if a parameter is not an integer of at least 1."""
    if not is_count(value):
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def check_tolerance(value: Any, name: str) -> None:
    """Raise a ValueError if a parameter is not a finite number of at least 0."""
    if not (is_number(value) and 0.0 <= value < np.inf):
        raise ValueError(f"{name} must be a number of at least 0, got {value!r}")


def check_flag(value: Any, name: str) -> None:
    """Raise a TypeError if a parameter is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_counts(counts: Any, default: range, available: int, name: str, what: str) -> IndexArray:
    """Return one or several numbers from 1 to `available`, sorted and distinct; the default is cut to `available`."""
    if isinstance(counts, range) and counts == default:
        counts = range(1, min(default[-1], available) + 1)
    values = list(counts) if isinstance(counts, Iterable) else [counts]
    if not values or not all(is_count(value) for value in values):
        raise ValueError(f"{name} must be one or several integers of at least 1, got {values}")
    if max(values) > available:
        raise ValueError(f"{name} must be at most {available}, {what}, got {max(values)}")
    return np.unique(np.array(values, dtype=np.intp))
