"""Service: search in collections that learn, over one database; the HTTP API and the page stand on it."""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from mahala_search.serve.experiment.arms import started
from mahala_search.serve.experiment.report import Reports
from mahala_search.serve.index.graph import GraphThread
from mahala_search.serve.index.item_index import Found, payload_filter
from mahala_search.serve.index.quantised import compile_search
from mahala_search.serve.index.served_collection import PLAIN_MODEL, Query, ServedCollection, ServedModel
from mahala_search.serve.learning.worker import LearningProcess, LearningThread
from mahala_search.serve.store.checkpoints import Checkpoints, Version
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.database import Unavailable, Unknown
from mahala_search.serve.store.group_commit import GroupCommit
from mahala_search.serve.store.rows import NewItem, check_vector

log = logging.getLogger("mahala_search")

# A function from a text to a vector, by which a collection is searched with words.
Encoder = Callable[[str], Any]
# Seconds between two looks at the database for what other processes did.
POLL = 0.25


class Service:
    """Search that learns, for any number of collections in one database.

    Any number of processes may have a service over the same database; one of those with `learn` learns.

    Parameters
    ----------
    address : the file of an SQLite database, or postgresql://...
    encoders : for collections by name, a function from a text to a vector
    learn : whether this process learns, if no other one does
    lease_seconds, holder : for how long the right to learn holds unless it is renewed, and the name of who has it
    graph_beyond : items of a collection beyond which searches use a graph, if FAISS or pgvector is installed

    >>> import tempfile
    >>> with Service(tempfile.mkdtemp() + "/mahala.db", learn=False) as service:
    ...     service.create("films", width=2)
    ...     n = service.put_items("films", [{"id": "alien", "vector": [1, 0]}, {"id": "heat", "vector": [0, 1]}])
    ...     version, found = service.search("films", {"vector": [0.2, 1]}, k=1)
    >>> version, found[0].id
    (0, 'heat')
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        *,
        encoders: Mapping[str, Encoder] | None = None,
        learn: bool = True,
        lease_seconds: float = 3.0,
        holder: str | None = None,
        graph_beyond: int | None = None,
    ) -> None:
        self._address = os.fspath(address)
        self.store = Store(address)
        self.checkpoints = Checkpoints(self.store.database, lease_seconds, holder)
        self.encoders = dict(encoders or {})
        self.images: dict[str, Path] = {}  # folders of collections by name
        self.examples: dict[str, list[str]] = {}  # queries in words that the page offers, of collections by name
        self.writer = GroupCommit(self.store)
        self.reports = Reports(self.store.database)
        self._problem: str | None = None  # why the database cannot be read at the moment
        self._served: dict[str, ServedCollection] = {}
        self._refreshing = threading.Lock()
        self._learning: LearningThread | LearningProcess | None = None
        self._stop = threading.Event()
        compile_search()
        self.refresh()
        self._poller = threading.Thread(target=self._poll, name="mahala-poll", daemon=True)
        self._poller.start()
        self._graphs = None if graph_beyond is None else GraphThread(self._served, self.store.database, graph_beyond)
        if learn:
            self.start_learning()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self, *, learning: bool = True) -> None:
        """Write what is in the queue, stop learning and close the database.

        With `learning=False` the learning process keeps running, and this process only frees the items that it held.
        """
        self._stop.set()
        if self._graphs is not None:
            self._graphs.close()
        self._poller.join()
        self.writer.close()
        if not learning:
            self._served.clear()
        elif self._learning is not None:
            self._learning.close()
        self.store.close()

    def start_learning(self, *, apart: bool = False) -> None:
        """Learn in the background while no other process does: in a thread, or apart, in a process of its own."""
        if apart:
            self._learning = LearningProcess(self._address, self.checkpoints)
        else:
            self._learning = LearningThread(self.store, self.checkpoints)

    def _poll(self) -> None:
        while not self._stop.wait(POLL):
            try:
                self.refresh()
                self.writer.check()
            except Unavailable as error:
                if self.problem is None:
                    log.warning("%s", error)
                self._problem = str(error)
            except Exception:  # searching continues with what is here
                log.exception("the database could not be followed")

    def refresh(self) -> None:
        """Take in what other processes did."""
        with self._refreshing:
            collections = self.store.collections()
            for name in self._served.keys() - collections.keys():
                del self._served[name]
            for name, collection in collections.items():
                served = self._served.get(name) or ServedCollection(collection)
                served.refresh(collection, self.store, self.checkpoints)
                self._served[name] = served
            self._problem = None

    @property
    def problem(self) -> str | None:
        """Why the database cannot be read or written at the moment, or None."""
        return self._problem or self.writer.problem

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of a collection, with the `problem` of the database or of learning, if there is one."""
        learning = None if self._learning is None else self._learning.problem
        return {**self.served(name).status(), "problem": self.problem or learning}

    @property
    def learns(self) -> bool:
        """Whether this process, or another one with its `holder`, learns; False while the database cannot be used."""
        try:
            return self.checkpoints.has_lease()
        except Unavailable:
            return False

    def names(self) -> list[str]:
        return sorted(self._served)

    def served(self, name: str) -> ServedCollection:
        """Return the state of a collection in this process."""
        if name not in self._served:
            raise Unknown(f"there is no collection {name[:64]!r}")
        return self._served[name]

    def create(self, name: str, *, width: int, settings: dict[str, Any] | None = None) -> None:
        """Make an empty collection of vectors with `width` numbers.

        Its settings may name "learners", the one that is "served", and "control", the share that is not (`Control`).
        """
        self.store.create(name, width=width, settings=_checked(settings or {}, {}))
        self.refresh()

    def configure(self, name: str, settings: dict[str, Any]) -> None:
        """Change the settings of a collection; other learners than before learn from the whole log."""
        before = self.served(name).collection.settings
        settings = _checked(settings, before)
        self.store.configure(name, settings, relearn=settings.get("learners") != before.get("learners"))
        self.refresh()

    def drop(self, name: str) -> None:
        """Remove a collection with its items, its log and its models."""
        self.served(name)
        self.store.drop(name)
        self.refresh()

    def put_items(self, name: str, items: Iterable[Mapping[str, Any]]) -> int:
        """Add or change items {"id": ..., "vector": [...], "payload": {...}}; return how many."""
        width = self.served(name).collection.width
        vectors = ((item, check_vector(item["vector"], width, f"items[{at}].vector")) for at, item in enumerate(items))
        new = [NewItem(str(item["id"]), vector, dict(item.get("payload") or {})) for item, vector in vectors]
        self.store.put_items(name, new)
        self.refresh()
        return len(new)

    def delete_items(self, name: str, ids: Sequence[str]) -> int:
        """Delete items; return how many there were."""
        self.served(name)
        n = self.store.delete_items(name, ids)
        self.refresh()
        return n

    def resolve(self, name: str, query: Mapping[str, Any]) -> Query:
        """Return the vector of a query that has one of "vector", "item" (an id) and "text", and perhaps an "id"."""
        served = self.served(name)
        kinds = [kind for kind in ("vector", "item", "text") if query.get(kind) is not None]
        if len(kinds) != 1:
            raise ValueError(f"query must have one of vector, item and text, got {' and '.join(kinds) or 'none'}")
        value, id = query[kinds[0]], query.get("id")
        if kinds == ["item"]:
            row = self.row(name, str(value))
            return Query(served.index.vector(row), row, id)
        if kinds == ["vector"]:
            return Query(check_vector(value, served.collection.width, "query.vector"), None, id)
        if name not in self.encoders:
            raise ValueError(f"query.text needs an encoder, but {name!r} has none: give a vector or an item")
        vector = check_vector(self.encoders[name](value), served.collection.width, "the vector of query.text")
        return Query(vector, None, value if id is None else id)

    def row(self, name: str, id: str) -> int:
        """Return the row of an item; raise Unknown if there is none with this id."""
        (row,) = self.rows(name, [id])
        if row is None:
            raise Unknown(f"there is no item {id[:64]!r} in {name!r}")
        return row

    def rows(self, name: str, ids: Sequence[str]) -> list[int | None]:
        """Return the row of each item; None if there is none with its id."""
        index = self.served(name).index
        if not index.holds(ids):  # another process may have just added it
            index.refresh(self.store)
        return [index.row(id) for id in ids]

    def search(
        self,
        name: str,
        query: Mapping[str, Any] | Query,
        k: int = 10,
        filter: Any = None,
        plain: bool = False,
        user: str | None = None,
    ) -> tuple[int, list[Found]]:
        """Return the version that ranked, and the k best items for a query of a user; `plain`: by version 0."""
        served = self.served(name)
        model = PLAIN_MODEL if plain else served.model
        resolved = query if isinstance(query, Query) else self.resolve(name, query)
        return model.version, served.ranked(resolved, model, k, payload_filter(filter) if filter else None, user)

    def versions(self, name: str) -> list[Version]:
        """Return the versions that are kept, the newest first."""
        self.served(name)
        return self.checkpoints.versions(name)

    def pin(self, name: str, version: int | None) -> ServedModel:
        """Serve a version that is kept, 0 for the plain ranking or None for the newest; learning continues."""
        self.served(name)
        self.checkpoints.pin(name, version)
        self.refresh()
        return self.served(name).model

    def forget_user(self, name: str, user: str) -> int:
        """Delete what a user did and searched for, and learn again without it; return how many of both there were."""
        self.served(name)
        self.writer.flush()  # what the user did a moment ago
        if (n := self.store.forget_user(name, user)) == 0:
            raise Unknown(f"there is nothing of a user {user[:64]!r} in {name!r}")
        return n


def _checked(settings: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the time since which there is a control share; raise ValueError if they are not valid."""
    settings = started(settings, before)
    if settings:
        from mahala_search.serve.learning.learners import check_settings  # here: it loads all that learns

        check_settings(settings)
    return settings
