"""GroupCommit: a thread that writes what many requests wait for in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from mahala.serve.store.database import Unavailable
from mahala.serve.store.records import Entry
from mahala.serve.store.store import Store

# Groups of entries that one transaction takes, and that may wait before more are refused.
MOST, WAITING = 512, 4096
# Seconds from the beginning of a transaction with several groups to the next one, which takes more of them: a
# transaction takes forty times as long as an entry. One who waits for each answer before the next request never waits.
_GATHERING = 0.02

_Future = Future[list[int]] | asyncio.Future[list[int]]
_Waiting = tuple[str, Sequence[Entry], _Future]


class GroupCommit:
    """Writes to the log in the order in which it is asked; a result means that the entries are on the disk.

    While one transaction is being committed others wait, and the next one takes all of them: the disk is flushed once
    for many. If it fails, all that it held fail, and none is in the log.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(WAITING)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mahala-log", daemon=True)
        self._thread.start()

    def append(self, name: str, entries: Sequence[Entry], future: _Future) -> None:
        """Let a future become the places of the entries in the log of a collection, once they are durable.

        It may be one of an event loop, which is woken once for all that were written together.
        """
        try:
            if self._stopping.is_set():
                raise Unavailable("the service is stopping: nothing was written")
            self._queue.put_nowait((name, entries, future))
        except queue.Full:
            future.set_exception(Unavailable("too much waits to be written already: try again later"))
        except Unavailable as error:
            future.set_exception(error)

    def close(self) -> None:
        """Write what waits, and stop."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        after = 0.0
        while (first := self._queue.get()) is not None:
            self._stopping.wait(after - time.monotonic())
            after = time.monotonic() + _GATHERING
            waiting, last = [first], False
            while len(waiting) < MOST and not self._queue.empty():
                one = self._queue.get()
                if one is None:
                    last = True
                    break
                waiting.append(one)
            self._write(waiting)
            if last:
                return
            if len(waiting) == 1:
                after = 0.0

    def _write(self, waiting: list[_Waiting]) -> None:
        futures = [future for _, _, future in waiting]
        try:
            results = self._store.append_all([(name, entries) for name, entries, _ in waiting])
        except Exception as error:  # whatever it is, those who wait must hear of it, and the thread continues
            results = [error] * len(futures)
        of_loop: dict[asyncio.AbstractEventLoop | None, list[tuple[_Future, list[int] | Exception]]] = {}
        for future, result in zip(futures, results, strict=True):
            loop = future.get_loop() if isinstance(future, asyncio.Future) else None
            of_loop.setdefault(loop, []).append((future, result))
        for loop, told in of_loop.items():
            if loop is None:
                _settle(told)
            else:
                with contextlib.suppress(RuntimeError):  # it is closed: no one waits any more
                    loop.call_soon_threadsafe(_settle, told)


def _settle(told: list[tuple[_Future, list[int] | Exception]]) -> None:
    for future, result in told:
        if future.done():  # given up by the one who waited
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
