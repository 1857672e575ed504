"""Read files without column names: .npy, .npz and svmlight."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mahala.support.validation import check_sparse, csr_from_arrays


def read_arrays(path: str, suffix: str, label: str | None, n_features: int | None) -> tuple[Any, NDArray[Any] | None]:
    """Return finite float64 or float32 rows, dense or CSR, and their labels, or None if the file has no labels."""
    if suffix == ".npz":
        X, labels = read_npz(path, label)
    elif label is not None:
        kind = "rows only" if suffix == ".npy" else "its labels at the start of each line"
        raise ValueError(f"label is {label!r}, but {path} has no column names; it holds {kind}: omit label")
    elif suffix == ".npy":
        with open(path, "rb") as file:
            X, labels = load_numpy(file), None
    else:
        X, labels = _read_svmlight(path, n_features)
    X = finite_rows(path, X)
    if labels is not None and labels.shape != (X.shape[0],):
        raise ValueError(f"{path} has {X.shape[0]} rows, but labels of shape {labels.shape}")
    if labels is not None and (labels != labels).any():
        rows = np.flatnonzero(labels != labels)
        raise ValueError(f"{path} has missing labels in {places('row', rows)}: drop those rows")
    return X, labels


def finite_rows(path: str, X: Any) -> Any:
    """Return the rows of a file in float64 or float32; raise a ValueError unless they are finite numbers."""
    if X.ndim != 2 or X.dtype.kind not in "iufb":
        raise ValueError(f"{path} must hold a 2-D array of numbers, got {X.dtype} of shape {X.shape}")
    if 0 in X.shape:
        raise ValueError(f"{path} has no rows or no features: its shape is {X.shape}")
    # The sum of a row is finite if its values are, unless they are too large for any metric.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(np.asarray(X.sum(axis=1, dtype=np.float64)))
    if not finite.all():
        rows = np.flatnonzero(~finite)
        raise ValueError(
            f"{path} has missing or infinite values in {places('row', rows)}: fill them in or drop those rows"
        )
    return X if X.dtype == np.float32 else X.astype(np.float64, copy=False)


def places(word: str, numbers: NDArray[Any]) -> str:
    """Describe positions in messages: "rows 1, 5, 7 and 2 more"."""
    rest = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
    return f"{word}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:3]))}{rest}"


def listed(names: Iterable[str]) -> str:
    """List the first twenty names in messages."""
    names = list(names)
    rest = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + rest


def load_numpy(file: BinaryIO) -> Any:
    """Return the array of an .npy file or the arrays of an .npz file."""
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file.name} is not a readable NumPy file of numbers or text ({error})") from None


def read_npz(path: str, label: str | None = None) -> tuple[Any, NDArray[Any] | None]:
    """Return X, or the only array, or the CSR matrix whose parts the file holds; and the labels, y or `label`."""
    with open(path, "rb") as file:
        arrays = load_numpy(file)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError(f"{path} is not an .npz file, which is a zip file of arrays")
        if label is not None and label not in arrays:
            raise ValueError(f"label names the array {label!r}, but {path} holds {listed(arrays)}")
        key = label or ("y" if "y" in arrays else None)
        try:
            labels = None if key is None else arrays[key]
            if "X" in arrays or len(arrays.files) == 1:
                return arrays["X" if "X" in arrays else arrays.files[0]], labels
            if "format" in arrays:  # what scipy.sparse.save_npz writes
                X = sp.load_npz(path)
                check_sparse(X)
                return sp.csr_array(X), labels
            if {"data", "indices", "indptr", "shape"} <= set(arrays):
                return csr_from_arrays(*(arrays[part] for part in ("data", "indices", "indptr", "shape"))), labels
        except Exception as error:  # damaged files cause errors of many types
            hint = ": save them as text, with y.astype(str)" if "Object arrays" in str(error) else ""
            raise ValueError(f"{path} holds arrays that cannot be read ({error}){hint}") from None
        raise ValueError(f"{path} must hold X, or data, indices, indptr and shape, but holds {listed(arrays)}")


def _read_svmlight(path: str, n_features: int | None) -> tuple[Any, NDArray[Any]]:
    from sklearn.datasets import load_svmlight_file

    try:
        X, labels = load_svmlight_file(path)
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} is not a readable svmlight file ({error})") from None
    if n_features is not None and X.shape[1] < n_features:
        X.resize(X.shape[0], n_features)
    whole = np.array_equal(labels, np.rint(labels))
    return sp.csr_array(X), labels.astype(np.int64) if whole else labels
