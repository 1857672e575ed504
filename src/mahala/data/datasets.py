"""Data sets by name: those of a folder, of this package and of scikit-learn, and from OpenML."""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mahala.data.array_files import read_npz
from mahala.data.tables import RawTable, Table, read_raw_table, read_table
from mahala.support.arrays import IndexArray
from mahala.support.parameters import ParameterError
from mahala.support.validation import class_codes

if TYPE_CHECKING:
    from mahala.support.arrays import Rows


# CSV files of this package, and the column of their labels.
_BUNDLED = {"balance": "tips", "wine": "cultivar"}
# Data sets that scikit-learn includes.
_SKLEARN = {"iris": "load_iris", "digits": "load_digits", "breast_cancer": "load_breast_cancer"}
# Names on OpenML, and the version there.
_OPENML = {name: (name, 1) for name in ("glass", "ionosphere", "letter", "parkinsons", "seeds", "vehicle")}
_OPENML |= {"breast": ("breast-w", 1), "mnist": ("mnist_784", 1), "pima": ("diabetes", 1)}
_OPENML |= {"satellite": ("satimage", 1), "spam": ("spambase", 1), "usps": ("USPS", 2)}


class Dataset(NamedTuple):
    """Rows, dense or CSR, and their classes 0..c-1; if there is a customary split, the first `n_train` rows train."""

    X: Any
    y: IndexArray
    n_train: int | None = None


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the given folder, or the one that the environment variable MAHALA_DATA names, or None."""
    chosen = folder or os.environ.get("MAHALA_DATA")
    return None if chosen is None else Path(chosen)


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name, in its raw scale.

    The first of these that has the name is used:

    1. the file `name.npz` in the folder (default: MAHALA_DATA), which holds X and y, or the data, indices, indptr and
       shape of a CSR matrix and y
    2. the tables of this package, `balance` and `wine`
    3. the data sets that scikit-learn includes
    4. OpenML, which needs a network; scikit-learn keeps downloads in its data folder

    >>> X, y, _ = load("wine", folder="nowhere")
    >>> X.shape, sorted(set(y.tolist()))
    ((178, 13), [0, 1, 2])
    """
    place = data_folder(folder)
    path = None if place is None else place / f"{name}.npz"
    if path is not None and path.exists():
        X, y = read_npz(str(path))
        if y is None:
            raise ValueError(f"{path} must hold the classes y beside the rows")
        with np.load(path) as file:
            return Dataset(X, y.astype(np.intp), int(file["n_train"]) if "n_train" in file else None)
    if name in _BUNDLED:
        # They are simple enough to be read without Polars.
        text = (files("mahala") / "data" / f"{name}.csv").read_text(encoding="utf-8")
        lines = list(csv.DictReader(text.splitlines()))
        labels = np.array([line.pop(_BUNDLED[name]) for line in lines], dtype=object)
        X = np.array([list(line.values()) for line in lines], dtype=np.float64)
        return Dataset(X, class_codes(labels, len(X)))
    if name in _SKLEARN:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, _SKLEARN[name])(return_X_y=True)
        return Dataset(X, y.astype(np.intp))
    if name in _OPENML:
        from sklearn.datasets import fetch_openml

        on_openml, version = _OPENML[name]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scikit-learn warns on every retry; the last error is reported below
                X, y = fetch_openml(on_openml, version=version, as_frame=False, return_X_y=True, parser="auto")
        except OSError as error:
            advice = f"save X and y as {name}.npz in a folder and set MAHALA_DATA to that folder"
            raise FileNotFoundError(
                f"data set {name!r} could not be fetched from OpenML ({error}); {advice}"
            ) from error
        return Dataset(np.asarray(X, dtype=np.float64), class_codes(y, len(y)))
    where = "MAHALA_DATA is not set" if path is None else f"there is no file {path}"
    names = ", ".join(sorted({*_BUNDLED, *_SKLEARN, *_OPENML}))
    raise FileNotFoundError(f"there is no data set {name!r}: {where}, and the names that need no file are {names}")


def read_data(source: str | os.PathLike[str], *, label: str | None = None, **options: Any) -> Table:
    """Read a table from a file or, if there is no such file, load a data set by name.

    The arguments are those of :func:`mahala.data.read_table`. The tables of this package come before those of the data
    folder because they have named columns, of which one is the label.
    """
    name = os.fspath(source)
    with _file_of(name) as path:
        if path is not None:
            return read_table(path, label=label or label_of(name), **options)
    features = options.get("features")
    n_features = options.get("n_features") if features is None else len(features)
    return Table(*_loaded(name, label, options, n_features), None)


def read_raw_data(source: str | os.PathLike[str], *, label: str | None = None, **options: Any) -> RawTable:
    """Read columns as they are, by `read_raw_table`, from a file or, if there is none, a data set by name."""
    name = os.fspath(source)
    with _file_of(name) as path:
        if path is not None:
            return read_raw_table(path, label=label, **options)
    return RawTable(*_loaded(name, label, options, options.get("n_features")))


def label_of(source: str) -> str | None:
    """Return the label column of a table of this package by its name, or None."""
    return None if _is_file(source) else _BUNDLED.get(source)


def _is_file(name: str) -> bool:
    return name == "-" or Path(name).exists() or bool(Path(name).suffix)


def _file_of(name: str) -> AbstractContextManager[str | Path | None]:
    """A context with the path of a file or of a table of this package; None if the name is that of another data set."""
    if not _is_file(name) and name in _BUNDLED:
        return as_file(files("mahala") / "data" / f"{name}.csv")
    return nullcontext(name if _is_file(name) else None)


def _loaded(
    name: str, label: str | None, options: Mapping[str, Any], n_features: int | None
) -> tuple[Rows, IndexArray]:
    """Return the rows and classes of a data set without column names, of which none may be asked for."""
    if label is not None or any(options.get(option) for option in ("drop", "keep", "extra")):
        message = f"label and drop name columns of a file, but {name!r} is the name of a data set"
        raise ParameterError(message, "label", "drop")
    X, y, _ = load(name)
    if n_features not in (None, X.shape[1]):
        raise ValueError(f"{name} has rows of {X.shape[1]} features, but the model compares rows of {n_features}")
    return X, y
