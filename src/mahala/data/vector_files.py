"""Read vectors of items or queries, and their ids."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from mahala.data.array_files import finite_rows, load_numpy, places, read_arrays
from mahala.data.columns.frames import read_frame
from mahala.data.tables import unknown_column
from mahala.support.files import check_readable
from mahala.support.names import listed

if TYPE_CHECKING:
    from mahala.support.arrays import Array, Rows


# Column names that are taken for the vectors and for the ids of a Parquet file.
_VECTORS = ("vector", "embedding", "emb", "dense")
_IDS = ("id", "_id", "ids", "query-id", "query_id", "qid", "corpus-id", "corpus_id", "item_id", "doc_id", "docid")


def read_vectors(
    path: str | os.PathLike[str], *, vector: str | None = None, id: str | None = None
) -> tuple[Rows, Array | None]:
    """Read the vectors of queries or items, one per row, and their ids, or None if the file has no ids.

    Parameters
    ----------
    path : str or path
        An .npy file, with rows only; .npz, with X or the only array (or the parts of a CSR matrix) and perhaps ids;
        or .parquet, with a column of lists.
    vector : str or None, default=None
        Parquet column of the vectors. None is the only one that holds lists of numbers, or of several the one named
        vector, embedding, emb or dense.
    id : str or None, default=None
        Parquet column, or array of an .npz file, of the ids. None is one with a usual name, such as id, _id or ids.

    Rows of float32 stay float32, others become float64.
    """
    path = os.fspath(path)
    check_readable(path)
    suffix = os.path.splitext(path.lower())[1]
    if suffix == ".parquet":
        return _from_parquet(path, vector, id)
    if suffix not in (".npy", ".npz"):
        raise ValueError(f"{path} must be a file of vectors, .npy, .npz or .parquet, got the suffix {suffix!r}")
    if vector is not None:
        raise ValueError(f"vector names a column of Parquet files, but {path} has no columns: omit it")
    arrays: list[str] = []
    if suffix == ".npz":
        with open(path, "rb") as file:
            arrays = getattr(load_numpy(file), "files", [])
    if id is None:
        id = next((name for name in _IDS if name in arrays), None)
    elif id not in arrays:
        raise ValueError(f"id names the array {id!r}, but {path} holds {listed(arrays) or 'rows only'}")
    X, ids = read_arrays(path, suffix, id, None)
    return X, None if id is None else ids


def _from_parquet(path: str, vector: str | None, id: str | None) -> tuple[Rows, Array | None]:
    frame = read_frame(path, ".parquet").data
    for name, argument in ((vector, "vector"), (id, "id")):
        if name is not None and name not in frame.columns:
            raise ValueError(f"{argument} names the column {name!r}, {unknown_column(name, path, frame.columns)}")
    kinds = {name: getattr(dtype, "inner", None) for name, dtype in frame.schema.items()}
    lists = [name for name, kind in kinds.items() if kind is not None and kind.is_numeric()]
    if vector is None:
        named = [name for name in _VECTORS if name in lists]
        if len(lists) != 1 and not named:
            present = f"{len(lists)} of them: {listed(lists)}" if lists else f"only {listed(frame.columns)}"
            raise ValueError(f"{path} must have a column of lists of numbers, or vector must name it; it has {present}")
        vector = named[0] if named else lists[0]
    elif vector not in lists:
        raise ValueError(f"{path}: column {vector!r} must hold lists of numbers, got {frame.schema[vector]}")
    vectors = frame[vector].arr.to_list() if hasattr(frame.schema[vector], "shape") else frame[vector]
    lengths = vectors.list.len().fill_null(0).to_numpy()
    odd = np.flatnonzero(lengths != np.bincount(lengths).argmax())
    if len(odd):
        rows = f"{places('row', odd)} {'differ' if len(odd) > 1 else 'differs'} from the others"
        raise ValueError(f"{path}: column {vector!r} must hold lists of one length, but {rows}")
    id = next((name for name in _IDS if name in frame.columns and name != vector), None) if id is None else id
    ids = None if id is None else frame[id].to_numpy()
    if ids is not None:
        missing = np.array([value is None or value != value for value in ids])
        if missing.any():
            raise ValueError(f"{path}: column {id!r} has missing ids in {places('row', np.flatnonzero(missing))}")
    return finite_rows(path, vectors.explode().to_numpy().reshape(len(frame), -1)), ids
