"""GraphThread: builds and extends the graphs of large collections while a process serves."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Protocol

from mahala.serve.index.graph import extended, read_graph, write_graph
from mahala.serve.index.pgvector import PgVector
from mahala.serve.index.searching import Candidates, Index
from mahala.serve.store.database import Database, Unavailable

log = logging.getLogger("mahala.serve")

# Seconds between two looks at the collections, and by how much the threads that serve come first.
_SECONDS, _NICE = 0.5, 10
# A graph is extended when one in so many rows is new; until then these are read one by one.
_ONE_IN = 50


class _Source(Protocol):
    def build(self, index: Index, before: Candidates | None, stop: threading.Event) -> Candidates | None: ...


class _Served(Protocol):
    index: Index


class FileGraphs:
    """Graphs of FAISS, in files beside that of the database where it has one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def build(self, index: Index, before: Candidates | None, stop: threading.Event) -> Candidates | None:
        """Return a graph of all live rows: one from before, or of the file, extended; None if it was stopped."""
        path = self._database.graph_file(index.name)
        if before is None and path is not None:
            before = read_graph(path, index)
        if before is not None and is_worn(index, before):
            before = None
        graph = extended(index, before, stop)  # type: ignore[arg-type]
        if path is not None and graph is not None and (before is None or graph.n > before.n):
            write_graph(path, index, graph)
        return graph


def n_new(index: Index, graph: Candidates) -> int:
    """Return how many live rows came after a graph was built."""
    return int((index.rows(complete=True) > graph.last).sum())


def is_worn(index: Index, graph: Candidates) -> bool:
    """Return whether most of the rows of a graph were deleted since."""
    return 2 * (len(index) - n_new(index, graph)) < graph.n


class GraphThread:
    """Gives a graph to the index of each collection with many items; searches read all items until it is there.

    Parameters
    ----------
    served : what is served by the names of collections
    database : which holds the graphs if it has pgvector, or beside whose file they lie
    beyond : items of a collection beyond which it gets a graph
    """

    def __init__(self, served: Mapping[str, _Served], database: Database, beyond: int) -> None:
        self._served, self._beyond = served, beyond
        self._database = database
        self._source: _Source | None = None
        self._refused: set[str] = set()
        self._problem = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mahala-graphs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, without what is not complete."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # of this thread only, and on Linux only
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while not self._stop.wait(_SECONDS):
            for name, own in list(self._served.items()):
                try:
                    if name not in self._refused:
                        self._follow(own.index)
                except Unavailable as error:  # it may come back
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
        if self._source is None:
            self._source = self._found_source()
        if self._source is None:
            log.warning("searches in %s read all items: a graph needs pip install 'mahala[ann]'", index.name)
            self._refused.add(index.name)
            return
        graph = index.graph
        if graph is None or _ONE_IN * n_new(index, graph) > graph.n or is_worn(index, graph):
            started = time.monotonic()
            index.graph = self._source.build(index, graph, self._stop) or graph
            if not self._stop.is_set():
                log.info("the graph of %s was built in %.1f s", index.name, time.monotonic() - started)

    def _found_source(self) -> _Source | None:
        """Return pgvector in the database, FAISS here, or None if neither is installed."""
        if not self._database.is_sqlite and PgVector.is_installed(self._database):
            return PgVector(self._database)
        if importlib.util.find_spec("faiss") is None:
            return None
        return FileGraphs(self._database)
