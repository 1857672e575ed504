"""Read files without column names: .npy, .npz and svmlight."""

from __future__ import annotations

import gzip
import io
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from mahala.support.arrays import check_room
from mahala.support.names import listed
from mahala.support.parameters import ParameterError
from mahala.support.validation import check_scale, check_sparse, csr_from_arrays, is_sparse

if TYPE_CHECKING:
    from mahala.support.arrays import Array, Rows


# The most rows or columns of a sparse matrix, in another form than CSR, for each of its numbers.
_MOST_EMPTY = 10_000
# Memory that a command takes per feature at least: some vectors of them.
_BYTES_PER_FEATURE = 128.0
# Memory that a byte of text takes, as cells of a table or as judgments.
_BYTES_PER_BYTE = 8.0


def read_arrays(
    path: str, suffix: str, label: str | None, n_features: int | None, first_index: int = 1
) -> tuple[Rows, Array | None]:
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
        X, labels = _read_svmlight(path, n_features, first_index)
    X = finite_rows(path, X)
    if labels is not None and labels.shape != (X.shape[0],):
        raise ValueError(f"{path} has {X.shape[0]} rows, but labels of shape {labels.shape}")
    if labels is not None and (labels != labels).any():
        rows = np.flatnonzero(labels != labels)
        raise ValueError(f"{path} has missing labels in {places('row', rows)}: drop those rows")
    return X, labels


def finite_rows(path: str, X: Rows) -> Rows:
    """Return the rows of a file in float64 or float32; raise a ValueError unless they are finite numbers."""
    if X.ndim != 2 or X.dtype.kind not in "iufb":
        raise ValueError(f"{path} must hold a 2-D array of numbers, got {X.dtype} of shape {X.shape}")
    if 0 in X.shape:
        raise ValueError(f"{path} has no rows or no features: its shape is {X.shape}")
    if is_sparse(X):
        _check_width(f"{path} with its {X.shape[1]:,} features", X.shape[1])
    # The sum of a row is finite if its values are, unless they are larger than `check_scale` permits.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(np.asarray(X.sum(axis=1, dtype=np.float64)))
    if not finite.all():
        rows = np.flatnonzero(~finite)
        where = places("row", rows)
        raise ValueError(f"{path} has missing or infinite values in {where}: fill them in or drop those rows")
    check_scale(X, path)
    return X if X.dtype == np.float32 else X.astype(np.float64, copy=False)


def places(word: str, numbers: Array) -> str:
    """Describe positions in messages: "rows 1, 5, 7 and 2 more"."""
    rest = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
    return f"{word}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:3]))}{rest}"


def _check_width(what: str, n_features: int) -> None:
    """Raise MemoryError if a model of so many features does not fit into memory."""
    check_room(_BYTES_PER_FEATURE * n_features, None, what, "number the features without gaps, or hash them")


def load_numpy(file: BinaryIO) -> Any:
    """Return the array of an .npy file or the arrays of an .npz file.

    Raise ValueError or MemoryError before anything is allocated if an array is larger than the file or the memory.
    """
    try:
        if file.read(2) == b"PK":
            with zipfile.ZipFile(file) as members:
                for member in members.infolist():
                    with members.open(member) as part:
                        _check_size(f"{file.name}: {member.filename}", part, member.file_size)
        else:
            file.seek(0)
            _check_size(file.name, file, os.fstat(file.fileno()).st_size)
        file.seek(0)
        return np.load(file, allow_pickle=False)
    except Exception as error:  # damaged files cause errors of many types
        if isinstance(error, MemoryError) and "more than" in str(error):
            raise  # it is ours, and says what is too large
        raise ValueError(f"{file.name} is not a readable NumPy file of numbers or text ({error})") from None


def _check_size(name: str, file: IO[bytes], size: int) -> None:
    """Raise an error if a file of `size` bytes holds an array that cannot be read into memory."""
    check_room(size, None, name, "split it, or use a machine with more memory")
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except ValueError:
        return  # not an array, which is said when it is read
    if math.prod(shape) * dtype.itemsize > size and not dtype.hasobject:
        raise ValueError(f"{name} has {size:,} bytes, too few for an array of {dtype} and shape {shape}")


