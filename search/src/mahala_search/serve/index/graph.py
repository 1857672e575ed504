"""Graphs (HNSW) of FAISS or pgvector that give candidates for a search among very many items; a thread builds them."""

import contextlib
import importlib.util
import logging
import os
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mahala.extend import whole_file
from mahala_search.arrays import FloatArray, IndexArray, slices
from mahala_search.serve.index.item_index import Candidates, Index
from mahala_search.serve.index.served_collection import ServedCollection
from mahala_search.serve.store.database import Database, Unavailable

log = logging.getLogger("mahala_search")

# Neighbours of a row in the graph, and rows that are looked at for each that is added.
_NEIGHBOURS, _EFFORT = 16, 100
# Rows from which the range of each feature is estimated, and rows that are added between two checks whether to stop.
_SAMPLE, _BLOCK = 20_000, 500
# Seconds between two looks at the collections, and by how much the threads that serve come first.
_SECONDS, _NICE = 0.5, 10
# Numbers of a vector, and candidates of a search, that pgvector takes at most.
_PGVECTOR_WIDEST, _PGVECTOR_MOST = 2000, 1000
# A graph is extended when one in so many rows is new; until then these are read one by one.
_ONE_IN = 50


class Graph:
    """Rows of a collection as bytes, in a graph of FAISS that leads to those with large inner products.

    It depends on the items' vectors only, not on what is learned about queries, and is never changed.
    """

    def __init__(self, graph: Any, rows: IndexArray) -> None:
        self.graph = graph
        self.rows = rows  # of the collection, by their places in the graph, increasing
        self.n, self.last = len(rows), int(rows[-1])

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
        new = every = rows
    else:
        graph = faiss.clone_index(before.graph)
        new = rows[rows > before.last]
        every = np.concatenate([before.rows, new])
    for part in slices(len(new), _BLOCK):
        if stop.is_set():
            return None
        graph.add(_singles(index, new[part]))
    return Graph(graph, every)


def write_graph(path: Path, index: Index, graph: Graph) -> None:
    """Write a graph to a file, with digests of the graph and of the vectors of its rows."""
    data = _faiss().serialize_index(graph.graph)
    digests = {"graph": str(zlib.crc32(data)), "vectors": _digest(index, graph.rows)}
    with whole_file(path) as whole:
        save_file({"graph": data, "rows": graph.rows}, whole, metadata=digests)


def read_graph(path: Path, index: Index) -> Graph | None:
    """Return the graph in a file, or None if there is none, or not one of the rows of this collection."""
    try:
        with safe_open(path, framework="numpy") as file:
            digests, data, rows = file.metadata(), file.get_tensor("graph"), file.get_tensor("rows")
        # FAISS itself would read beyond what is damaged.
        if digests == {"graph": str(zlib.crc32(data)), "vectors": _digest(index, rows)}:
            return Graph(_faiss().deserialize_index(data), rows)
    except (OSError, SafetensorError, KeyError):
        pass
    return None


def _faiss() -> Any:
    """Return the library, which need not be installed, and whose types are known in part only."""
    return importlib.import_module("faiss")


def _digest(index: Index, rows: IndexArray) -> str:
    """Return a number for the vectors of rows; raise KeyError if one is not there."""
    number = 0
    for part in slices(len(rows), _BLOCK):
        number = zlib.crc32(_singles(index, rows[part]).tobytes(), number)
    return str(number)


def _singles(index: Index, rows: IndexArray) -> Any:
    return index.vectors(rows.tolist()).astype(np.float32)


def _in_faiss(database: Database, index: Index, before: Any, stop: threading.Event) -> Candidates | None:
    """Return a graph of all live rows: one from before, or of the file, extended; None if it was stopped."""
    path = database.graph_file(index.name)
    if before is None and path is not None:
        before = read_graph(path, index)
    if before is not None and mostly_deleted(index, before):
        before = None
    graph = extended(index, before, stop)
    if path is not None and graph is not None and (before is None or graph.n > before.n):
        write_graph(path, index, graph)
    return graph


@dataclass
class PgVectorIndex:
    """The vectors of a collection in a table of the database with an index; it answers as a graph here does."""

    database: Database
    table: str
    n: int
    last: int

    def nearest(self, query: FloatArray, n: int) -> IndexArray:
        """Return n rows whose inner products with a query are about the largest; none if the database is gone."""
        n = min(n, _PGVECTOR_MOST)
        scaled = str((query / (np.abs(query).max() or 1.0)).tolist())
        nearest = sa.text(f"SELECT row FROM {self.table} ORDER BY vector <#> CAST(:query AS vector) LIMIT :n")
        try:
            with self.database.reading() as connection:
                connection.execute(sa.text(f"SET LOCAL hnsw.ef_search = {n:d}"))
                rows = [row for (row,) in connection.execute(nearest, {"query": scaled, "n": n})]
        except Unavailable:
            rows = []
        near = np.array(rows, dtype=np.intp)
        return near[near <= self.last]  # another process may have added more


