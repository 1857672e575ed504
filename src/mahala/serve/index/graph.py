"""Graph: candidates for a search among very many items, without reading all of them (HNSW, of FAISS)."""

from __future__ import annotations

import importlib
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mahala.serve.index.searching import Index
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.files import whole_file

# Neighbours of a row in the graph, and rows that are looked at for each that is added.
_NEIGHBOURS, _EFFORT = 16, 100
# Rows by which the range of each feature is known, and rows that are added before it is asked whether to stop.
_SAMPLE, _BLOCK = 20_000, 500


class Graph:
    """Rows of a collection as bytes, in a graph that leads to those with large inner products; it is never changed.

    It is one of the items' own vectors: whatever is learned about queries, it stays as it is.
    """

    def __init__(self, graph: Any, rows: IndexArray) -> None:
        self.graph = graph
        self.rows = rows  # of the collection, by their places in the graph, increasing

    @property
    def n(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    @property
    def last(self) -> int:
        """The last row that it has; of those before, it has all that were live."""
        return int(self.rows[-1])

    def nearest(self, query: FloatArray, n: int) -> IndexArray:
        """Return n rows whose inner products with a query are about the largest, in no order."""
        faiss = _faiss()
        scaled = (query / (np.abs(query).max() or 1.0)).astype(np.float32)
        _, places = self.graph.search(scaled[None], n, params=faiss.SearchParametersHNSW(efSearch=n))
        return np.asarray(self.rows[places[places >= 0]])


def extended(index: Index, before: Graph | None, stop: threading.Event) -> Graph | None:
    """Return a graph of all live rows: the one from before, which stays as it is, with new rows; None if stopped."""
    faiss = _faiss()
    faiss.omp_set_num_threads(1)  # of this thread: the other cores serve
    rows = index.rows(complete=True)
    if before is None:
        graph = faiss.IndexHNSWSQ(index.width, faiss.ScalarQuantizer.QT_8bit, _NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = _EFFORT
        graph.train(_singles(index, rows[:: max(1, len(rows) // _SAMPLE)]))
        new = known = rows
    else:
        graph = faiss.clone_index(before.graph)
        new = rows[rows > before.last]
        known = np.concatenate([before.rows, new])
    for start in range(0, len(new), _BLOCK):
        if stop.is_set():
            return None
        graph.add(_singles(index, new[start : start + _BLOCK]))
    return Graph(graph, known)


def write_graph(path: Path, index: Index, graph: Graph) -> None:
    """Write a graph to a file, with what tells whether it belongs to the rows of a collection."""
    faiss = _faiss()
    data = faiss.serialize_index(graph.graph)
    told = {"graph": str(zlib.crc32(data)), "vectors": _digest(index, graph.rows)}
    with whole_file(path) as whole:
        save_file({"graph": data, "rows": graph.rows}, whole, metadata=told)


def read_graph(path: Path, index: Index) -> Graph | None:
    """Return the graph in a file, or None if there is none, or not one of the rows of this collection."""
    faiss = _faiss()
    try:
        with safe_open(path, framework="numpy") as file:
            told, data, rows = file.metadata(), file.get_tensor("graph"), file.get_tensor("rows")
        # FAISS itself would read beyond what is damaged.
        if told == {"graph": str(zlib.crc32(data)), "vectors": _digest(index, rows)}:
            return Graph(faiss.deserialize_index(data), rows)
    except (OSError, SafetensorError, KeyError):
        pass
    return None


def _faiss() -> Any:
    """Return the library, which need not be installed, and whose types are known in part only."""
    return importlib.import_module("faiss")


def _digest(index: Index, rows: IndexArray) -> str:
    """Return a number for the vectors of rows; raise KeyError if one is not there."""
    number = 0
    for start in range(0, len(rows), _BLOCK):
        number = zlib.crc32(_singles(index, rows[start : start + _BLOCK]).tobytes(), number)
    return str(number)


def _singles(index: Index, rows: IndexArray) -> Any:
    return index.vectors(rows.tolist()).astype(np.float32)
