"""Learning from the log, exactly once: models and their place in the log are written together."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import save

from mahala.compiled.search.ranking import ndcg
from mahala.feedback.gains import RunningGain
from mahala.feedback.query_adapter import QueryAdapter
from mahala.online.similarity_learner import SimilarityLearner
from mahala.saved_estimator import learner_from_bytes
from mahala.serve.store.checkpoints import Checkpoints, Lease, LeaseLost, Version
from mahala.serve.store.records import Collection, Entry
from mahala.serve.store.store import Store
from mahala.support.arrays import FloatArray

# What learns in a collection, unless its settings say otherwise.
DEFAULT: dict[str, dict[str, Any]] = {"adapter": {"user_cap": 5, "random_state": 0}}
# Entries that are learned between two looks at the lease and the clock.
_BLOCK = 128
# Seconds between two looks for new entries.
IDLE = 0.1
# A checkpoint is written after this many seconds, and not before three times as long as the last one took.
_SECONDS, _TIMES = 0.4, 3.0


def new_learner(params: dict[str, Any]) -> QueryAdapter:
    """Return an adapter by its parameters; its `learner` may be {"name": "OASIS", ...}."""
    import mahala

    given = dict(params)
    if isinstance(inner := given.get("learner"), dict):
        settings = {key: value for key, value in inner.items() if key != "name"}
        kind = getattr(mahala, str(inner.get("name")), None)
        if not (isinstance(kind, type) and issubclass(kind, SimilarityLearner)):
            raise ValueError(f"name of a learner must be that of a similarity learner, got {inner.get('name')!r:.40}")
        given["learner"] = kind(**settings)
    return QueryAdapter(**given)


class Learners:
    """The learners of a collection at a place of its log: all learn from the same entries, and one of them is served.

    What they become depends on the entries alone, not on where checkpoints are written.
    """

    def __init__(self, params: dict[str, dict[str, Any]], known: tuple[Version, dict[str, bytes]] | None) -> None:
        told: dict[str, Any] = {} if known is None else known[0].told
        states = {} if known is None else known[1]
        self.place = 0 if known is None else known[0].place
        self.ready = known is not None and known[0].ready
        self.n_refused = int(told.get("refused", 0))
        self.adapters = {
            name: learner_from_bytes(states[name]) if name in states else new_learner(own)
            for name, own in params.items()
        }
        # Who is ahead: the difference of the shares of pairs in the right order, for every two learners.
        before = {(one["of"], one["over"]): RunningGain(*one["sums"]) for one in told.get("differences", [])}
        # What each learner foresaw: the share of pairs in the right order, and the gain in nDCG of judged items.
        known_sums = told.get("sums", {})
        self.sums = {
            name: {kind: RunningGain(*known_sums.get(name, {}).get(kind, ())) for kind in ("foreseen", "judged")}
            for name in self.adapters
        }
        pairs = itertools.combinations(self.adapters, 2)
        self.differences = {pair: before.get(pair, RunningGain()) for pair in pairs}

    def learn(self, entry: Entry, vectors: Callable[[Sequence[int]], FloatArray]) -> None:
        """Learn from the next entry of the log."""
        query = entry.vector if entry.query is None else vectors([entry.query])[0]
        shown = vectors(entry.shown)
        right = {}
        for name, adapter in self.adapters.items():
            if entry.kind == "judgment":
                gain = _ndcg_gain(adapter.embed(query, entry.query_id), query, shown, entry.clicked)
                if np.isfinite(gain):
                    self.sums[name]["judged"].add(gain)
            try:
                right[name] = adapter.learn_one(
                    query, shown, list(entry.clicked), query_id=entry.query_id, user=entry.user
                )
            except ValueError:  # what this learner cannot take, such as grades
                self.n_refused += 1
            if (share := right.get(name)) is not None:
                self.sums[name]["foreseen"].add(share)
        for (of, over), difference in self.differences.items():
            one, other = right.get(of), right.get(over)
            if one is not None and other is not None:
                difference.add(one - other)
        self.place = entry.place

    def parts(self) -> dict[str, tuple[bytes, bytes]]:
        """Return the state of each learner that has begun, and the maps that it serves."""
        begun = {name: adapter for name, adapter in self.adapters.items() if adapter.__sklearn_is_fitted__()}
        return {name: (adapter.to_bytes(), save(adapter.maps().to_arrays())) for name, adapter in begun.items()}

    def told(self) -> dict[str, Any]:
        """Return what can be said about the learners, as JSON."""
        return {
            "learners": {name: _told(adapter, self.sums[name]) for name, adapter in self.adapters.items()},
            "sums": {name: {kind: list(sums) for kind, sums in own.items()} for name, own in self.sums.items()},
            "differences": [
                {"of": of, "over": over, "sums": list(sums), **_interval(sums)}
                for (of, over), sums in self.differences.items()
            ],
            "refused": self.n_refused,
        }


def _ndcg_gain(served: FloatArray, query: Any, shown: FloatArray, grades: Sequence[float]) -> float:
    """Return the nDCG at 10 of judged items as they are served, minus that of their plain ranking; NaN without any."""
    n = len(shown)
    values = ndcg(
        np.array([shown @ served, shown @ query]), np.array([0, n, 2 * n]), np.tile(np.arange(n), 2),
        np.tile(np.asarray(grades, dtype=np.float64), 2), 10,
    )  # fmt: skip
    return float(values[0] - values[1])


def _told(adapter: QueryAdapter, sums: dict[str, RunningGain]) -> dict[str, Any]:
    if not adapter.__sklearn_is_fitted__():
        return {"impressions": 0, "learned": 0, "trust": {"new": 0.0, "known": 0.0}, "gain": None, "verdict": ""}
    gains, n = adapter.stream_gains_, sums["foreseen"].n
    more = sum(gain.n * gain.mean for gain in gains.values()) / max(n, 1)
    told = {kind: gain._asdict() for kind, gain in gains.items()}
    if judged := _interval(sums["judged"]):
        told["judged"] = {"measure": "nDCG@10", "n": sums["judged"].n, **judged}
    return {
        "foreseen": {"n": n, "served": sums["foreseen"].mean, "plain": sums["foreseen"].mean - more},
        "gains": told,
        "impressions": adapter.n_impressions_,
        "learned": adapter.n_learned_,
        "trust": adapter.trust_,
        "gain": None if adapter.gain_ is None else adapter.gain_._asdict(),
        "verdict": adapter.verdict_,
    }


def _interval(sums: RunningGain) -> dict[str, float]:
    gain = sums.gain() if sums.n else None
    return {} if gain is None else {"mean": float(gain.mean), "low": float(gain.low), "high": float(gain.high)}


class Learning:
    """Learns in all collections while this process has the lease."""

    def __init__(self, store: Store, checkpoints: Checkpoints) -> None:
        self.store, self.checkpoints = store, checkpoints
        self.lease: Lease | None = None
        self._renewal = 0.0  # when the lease is to be taken or renewed; to write without it is refused in any case
        self._learners: dict[str, tuple[Any, Learners]] = {}
        self._written: dict[str, int] = {}  # the place of the last checkpoint
        self._at: dict[str, float] = {}  # when the next one is due

    def step(self) -> float:
        """Learn for a moment; return for how many seconds there is nothing to do: 0 while entries wait.

        Without the lease, nothing is learned.
        """
        if time.monotonic() >= self._renewal:
            before, self.lease = self.lease, self.checkpoints.take_lease()
            self._renewal = time.monotonic() + self.checkpoints.seconds / 3.0
            if self.lease is None or self.lease != before:
                self._learners.clear()  # another process may have learned since
        if self.lease is None:
            return IDLE
        known = self.store.collections()
        for name in self._learners.keys() - known.keys():
            del self._learners[name]
        return min((self._step(collection) for collection in known.values()), default=IDLE)

    def _step(self, collection: Collection) -> float:
        name = collection.name
        own = self._of(collection)
        entries = list(self.store.read_log(name, own.place, _BLOCK))
        rows = sorted({row for entry in entries for row in entry.rows})
        if rows:
            X, place = self.store.vectors(name, rows), {row: at for at, row in enumerate(rows)}
            for entry in entries:
                own.learn(entry, lambda named: X[[place[row] for row in named]])
        caught_up = len(entries) < _BLOCK
        own.ready = own.ready or caught_up or collection.generation == 0
        # Also if nothing is left to learn again from: the models from before must go.
        unwritten = own.place > max(self._written[name], 0 if collection.generation == 0 else -1)
        wait = self._at.get(name, 0.0) - time.monotonic()
        if unwritten and wait <= 0.0:
            self._write(collection, own)
            unwritten = False
        return 0.0 if not caught_up else min(IDLE, wait) if unwritten else IDLE

    def _of(self, collection: Collection) -> Learners:
        name = collection.name
        params = collection.settings.get("learners") or DEFAULT
        stamp = (collection.generation, params)
        if name not in self._learners or self._learners[name][0] != stamp:
            known = self.checkpoints.newest(name, collection.generation)
            own = Learners(params, known)
            self._learners[name] = stamp, own
            self._written[name] = -1 if known is None else own.place
        return self._learners[name][1]

    def _write(self, collection: Collection, own: Learners) -> None:
        assert self.lease is not None, "only its holder learns"
        started = time.monotonic()
        try:
            self.checkpoints.write(
                collection.name,
                self.lease,
                place=own.place,
                generation=collection.generation,
                ready=own.ready,
                told=own.told(),
                parts=own.parts(),
            )
        except LeaseLost:
            del self._learners[collection.name]
            self._renewal = 0.0
            return
        self._written[collection.name] = own.place
        took = time.monotonic() - started
        self._at[collection.name] = time.monotonic() + max(_SECONDS, _TIMES * took)
