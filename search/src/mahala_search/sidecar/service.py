"""Sidecar: spaces in one database, with what each serves in this process; the HTTP interface stands on it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from mahala_search.sidecar.records import Settings, Space, Unavailable, Unknown
from mahala_search.sidecar.serving import Served
from mahala_search.sidecar.store.keys import ROLES as ROLES
from mahala_search.sidecar.store.keys import ApiKey as ApiKey
from mahala_search.sidecar.store.keys import Keys as Keys
from mahala_search.sidecar.store.store import Store
from mahala_search.sidecar.store.writer import Writer

log = logging.getLogger("mahala_search")

# Seconds between two looks at what other processes did, and at least between them if requests ask for one.
_POLL, _MOMENT = 0.25, 0.05
# Seconds that a request waits for a look.
_PATIENCE = 2.0
# Seconds for which a report is kept, and how many times as long as it took to make.
_FRESH, _TIMES = 2.0, 30.0


class Current(NamedTuple):
    """A space, what it serves in this process, the status of that version, and the secret that signs its tokens."""

    space: Space
    served: Served
    status: Mapping[str, Any]
    lost: str | None  # why the pinned version is not served
    secret: bytes

    @property
    def problem(self) -> str | None:
        """What is wrong with the space."""
        return self.lost or self.space.problem


class Sidecar:
    """Spaces whose queries are embedded in this process, and whose events are written to a database.

    Any number of processes may serve the same database. What was read of it is served while it cannot be read.

    Parameters
    ----------
    address : the file of an SQLite database, or postgresql://...
    spool : the file, that of all processes of this host, for what cannot be written at the moment
    """

    def __init__(self, address: str | os.PathLike[str], spool: str | os.PathLike[str]) -> None:
        self.store = Store(address)
        self.keys = Keys(self.store.database)
        self.writer = Writer(self.store, Path(spool))
        self._problem: str | None = None
        self._current: dict[str, Current] = {}
        self._looked, self._wanted = 0.0, threading.Event()
        self._refreshing, self._reporting = threading.Lock(), threading.Lock()
        self._reports: dict[tuple[str, str, Any], tuple[float, dict[str, Any]]] = {}
        self._stop = threading.Event()
        self.refresh()
        self._poller = threading.Thread(target=self._poll, name="mahala-poll", daemon=True)
        self._poller.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what waits, and close the database."""
        self._stop.set()
        self._wanted.set()
        self._poller.join()
        self.writer.close()
        self.store.close()

    def _poll(self) -> None:
        while not self._stop.wait(_MOMENT):
            self._wanted.wait(_POLL - _MOMENT)
            self._wanted.clear()
            try:
                self.refresh()
            except Unavailable as error:
                if self._problem is None:
                    log.warning("%s", error)
                self._problem = str(error)
            except Exception:  # what is here is served
                log.exception("the database could not be followed")

    def refresh(self) -> None:
        """Take in what other processes did."""
        with self._refreshing:
            looked = time.monotonic()
            self.keys.read()
            spaces = self.store.spaces()
            self._current = {name: self._follow(space) for name, space in spaces.items()}
            self._problem, self._looked = None, looked

    def _follow(self, space: Space) -> Current:
        """Return what a space serves; maps that are here are not read again."""
        before = self._current.get(space.name)
        if before is None or before.space.id != space.id:  # another one, also if the name is the same
            before = None
        elif before.space == space:
            return before
        model = self.store.served(space.id, before.served.version if before else None)
        if model is None and before is not None:
            served = replace(before.served, control=space.settings.control)
            return before._replace(space=space, served=served)
        assert model is not None
        served = Served.of(space, self.store.salt(space.id), model)
        return Current(space, served, model.status, model.problem, self.store.token_secret(space.id))

    @property
    def problem(self) -> str | None:
        """Why the database cannot be read or written at the moment, or None."""
        return self._problem or self.writer.problem

    @property
    def alerts(self) -> dict[str, str]:
        """What is wrong with spaces, by their names."""
        return {name: one.problem for name, one in sorted(self._current.items()) if one.problem}

    def spaces(self) -> list[Current]:
        """Return all spaces, by their names."""
        return [self._current[name] for name in sorted(self._current)]

    def lacks(self, name: str) -> bool:
        """Return whether a space is not here, but another process may have made it."""
        return bool(name) and name not in self._current

    async def look(self) -> None:
        """Wait until what other processes did so far is here, for a request that lacks its key or space."""
        asked = time.monotonic()
        self._wanted.set()
        while self._looked <= asked:
            if self.problem is not None or time.monotonic() > asked + _PATIENCE:
                raise Unavailable(self.problem or "the database does not answer")
            await asyncio.sleep(_MOMENT / 5.0)

    def space(self, name: str) -> Current:
        """Return a space by its name; raise Unknown if there is none."""
        if name not in self._current:
            raise Unknown(f"there is no space {name[:64]!r}")
        return self._current[name]

    def put(self, name: str, settings: Settings) -> Current:
        """Make a space, or change its settings."""
        control = settings.control
        self.refresh()
        if name in self._current:
            before = self._current[name].space.settings.control
            same = (before.share, before.mode) == (control.share, control.mode)
            since = before.since if same else time.time()
            self.store.configure(name, replace(settings, control=replace(control, since=since)))
        else:
            self.store.create(name, replace(settings, control=replace(control, since=time.time())))
        self.refresh()
        return self.space(name)

    def report(self, current: Current, value: str) -> dict[str, Any]:
        """Return the report of a space, which may be some seconds old, and older if it takes long to make."""
        from mahala_search.sidecar.experiment.report import make_report

        space = current.space
        key = space.id, value, space.settings.control
        until, report = self._reports.get(key, (0.0, {}))
        if time.monotonic() < until or (report and self._reporting.locked()):
            return report
        with self._reporting:
            started = time.monotonic()
            with self.store.reading() as connection:
                report = make_report(connection, space, value)
            progress = self.store.progress(space.id)
            report["counts"] = {"waiting": progress, "dropped": self.store.counts(space.id)}
            now = time.monotonic()
            self._reports[key] = now + max(_FRESH, _TIMES * (now - started)), report
        return report
