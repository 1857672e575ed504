"""GroupCommit: a thread that writes what many requests wait for in one transaction."""

import asyncio
import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.database import Unavailable
from mahala_search.serve.store.rows import LogEntry
from mahala_search.serve.store.searches import DELETED, Events, Search, delete_old_searches

log = logging.getLogger("mahala_search")

# Groups of entries that one transaction takes, and entries in the queue beyond which more are refused.
MOST, WAITING = 512, 10_000
# Seconds from the beginning of a transaction with several groups to the next one, which takes more of them: a
# transaction takes forty times as long as an entry. Sequential clients are not delayed.
_GATHERING = 0.02
# Seconds after a write that failed before it is tried whether the database can be written again.
_PAUSE = 3.0
# Seconds after which a search is written, unless a transaction comes before.
_RECORDING = 0.1
# Seconds to wait for all that is in the queue.
_FLUSHING = 10.0
# Seconds between two deletions of old searches, and if one has left some: 2,000 per second are deleted then.
_DELETING, _DELETING_MORE = 10.0, 1.0

# The places of entries in the log; of events, places or why there is none; or why nothing was written.
_Result = list[int] | list[int | str] | Exception
_Group = tuple[str, Sequence[LogEntry] | Events, asyncio.Future[Any]]
_Recorded = tuple[str, Search]
_Marker = threading.Event  # set once all before it is written


class GroupCommit:
    """Writes to the log in the order of the calls; a result means that the entries are on the disk.

    Entries that come while a transaction is being committed are written by the next one: the disk is flushed once for
    many. If it fails, all its entries fail, and none is in the log. `problem` says why the last write failed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.problem: str | None = None
        self._failed = 0.0  # when that was
        self._queue: queue.SimpleQueue[_Group | _Recorded | _Marker | None] = queue.SimpleQueue()
        self._n_waiting = 0  # entries and searches
        self._counting = threading.Lock()
        self._deletion = time.monotonic() + _DELETING  # when old searches are deleted
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mahala-log", daemon=True)
        self._thread.start()

    async def append(self, name: str, group: Sequence[LogEntry] | Events) -> list[Any]:
        """Return the place in the log of each entry or reaction, or why a reaction is ignored, once all are durable."""
        if self._stopping.is_set():
            raise Unavailable("the service is stopping: nothing was written")
        if not self._admit(len(group)):
            raise Unavailable(f"{self._n_waiting:,} entries wait to be written already: try again later")
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._queue.put((name, group, future))
        return await future

    def record(self, name: str, search: Search) -> None:
        """Have a search written in the background; it is dropped if half of what may wait does so already."""
        if self._admit(1, 0.5):
            self._queue.put((name, search))

    def _admit(self, n: int, share: float = 1.0) -> bool:
        """Count n more that wait to be written, and return True; or False if a share of the queue has no room."""
        with self._counting:
            is_free = self._n_waiting + n <= share * WAITING
            self._n_waiting += n * is_free
        return is_free

    def flush(self) -> None:
        """Wait until all that is in the queue is written, here and in other processes that record searches."""
        marker = _Marker()
        self._queue.put(marker)
        marker.wait(0.0 if self._stopping.is_set() else _FLUSHING)
        time.sleep(2.0 * _RECORDING)  # the others have no queue that this process knows

    def check(self) -> None:
        """Try whether the database can be written again, some time after a write has failed."""
        if self.problem is not None and time.monotonic() > self._failed + _PAUSE:
            self._store.database.check_writing()
            self.problem = None
            log.warning("the database can be written again")

    def close(self) -> None:
        """Write what is in the queue, and stop."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        after, due, is_open = 0.0, math.inf, True
        searches: list[_Recorded] = []
        while is_open:
            batch: list[_Group | _Recorded | _Marker | None] = []
            with contextlib.suppress(queue.Empty):
                batch.append(self._queue.get(timeout=max(0.0, due - time.monotonic()) if searches else None))
                self._stopping.wait(after - time.monotonic())
                while len(batch) < MOST and not self._queue.empty():
                    batch.append(self._queue.get())
            started, is_open = time.monotonic(), None not in batch
            markers = [one for one in batch if isinstance(one, _Marker)]
            groups = [one for one in batch if isinstance(one, tuple) and len(one) == 3]
            due = due if searches else started + _RECORDING
            searches += [one for one in batch if isinstance(one, tuple) and len(one) == 2]
            if groups or (searches and (started >= due or not is_open or markers or len(searches) >= MOST)):
                self._write(groups, searches)
                searches, after = [], started + _GATHERING if len(groups) > 1 else 0.0
            for marker in markers:
                marker.set()

    def _write(self, groups: Sequence[_Group], searches: Sequence[_Recorded]) -> None:
        results: Sequence[_Result]
        try:
            results = self._store.append_all([(name, group) for name, group, _ in groups], searches)
            self.problem = None
        except Exception as error:  # whatever it is, the futures get it, and the thread continues
            results = [error] * len(groups)
            if isinstance(error, Unavailable):
                if self.problem is None:
                    log.warning("nothing can be written: %s", error)
                self.problem, self._failed = str(error), time.monotonic()
            elif searches:
                log.warning("%d searches were not recorded: %s", len(searches), error)
        with self._counting:
            self._n_waiting -= len(searches) + sum(len(group) for _, group, _ in groups)
        # A loop is woken once for all that were written together.
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], _Result]]] = {}
        for (*_, future), result in zip(groups, results, strict=True):
            by_loop.setdefault(future.get_loop(), []).append((future, result))
        for loop, settled in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, settled)
        if searches and time.monotonic() >= self._deletion:
            self._deletion = time.monotonic() + _DELETING
            with contextlib.suppress(Unavailable):  # next time; what was written above is acknowledged
                if delete_old_searches(self._store.database) >= DELETED:
                    self._deletion = time.monotonic() + _DELETING_MORE


def _settle(settled: list[tuple[asyncio.Future[Any], _Result]]) -> None:
    for future, result in settled:
        if future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
