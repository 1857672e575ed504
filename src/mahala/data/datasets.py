"""Data sets by name: files of a folder, scikit-learn's bundle, or OpenML."""

from __future__ import annotations

import gzip
import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.data.array_files import read_npz

# scikit-learn's own copies need no network.
_BUNDLED = {"iris": "load_iris", "wine": "load_wine", "digits": "load_digits", "breast_cancer": "load_breast_cancer"}
# Names on OpenML, and the version there.
_OPENML = {
    "balance": ("balance-scale", 1),
    "breast": ("breast-w", 1),
    "glass": ("glass", 1),
    "ionosphere": ("ionosphere", 1),
    "letter": ("letter", 1),
    "mnist": ("mnist_784", 1),
    "parkinsons": ("parkinsons", 1),
    "pima": ("diabetes", 1),
    "satellite": ("satimage", 1),
    "seeds": ("seeds", 1),
    "spam": ("spambase", 1),
    "usps": ("USPS", 2),
    "vehicle": ("vehicle", 1),
}


class Dataset(NamedTuple):
    """Rows, dense or CSR, and the class 0..c-1 of each; the first `n_train` rows train, where that is customary."""

    X: Any
    y: NDArray[np.intp]
    n_train: int | None = None


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder given, or the one that the environment variable MAHALA_DATA names, or None."""
    chosen = folder or os.environ.get("MAHALA_DATA")
    return None if chosen is None else Path(chosen)


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """The data set of a name, as it is: raw scale, nothing normalised.

    Looked for as `name.npz` in the folder (default: MAHALA_DATA), with X and y, or the data, indices, indptr and shape
    of a CSR matrix and y; then in scikit-learn's bundle; then on OpenML, which needs a network and keeps what it
    fetched in scikit-learn's data folder.

    >>> X, y, _ = load("wine", folder="nowhere")
    >>> X.shape, sorted(set(y.tolist()))
    ((178, 13), [0, 1, 2])
    """
    place = data_folder(folder)
    path = None if place is None else place / f"{name}.npz"
    if path is not None and path.exists():
        return _read(path)
    if name in _BUNDLED:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, _BUNDLED[name])(return_X_y=True)
        return Dataset(X, y.astype(np.intp))
    if name in _OPENML:
        return _fetch(name)
    where = "MAHALA_DATA is not set" if path is None else f"{path} is not there"
    known = ", ".join(sorted({*_BUNDLED, *_OPENML}))
    raise FileNotFoundError(
        f"there is no data set {name!r}: {where}, and it is none of those to be had otherwise: {known}"
    )


def _read(path: Path) -> Dataset:
    X, y = read_npz(str(path))
    if y is None:
        raise ValueError(f"{path} should hold y, the classes, beside the rows")
    with np.load(path) as file:
        return Dataset(X, y.astype(np.intp), int(file["n_train"]) if "n_train" in file else None)


def _fetch(name: str) -> Dataset:
    from sklearn.datasets import fetch_openml

    on_openml, version = _OPENML[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of every try; what came of the last one is said below
            X, y = fetch_openml(on_openml, version=version, as_frame=False, return_X_y=True, parser="auto")
    except OSError as error:
        raise FileNotFoundError(
            f"data set {name!r} could not be fetched from OpenML ({error}); "
            f"put {name}.npz with X and y into a folder and name that in MAHALA_DATA"
        ) from error
    return Dataset(np.asarray(X, dtype=np.float64), np.unique(y, return_inverse=True)[1].astype(np.intp))


class Document(NamedTuple):
    """A text and its topics, none or several."""

    text: str
    topics: frozenset[str]


def load_reuters(folder: str | os.PathLike[str] | None = None, split: str = "train") -> list[Document]:
    """The documents of a part of Reuters-21578, "train" or "test" of the ModApte split, in the order of time.

    Read from `reuters21578.jsonl.gz` in the folder (default: MAHALA_DATA): a JSON object a line with id, split, title,
    body and topics. A text is the title and the body.
    """
    place = data_folder(folder)
    path = None if place is None else place / "reuters21578.jsonl.gz"
    if path is None or not path.exists():
        where = "MAHALA_DATA is not set" if path is None else f"{path} is not there"
        raise FileNotFoundError(
            f"Reuters-21578 is wanted as the file reuters21578.jsonl.gz of the data folder: {where}"
        )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = [record for record in map(json.loads, file) if record["split"] == split]
    if not records:
        raise ValueError(f"split must be one of those in {path}, 'train' or 'test', got {split!r}")
    # Reuters numbered them as they came.
    records.sort(key=lambda record: int(record["id"]))
    return [Document(f"{record['title']} {record['body']}", frozenset(record["topics"])) for record in records]
