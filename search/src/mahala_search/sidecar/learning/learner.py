"""SpaceLearner: the learner of a space at a place of its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import save

from mahala.extend import check_params, learner_from_bytes
from mahala_search.adapter.memory.remembered import digest_of
from mahala_search.adapter.query_adapter import Page, QueryAdapter
from mahala_search.adapter.trust.signals import check_signals
from mahala_search.arrays import FloatArray
from mahala_search.sidecar.records import Entry
from mahala_search.sidecar.store.checkpoints import Checkpoint

# Parameters of an adapter where the settings of a space name no others.
DEFAULT = {"user_cap": 5, "random_state": 0}


def new_adapter(params: Mapping[str, Any]) -> QueryAdapter:
    """Return an adapter by its parameters.

    ValueError is raised if it cannot be made.
    """
    values = DEFAULT | dict(params)
    try:
        adapter = QueryAdapter(**values)
        check_params(adapter)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"the learner cannot be made: {error}") from None
    return adapter


class SpaceLearner:
    """An adapter and the place of the last entry that it has learned; its state depends on the entries alone."""

    def __init__(self, params: Mapping[str, Any], generation: int, checkpoint: Checkpoint | None = None) -> None:
        self.generation, self.place = generation, 0
        self.n_refused = 0
        self._names: dict[int, str] = {}  # ids of items by their digests
        if checkpoint is None:
            self.adapter = new_adapter(params)
            return
        self.place = checkpoint.place
        self.n_refused = int(checkpoint.status.get("refused", 0))
        self._names = {int(digest_of(name)): name for name in checkpoint.names}
        self.adapter = learner_from_bytes(checkpoint.state) if checkpoint.state else new_adapter(params)

    def learn(self, entries: Sequence[Entry], vectors: Mapping[str, FloatArray]) -> None:
        """Learn from the next entries of the log, at least one; `vectors` are those of their items."""
        queries = np.array([entry.query.vector for entry in entries], dtype=np.float64)
        for entry, query in zip(entries, queries, strict=True):
            digests = [int(digest_of(id)) for id in entry.ids]
            self._names.update(zip(digests, entry.ids, strict=True))
            items = np.array([vectors[id] for id in entry.ids], dtype=np.float64)
            values = np.array(entry.values, dtype=np.float64)
            try:
                signals = None if entry.signals is None else check_signals(entry.signals, len(entry.ids))
                keys, ranks = np.array(digests, dtype=np.uint64), np.array(entry.positions) - 1
                self.adapter.learn_page(
                    Page(query, items, values, keys, entry.query.key, entry.user, ranks, signals, entry.first)
                )
            except (TypeError, ValueError):  # of its signals
                self.n_refused += 1
            self.place = entry.place

    def maps(self) -> tuple[bytes, list[str]]:
        """Return the maps that are served, empty before anything was learned, and the names of remembered items."""
        if not self.adapter.__sklearn_is_fitted__():
            return b"", []
        maps = self.adapter.maps()
        remembered = np.unique(maps.bonuses.items).tolist()
        return save(maps.to_arrays()), [self._names[key] for key in remembered if key in self._names]

    def state(self) -> bytes:
        """Return the state of the adapter, empty before anything was learned."""
        return bytes(self.adapter.to_bytes()) if self.adapter.__sklearn_is_fitted__() else b""

    def status(self) -> dict[str, Any]:
        """Return the status of the learner, as JSON."""
        adapter, status = self.adapter, {"refused": self.n_refused, "generation": self.generation}
        if not adapter.__sklearn_is_fitted__():
            return status | {"impressions": 0, "learned": 0, "trust": {"new": 0.0, "known": 0.0}}
        return status | {
            "impressions": adapter.n_impressions_,
            "learned": adapter.n_learned_,
            "trust": adapter.trust_,
            "verdict": adapter.verdict_.sentence,
        }
