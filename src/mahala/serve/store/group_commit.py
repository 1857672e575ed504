"""GroupCommit: a thread that writes what many requests wait for in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from mahala.serve.store.collection_store import Store
from mahala.serve.store.database import Unavailable
from mahala.serve.store.events import Events
from mahala.serve.store.rows import LogEntry
from mahala.serve.store.searches import Search, delete_old_searches

# Groups of entries that one transaction takes, and groups in the queue beyond which more are refused.
MOST, WAITING = 512, 4096
# Seconds from the beginning of a transaction with several groups to the next one, which takes more of them: a
# transaction takes forty times as long as an entry. Sequential clients are not delayed.
_GATHERING = 0.02
# Seconds after which a search is written, unless a transaction comes before; and between two deletions of old ones.
_RECORDING, _DELETING = 0.1, 10.0

# The places of entries in the log; of events, places or why there is none; or why nothing was written.
_Result = list[int] | list[int | str] | Exception
_Group = tuple[str, Sequence[LogEntry] | Events, asyncio.Future[Any]]
_Recorded = tuple[str, Search]

log = logging.getLogger("mahala.serve")


class GroupCommit:
    """Writes to the log in the order of the calls; a result means that the entries are on the disk.

    Entries that come while a transaction is being committed are written by the next one: the disk is flushed once for
    many. If it fails, all its entries fail, and none is in the log.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: queue.Queue[_Group | _Recorded | None] = queue.Queue(WAITING)
        self._deletion = time.monotonic() + _DELETING  # when old searches are deleted
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mahala-log", daemon=True)
        self._thread.start()

    async def append(self, name: str, entries: Sequence[LogEntry]) -> list[int]:
        """Return the places of the entries in the log of a collection, once they are durable."""
        return list(await self._put(name, entries))

    async def append_events(self, name: str, events: Events) -> list[int | str]:
        """Return the place of each reaction in the log, or why it is ignored, once all are durable."""
        return list(await self._put(name, events))

    async def _put(self, name: str, group: Sequence[LogEntry] | Events) -> Any:
        if self._stopping.is_set():
            raise Unavailable("the service is stopping: nothing was written")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((name, group, future))
        except queue.Full:
            raise Unavailable("too much waits to be written already: try again later") from None
        return await future

    def record(self, name: str, search: Search) -> None:
        """Have a search written in the background; it is dropped if too much waits to be written already."""
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait((name, search))

    def close(self) -> None:
        """Write what is in the queue, and stop."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        after, due, is_open = 0.0, math.inf, True
        searches: list[_Recorded] = []
        while is_open:
            batch: list[_Group | _Recorded | None] = []
            with contextlib.suppress(queue.Empty):
                batch.append(self._queue.get(timeout=max(0.0, due - time.monotonic()) if searches else None))
                self._stopping.wait(after - time.monotonic())
                while len(batch) < MOST and not self._queue.empty():
                    batch.append(self._queue.get())
            started, is_open = time.monotonic(), None not in batch
            groups = [one for one in batch if one is not None and len(one) == 3]
            due = due if searches else started + _RECORDING
            searches += [one for one in batch if one is not None and len(one) == 2]
            if groups or (searches and (started >= due or not is_open or len(searches) >= MOST)):
                self._write(groups, searches)
                searches, after = [], started + _GATHERING if len(groups) > 1 else 0.0

    def _write(self, groups: Sequence[_Group], searches: Sequence[_Recorded]) -> None:
        results: Sequence[_Result]
        try:
            results = self._store.append_all([(name, group) for name, group, _ in groups], searches)
            if searches and time.monotonic() >= self._deletion:
                self._deletion = time.monotonic() + _DELETING
                delete_old_searches(self._store.database)
        except Exception as error:  # whatever it is, the futures get it, and the thread continues
            results = [error] * len(groups)
            if searches:
                log.warning("%d searches were not recorded: %s", len(searches), error)
        # A loop is woken once for all that were written together.
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], _Result]]] = {}
        for (*_, future), result in zip(groups, results, strict=True):
            by_loop.setdefault(future.get_loop(), []).append((future, result))
        for loop, settled in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: list[tuple[asyncio.Future[Any], _Result]]) -> None:
    for future, result in settled:
        if future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