def read_npz(path: str, label: str | None = None) -> tuple[Rows, Array | None]:
    """Return X, or the only array, or the CSR matrix whose parts the file holds; and the labels, y or `label`."""
    with open(path, "rb") as file:
        arrays = load_numpy(file)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError(f"{path} is not an .npz file, which is a zip file of arrays")
        if label is not None and label not in arrays:
            raise ValueError(f"label names the array {label!r}, but {path} holds {listed(arrays)}")
        key = label or ("y" if "y" in arrays else None)
        try:
            labels = None if key is None else _array(arrays, key)
            if "X" in arrays or len(arrays.files) == 1:
                return _array(arrays, "X" if "X" in arrays else arrays.files[0]), labels
            if "format" in arrays:  # what scipy.sparse.save_npz writes
                _check_shape(_array(arrays, "shape").tolist(), _array(arrays, "data").size)
                X = sp.load_npz(path)
                check_sparse(X)
                return sp.csr_array(X), labels
            if {"data", "indices", "indptr", "shape"} <= set(arrays):
                data, indices, indptr, shape = (_array(arrays, name) for name in ("data", "indices", "indptr", "shape"))
                return csr_from_arrays(data, indices, indptr, shape.tolist()), labels
        except Exception as error:  # damaged files cause errors of many types
            hint = ": save them as text, with y.astype(str)" if "Object arrays" in str(error) else ""
            raise ValueError(f"{path} holds arrays that cannot be read ({error}){hint}") from None
        raise ValueError(f"{path} must hold X, or data, indices, indptr and shape, but holds {listed(arrays)}")


def _check_shape(shape: list[int], n_numbers: int) -> None:
    """Raise ValueError for a matrix of so many empty rows or columns that its CSR form is far larger than the file."""
    if min(shape) < 0 or max(shape) > _MOST_EMPTY * (n_numbers + _MOST_EMPTY):
        raise ValueError(f"shape {' × '.join(map(str, shape))} is too large for {n_numbers} numbers")


def _array(arrays: Mapping[str, object], name: str) -> Array:
    """Return an array of an .npz file, in which NumPy reads other members as bytes."""
    array = arrays[name]
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is not an array")
    return array


class _Unzipped(gzip.GzipFile):
    """A .gz file that is refused once what it holds cannot fit into memory; its true size is not known before."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        check_room(_BYTES_PER_BYTE * self.tell(), None, f"{self.name}, unzipped,", "split it")
        return data


def open_data(path: str) -> IO[bytes]:
    """Open a file, also .gz, for reading bytes."""
    return io.BufferedReader(_Unzipped(path) if path.lower().endswith(".gz") else io.FileIO(path))


@dataclass
class _SvmlightLines:
    """The lines of an svmlight file, counted, with a check of their largest index; scikit-learn reads it as a file."""

    file: IO[bytes]
    path: str
    n_features: int | None
    first_index: int
    number: int = 0
    largest: int = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self.file:
            self.number += 1
            # Indices must rise within a line, so that the last one is the largest.
            index = b"".join(line.partition(b"#")[0].rpartition(b":")[0].rsplit(None, 1)[-1:])
            if index.isdigit() and int(index) > self.largest:
                self.largest = int(index)
                n_features, what = self.largest - self.first_index + 1, f"{self.path}: line {self.number} has index"
                if self.n_features is not None and n_features > self.n_features:
                    last = self.n_features - 1 + self.first_index
                    wanted = f"but the model compares rows of {self.n_features} features, up to index {last}"
                    raise ValueError(f"{what} {self.largest}, {wanted}")
                _check_width(f"{what} {self.largest}, and a model of so many features", n_features)
            yield line

    def read(self) -> bytes:  # by this name scikit-learn knows a file
        return self.file.read()


def _read_svmlight(path: str, n_features: int | None, first_index: int) -> tuple[Rows, Array]:
    from sklearn.datasets import load_svmlight_file

    lines = _SvmlightLines(open_data(path), path, n_features, first_index)
    try:
        X, labels = load_svmlight_file(lines, n_features=n_features, zero_based=first_index == 0)
    except (ValueError, EOFError, OSError, OverflowError, zlib.error) as error:
        if str(error).startswith(path):
            raise
        if str(error).startswith("Invalid index 0 "):
            message = f"{path}: line {lines.number} has index 0, but indices count from 1 unless first_index=0"
            raise ParameterError(message, "first_index") from None
        raise ValueError(f"{path} is not a readable svmlight file: line {lines.number}: {error}") from None
    finally:
        lines.file.close()
    whole = np.array_equal(labels, np.rint(labels))
    return sp.csr_array(X), labels.astype(np.int64) if whole else labels
