"""Writer: a thread that writes what many requests wait for in one transaction."""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from mahala_search.sidecar.records import Unavailable, Work, Written
from mahala_search.sidecar.store.spool import Group as SpooledGroup
from mahala_search.sidecar.store.spool import Spool
from mahala_search.sidecar.store.store import Store

log = logging.getLogger("mahala_search")

# Works that one transaction takes, works in the queue and groups in the spool beyond which more go to the spool.
MOST, WAITING, BEHIND = 200, 5_000, 100
# Seconds of a transaction after which the works that wait for it go to the spool.
_PATIENCE = 0.15
# Seconds between two looks whether the database can be written, and after which it counts as one that cannot.
_PROBE, _STALLED = 0.3, 0.4


class _Group(NamedTuple):
    space_id: str
    works: Sequence[Work]
    future: asyncio.Future[Any]


class Writer:
    """Writes works in the order of the calls, many groups in one transaction.

    While the database is locked, full, deleted or slow, works go to a spool on the disk, as searches always do if the
    database is a file. They are written from there once that is possible, before all that comes later. A work that was
    written twice counts once.

    Parameters
    ----------
    store : where it writes
    spool : the file of the spool, that of all processes of this host that write there
    """

    def __init__(self, store: Store, spool: str | os.PathLike[str]) -> None:
        self._store, self._spool = store, Spool(spool)
        self._queue = deque[_Group]()
        self._n_waiting, self._n_spooled = 0, len(self._spool)  # works in the queue; groups in the spool when it looked
        self._condition = threading.Condition()
        self._is_open = True
        self._problem: str | None = None
        self._busy = 0.0  # since when the database is waited for; 0 if it is not
        self._spooling = ThreadPoolExecutor(8, "mahala-spool")
        self._thread = threading.Thread(target=self._run, name="mahala-writer", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why the database cannot be written at the moment."""
        busy = self._busy
        if self._problem is None and busy and (seconds := time.monotonic() - busy) > _STALLED:
            return f"the database has not answered for {seconds:.1f} seconds"
        return self._problem

    def status(self) -> dict[str, int]:
        """Return how many works wait in memory, and groups of works on the disk."""
        return {"queued": self._n_waiting, "spooled": self._n_spooled}

    async def record(self, space_id: str, works: Sequence[Work]) -> bool:
        """Keep searches; return whether all that comes later finds them, in whichever process.

        A search need not wait for the transaction that is under way: nothing that comes to this host is written before
        what is in the spool. Other hosts find it in their common database. Nothing is kept of a search that is not
        found, as it gets no id.
        """
        if self.problem is not None:
            return False
        if not self._store.database.is_sqlite:
            return await self._written(space_id, works, first=True) is not None
        await self._append(space_id, works)
        return True

    async def submit(self, space_id: str, works: Sequence[Work]) -> tuple[list[Written], bool]:
        """Return what became of each work, and True, once that is durable in the database.

        If the database cannot be written, or a transaction takes long, return False, once the works are durable in the
        spool. Unavailable is raised if they are not written anywhere.
        """
        if self.problem is None and self._n_spooled <= BEHIND and self._n_waiting + len(works) <= WAITING:
            written = await self._written(space_id, works)
            if written is not None:
                return written, True
        await self._append(space_id, works)
        return [Written(True)] * len(works), False

    async def _written(self, space_id: str, works: Sequence[Work], *, first: bool = False) -> list[Written] | None:
        """Return what became of works once they are in the database, or None if they are not written there in time."""
        future = self._put(_Group(space_id, works, asyncio.get_running_loop().create_future()), first)
        with contextlib.suppress(Unavailable):
            while not (await asyncio.wait([future], timeout=_PATIENCE / 3.0))[0] and not self._is_slow():
                pass  # it is its turn soon: others are written meanwhile
            if future.done() or not future.cancel():
                written: list[Written] = future.result()
                return written
        return None

    async def _append(self, space_id: str, works: Sequence[Work]) -> None:
        if not self._is_open:
            raise Unavailable("the sidecar is stopping: nothing was written")
        await asyncio.get_running_loop().run_in_executor(self._spooling, self._spool.append, space_id, works)
        with self._condition:
            self._n_spooled += 1
            self._condition.notify()

    def _is_slow(self) -> bool:
        """Return whether the transaction that is under way takes long."""
        return bool(busy := self._busy) and time.monotonic() - busy > _PATIENCE

    def _put(self, group: _Group, first: bool) -> asyncio.Future[Any]:
        with self._condition:
            if not self._is_open:
                raise Unavailable("the sidecar is stopping: nothing was written")
            (self._queue.appendleft if first else self._queue.append)(group)
            self._n_waiting += len(group.works)
            self._condition.notify()
        return group.future

    def _run(self) -> None:
        while self._is_open or self._queue:
            with self._condition:
                if not self._queue and self._is_open and not self._n_spooled:
                    self._condition.wait(_PROBE)
                groups = self._taken()
            self._busy = time.monotonic()
            results: Sequence[Any]
            try:
                # The spool may have grown since: what groups refer to is in the part that was there.
                self._spool.replay(self._write)
                self._n_spooled = len(self._spool)
                results = self._write([(group.space_id, group.works) for group in groups])
                if not groups:
                    self._store.database.check(by_writing=self._problem is not None)
                self._say(None)
            except Exception as error:  # whatever it is, the futures get it, and the thread continues
                problem = str(error) if isinstance(error, Unavailable) else f"writing failed: {error!r}"
                results = [Unavailable(problem)] * len(groups)  # they go to the spool
                self._say(problem)
                if not groups and self._is_open:
                    time.sleep(_PROBE)
            self._busy = 0.0
            _settle(groups, results)

    def _taken(self) -> list[_Group]:
        """Take the groups of the next transaction; those that were cancelled are spooled."""
        groups, n = list[_Group](), 0
        while self._queue and n < MOST:
            group = self._queue.popleft()
            self._n_waiting -= len(group.works)
            if not group.future.cancelled():
                groups.append(group)
                n += len(group.works)
        return groups

    def _write(self, groups: Sequence[SpooledGroup]) -> list[Any]:
        """Write groups, each for itself if they cannot be written together: one must not stop all others for ever."""
        self._busy = time.monotonic()
        try:
            return list(self._store.write(groups)) if groups else []
        except Unavailable:
            raise
        except Exception as error:
            if len(groups) == 1:
                log.exception("works cannot be written, and are dropped")
                return [error]
            return [result for group in groups for result in self._write([group])]

    def _say(self, problem: str | None) -> None:
        if problem is not None and self._problem is None:
            log.warning("nothing can be written to the database: %s", problem)
        elif problem is None and self._problem is not None:
            log.warning("the database can be written again")
        self._problem = problem

    def close(self) -> None:
        """Write all that was submitted; what cannot be written goes to the spool."""
        with self._condition:
            self._is_open = False
            self._condition.notify()
        self._thread.join()
        self._spooling.shutdown()
        self._spool.close()


def _settle(groups: Sequence[_Group], results: Sequence[Any]) -> None:
    """Give the results to the futures; a loop is woken once for all that were written together."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for group, result in zip(groups, results, strict=True):
        by_loop.setdefault(group.future.get_loop(), []).append((group.future, result))
    for loop, settled in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_set, settled)


def _set(settled: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in settled:
        if future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
