"""Resolving: a thread that asks the engines of teams for the vectors of items that were shown."""

from __future__ import annotations

import logging
import threading
import time

import numpy as np

from mahala_search.sidecar.records import Space, Unavailable, Unknown
from mahala_search.sidecar.resolvers.base import Encode, Resolver, new_encoder, new_resolver
from mahala_search.sidecar.store.store import Store

log = logging.getLogger("mahala_search")

# Items and queries that are asked for at a time.
_BATCH = 200
# Seconds between two looks for items that were asked for in vain never, once, twice, ...; after that, not any more.
_WAITS = (0.5, 10.0, 60.0, 600.0, 3600.0)


class Resolving:
    """Resolves what is missing in all spaces that have a resolver.

    `problems` has by space why its resolver does not answer; nothing counts as absent then.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.problems: dict[str, str] = {}
        self._resolvers: dict[
            str, tuple[object, Resolver, Encode | None]
        ] = {}  # by the id of the space, with its settings
        self._due = [0.0 for _ in _WAITS]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mahala-resolving", daemon=True)

    def start(self) -> None:
        """Resolve in the background until this is closed."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and leave the engines."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for _, resolver, _ in self._resolvers.values():
            resolver.close()

    def _run(self) -> None:
        while not self._stop.wait(_WAITS[0]):
            try:
                self.step()
            except Unavailable as error:
                log.info("resolving waits: %s", error)

    def step(self) -> None:
        """Ask once for all that is due."""
        tries, problems = [at for at, due in enumerate(self._due) if time.monotonic() >= due], dict[str, str]()
        if not tries:
            return
        for space in [one for one in self._store.spaces().values() if one.settings.resolver is not None]:
            try:
                for n in reversed(tries):  # so that nothing is asked for twice now
                    self._resolve(space, n)
            except Unavailable:
                raise
            except Unknown:  # the space was deleted meanwhile
                continue
            except Exception as error:  # of any engine's client
                problems[space.name] = f"the resolver: {error}"
        self.problems = problems
        for at in tries:
            self._due[at] = time.monotonic() + _WAITS[at]

    def _resolve(self, space: Space, tries: int) -> None:
        """Ask for the vectors of all items and queries that were asked for in vain this often."""
        resolver, encode = self._resolver(space)
        while (ids := self._store.missing(space.id, _BATCH, tries)) and not self._stop.is_set():
            vectors, shape = resolver.vectors(ids), (space.settings.width,)
            known = {id: one for id, one in vectors.items() if one.shape == shape and np.isfinite(one).all()}
            self._store.add_vectors(space.id, known, [id for id in ids if id not in known])
            for id in vectors.keys() - known.keys():
                raise ValueError(f"the vector of {id!r} must have {shape[0]} finite numbers")
        while encode is not None and (texts := self._store.missing_queries(space.id, _BATCH, tries)):
            encoded = encode(list(texts.values()))
            self._store.add_vectors(space.id, {}, queries=dict(zip(texts, encoded, strict=True)))

    def _resolver(self, space: Space) -> tuple[Resolver, Encode | None]:
        settings = space.settings.resolver
        known = self._resolvers.get(space.id)
        if known is None or known[0] != settings:
            assert settings is not None
            known = self._resolvers[space.id] = settings, new_resolver(settings), new_encoder(settings)
        return known[1:]