def has_pgvector(database: Database) -> bool:
    """Return whether the server has an extension vector that knows HNSW, made in the database or not."""
    version = "SELECT string_to_array(default_version, '.')::int[] >= '{0,5}'"
    with database.reading() as connection:
        return bool(connection.scalar(sa.text(f"{version} FROM pg_available_extensions WHERE name = 'vector'")))


def in_pgvector(database: Database, index: Index, before: object, stop: threading.Event) -> PgVectorIndex | None:
    """Bring the table of a collection, which all processes share, and its index up to date; None if stopped."""
    if index.width > _PGVECTOR_WIDEST:
        raise ValueError(f"pgvector indexes vectors of {_PGVECTOR_WIDEST:,} numbers at most, got {index.width:,}")
    table = database.graph_table(index.name)
    rows = index.rows(complete=True)
    with database.writing() as connection:
        # One process at a time: the others wait, and find it done.
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:table))"), {"table": table})
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
        columns = f"(row bigint PRIMARY KEY, vector vector({index.width:d}) NOT NULL)"
        connection.execute(sa.text(f"CREATE TABLE IF NOT EXISTS {table} {columns}"))
        written = {row for (row,) in connection.execute(sa.text(f"SELECT row FROM {table}"))}
        new = [row for row in rows.tolist() if row not in written]
        for part in slices(len(new), _BLOCK):
            if stop.is_set():
                return None
            block = new[part]
            vectors = [str(vector) for vector in index.vectors(block).tolist()]
            values = [{"row": row, "vector": vector} for row, vector in zip(block, vectors, strict=True)]
            connection.execute(sa.text(f"INSERT INTO {table} VALUES (:row, CAST(:vector AS vector))"), values)
        if written - set(rows.tolist()):
            gone = f"DELETE FROM {table} WHERE row <= :last AND NOT row = ANY(:rows)"
            connection.execute(sa.text(gone), {"last": int(rows[-1]), "rows": rows.tolist()})
        made = f"CREATE INDEX IF NOT EXISTS {table}_hnsw ON {table} USING hnsw (vector vector_ip_ops)"
        connection.execute(sa.text(made))
    return PgVectorIndex(database, table, len(rows), int(rows[-1]))


def n_new(index: Index, graph: Candidates) -> int:
    """Return how many live rows came after a graph was built."""
    return int((index.rows(complete=True) > graph.last).sum())


def mostly_deleted(index: Index, graph: Candidates) -> bool:
    """Return whether most of the rows of a graph were deleted since."""
    return 2 * (len(index) - n_new(index, graph)) < graph.n


class GraphThread:
    """Gives a graph to the index of each collection with more than `beyond` items.

    The database holds the graphs if it has pgvector; otherwise they are files beside it. Searches read all items until
    there is a graph.
    """

    def __init__(self, served: Mapping[str, ServedCollection], database: Database, beyond: int) -> None:
        self._served, self._database, self._beyond = served, database, beyond
        self._build: Callable[..., Candidates | None] | None = None
        self._refused: set[str] = set()
        self._problem = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mahala-graphs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, without the graph that is being built."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # of this thread only, and on Linux only
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while not self._stop.wait(_SECONDS):
            for name, served in list(self._served.items()):
                try:
                    if name not in self._refused:
                        self._follow(served.index)
                except Unavailable as error:  # perhaps for a moment
                    if str(error) != self._problem:
                        log.warning("searches in %s read all items: %s", name, error)
                    self._problem = str(error)
                except Exception as error:  # searches read all items then
                    self._refused.add(name)
                    log.exception("searches in %s read all items: its graph failed: %s", name, error)

    def _follow(self, index: Index) -> None:
        if len(index) <= self._beyond:
            index.graph = None
            return
        if self._build is None and not self._database.is_sqlite and has_pgvector(self._database):
            self._build = in_pgvector
        elif self._build is None and importlib.util.find_spec("faiss") is not None:
            self._build = _in_faiss
        if self._build is None:
            log.warning("searches in %s read all items: a graph needs pip install 'mahala-search[ann]'", index.name)
            self._refused.add(index.name)
            return
        graph = index.graph
        if graph is None or _ONE_IN * n_new(index, graph) > graph.n or mostly_deleted(index, graph):
            started = time.monotonic()
            index.graph = self._build(self._database, index, graph, self._stop) or graph
            if not self._stop.is_set():
                log.info("the graph of %s was built in %.1f s", index.name, time.monotonic() - started)
