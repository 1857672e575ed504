"""Learning from the log, exactly once: models and their place in the log are written together."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import save

from mahala import OASIS, OGD, ModelFileError
from mahala.evaluation import Verdict
from mahala.extend import check_params, learner_from_bytes
from mahala_search.adapter.query_adapter import Page, QueryAdapter
from mahala_search.adapter.trust.signals import check_signals
from mahala_search.arrays import FloatArray, RealArray
from mahala_search.compiled.ranking import ndcg
from mahala_search.quality.gains import RunningGain
from mahala_search.serve.learning.taught import Answer, Taught, from_bytes, kept, taught, to_bytes
from mahala_search.serve.store.checkpoints import Checkpoints, LeaseLost, Version
from mahala_search.serve.store.collection_store import Store
from mahala_search.serve.store.rows import NAME, Collection, LogEntry

# The learners of a collection whose settings name none.
DEFAULT: dict[str, dict[str, Any]] = {"adapter": {"user_cap": 5, "random_state": 0}}
# The learners whose steps an adapter takes.
_STEPS = {"OASIS": OASIS, "OGD": OGD}
# The part of a checkpoint that holds answers about items; no learner can have this name.
_ANSWERS = "*answers"
# Entries that are learned between two looks at the lease and the clock.
_BLOCK = 128
# Seconds between two looks for new entries, and if there were some: more of them are learned together then.
IDLE, _GATHERING = 0.1, 0.25
# A version is written after this many seconds, and not before three times as long as the last one took.
_SECONDS, _TIMES = 0.8, 3.0
# Seconds after which a version also has the states of the learners, which are most of its bytes. What was learned since
# the last states is learned again after a restart.
_STATES = 10.0


def new_learner(params: dict[str, Any]) -> QueryAdapter:
    """Return an adapter by its parameters; its `learner` may be {"name": "OASIS", ...}."""
    values = dict(params)
    if isinstance(inner := values.get("learner"), dict):
        settings = {key: value for key, value in inner.items() if key != "name"}
        if (name := inner.get("name")) not in _STEPS:
            raise ValueError(f"name of a learner must be {' or '.join(_STEPS)}, got {name!r:.40}")
        values["learner"] = _STEPS[name](**settings)
    return QueryAdapter(**values)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ValueError unless the settings of a collection are known, and its learners can be made."""
    if settings.keys() - {"learners", "served", "title", "control"}:
        raise ValueError(f"settings must be learners, served, title and control, got {sorted(settings)}")
    learners = settings.get("learners")
    if learners is None:
        return
    if not isinstance(learners, dict) or not learners or not all(NAME.fullmatch(name) for name in learners):
        raise ValueError("learners must be an object of at least one name with its parameters")
    for name, params in learners.items():
        try:
            check_params(new_learner(params))
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"learners: {name} cannot be made: {error}") from None
    if settings.get("served") not in (None, *learners):
        raise ValueError(f"served must be one of {', '.join(learners)}, got {settings['served']!r:.40}")


class Learners:
    """The learners of a collection at a place of its log: all learn from the same entries, and one of them is served.

    Their states depend on the entries alone, not on where checkpoints are written.
    """

    def __init__(self, params: dict[str, dict[str, Any]], checkpoint: tuple[Version, dict[str, bytes]] | None) -> None:
        version, states = checkpoint or (Version(0, 0, 0, False, 0.0, {}), {})
        status = version.status
        self.place, self.ready = version.place, version.ready
        self.written = -1 if checkpoint is None else version.place  # the place of the last version
        self.saved = self.written  # and of the last states
        self.due = self.states_due = 0.0  # when the next ones are written
        self.n_refused = int(status.get("refused", 0))
        self.adapters = {
            name: learner_from_bytes(states[name]) if name in states else new_learner(settings)
            for name, settings in params.items()
        }
        self.answers = from_bytes(states[_ANSWERS]) if _ANSWERS in states else []
        self._taught: Taught | None = None  # what they teach, if it was computed
        # For every two learners, the difference of the shares of pairs in the right order.
        before = {(one["of"], one["over"]): RunningGain(*one["sums"]) for one in status.get("differences", [])}
        pairs = itertools.combinations(self.adapters, 2)
        self.differences = {pair: before.get(pair, RunningGain()) for pair in pairs}
        # Of each learner, before it learned: the share of pairs in the right order, and the gain in nDCG.
        sums = status.get("sums", {})
        self.sums = {
            name: {kind: RunningGain(*sums.get(name, {}).get(kind, ())) for kind in ("foreseen", "judged")}
            for name in self.adapters
        }

    def learn(self, entries: Sequence[LogEntry], vectors: Callable[[Sequence[int]], RealArray]) -> None:
        """Learn from the next entries of the log, at least one."""
        shown = np.array([row for entry in entries for row in entry.shown], dtype=np.uint64)
        clicked = np.array([reaction for entry in entries for reaction in entry.clicked], dtype=np.float64)
        rows = sorted({entry.query for entry in entries if entry.query is not None}.union(shown.tolist()))
        X, place = vectors(rows), {row: at for at, row in enumerate(rows)}
        at = np.searchsorted(rows, shown)
        named = [entry.vector if entry.query is None else X[place[entry.query]] for entry in entries]
        queries = np.array(named, dtype=np.float64)
        for adapter in self.adapters.values():
            adapter.expect(queries)
        start = 0
        for entry, query in zip(entries, queries, strict=True):
            part = slice(start, start := start + len(entry.shown))
            signals = None if entry.signals is None else check_signals(entry.signals, len(entry.shown))
            items, ranked = X[at[part]].astype(np.float64), entry.kind == "impression"
            page = Page(query, items, clicked[part], shown[part], entry.query_id, entry.user, ranked, signals)
            self._learn(entry, page)

    def _learn(self, entry: LogEntry, page: Page) -> None:
        right = {}
        for name, adapter in self.adapters.items():
            if entry.kind == "judgment":
                gain = _ndcg_gain(adapter.embed(page.query, entry.query_id), page.query, page.items, entry.clicked)
                if np.isfinite(gain):
                    self.sums[name]["judged"].add(gain)
            try:
                right[name] = adapter.learn_page(page)
            except ValueError:  # it has too many names of signals
                self.n_refused += 1
            if (share := right.get(name)) is not None:
                self.sums[name]["foreseen"].add(share)
        for (of, over), difference in self.differences.items():
            one, other = right.get(of), right.get(over)
            if one is not None and other is not None:
                difference.add(one - other)
        if (answer := Answer.of(entry)) is not None:
            self.answers.append(answer)
            self._taught = None
        self.place = entry.place

    def teach(self, vectors: Callable[[Sequence[int]], RealArray]) -> None:
        """Fit the map that answers about items teach, which is added to the maps of all learners."""
        if self._taught is None:
            self.answers = kept(self.answers)
            self._taught = taught(self.answers, vectors)

    def parts(self, with_states: bool = True) -> dict[str, tuple[bytes, bytes]]:
        """Return the state of each learner that has begun, and the maps that it serves, with what was taught.

        Without states, these are empty.
        """
        change = None if self._taught is None else self._taught.change
        result = {}
        for name, adapter in self.adapters.items():
            if adapter.__sklearn_is_fitted__():
                maps = adapter.maps() if change is None else adapter.maps().plus(change)
                result[name] = adapter.to_bytes() if with_states else b"", save(maps.to_arrays())
        return result | ({_ANSWERS: (to_bytes(self.answers), b"")} if self.answers and with_states else {})

    def status(self) -> dict[str, Any]:
        """Return the status of the learners, as JSON."""
        return {
            "learners": {name: _status(adapter, self.sums[name]) for name, adapter in self.adapters.items()},
            "sums": {name: {kind: list(sums) for kind, sums in kinds.items()} for name, kinds in self.sums.items()},
            "differences": [
                {"of": of, "over": over, "sums": list(sums), **(_interval(sums.verdict()) if sums.n else {})}
                for (of, over), sums in self.differences.items()
            ],
            "refused": self.n_refused,
            "taught": None if self._taught is None else self._taught.status,
        }


def _ndcg_gain(served: FloatArray, query: Any, shown: FloatArray, grades: Sequence[float]) -> float:
    """Return the nDCG at 10 of judged items as they are served, minus that of their plain ranking; NaN without any."""
    n = len(shown)
    values = ndcg(
        np.array([shown @ served, shown @ query]), np.array([0, n, 2 * n]), np.tile(np.arange(n), 2),
        np.tile(np.asarray(grades, dtype=np.float64), 2), 10,
    )  # fmt: skip
    return float(values[0] - values[1])


def _status(adapter: QueryAdapter, sums: dict[str, RunningGain]) -> dict[str, Any]:
    if not adapter.__sklearn_is_fitted__():
        return {"impressions": 0, "learned": 0, "trust": {"new": 0.0, "known": 0.0}, "gain": None, "verdict": ""}
    foreseen, verdict, verdicts = sums["foreseen"], adapter.verdict_, adapter.stream_verdicts_
    more = sum(stream.n * stream.gain for stream in verdicts.values()) / max(foreseen.n, 1)
    if sums["judged"].n:
        verdicts["judged"] = sums["judged"].verdict(measure="nDCG@10")
    return {
        "foreseen": {"n": foreseen.n, "served": foreseen.mean, "plain": foreseen.mean - more},
        "gains": {kind: _interval(one) for kind, one in verdicts.items()},
        "impressions": adapter.n_impressions_,
        "learned": adapter.n_learned_,
        "trust": adapter.trust_,
        "gain": _interval(verdict) if verdict.n else None,
        "verdict": verdict.sentence,
    }


def _interval(verdict: Verdict) -> dict[str, Any]:
    numbers = {"mean": float(verdict.gain), "low": float(verdict.low), "high": float(verdict.high), "n": verdict.n}
    return {"kind": verdict.kind, "measure": verdict.measure, **numbers}


class Learning:
    """Learns in all collections while this process has the lease."""

    def __init__(self, store: Store, checkpoints: Checkpoints) -> None:
        self.store, self.checkpoints = store, checkpoints
        self.fence: int | None = None  # of the lease, while this process has it
        self._renewal = 0.0  # when the lease is to be taken or renewed; to write without it is refused in any case
        # By collection, with the settings by which they were made.
        self._learners: dict[str, tuple[Any, Learners]] = {}

    def step(self) -> float:
        """Learn for a moment; return for how many seconds there is nothing to do: 0 if there are more entries.

        Without the lease, nothing is learned.
        """
        if time.monotonic() >= self._renewal:
            before, self.fence = self.fence, self.checkpoints.take_lease()
            self._renewal = time.monotonic() + self.checkpoints.seconds / 3.0
            if self.fence is None or self.fence != before:
                self._learners.clear()  # another process may have learned since
        if self.fence is None:
            return IDLE
        collections = self.store.collections()
        for name in self._learners.keys() - collections.keys():
            del self._learners[name]
        return min((self._step(collection, self.fence) for collection in collections.values()), default=IDLE)

    def _step(self, collection: Collection, fence: int) -> float:
        learners = self._of(collection)
        entries = list(self.store.read_log(collection.name, learners.place, _BLOCK))
        if entries:
            learners.learn(entries, functools.partial(self.store.vectors, collection.name))
        caught_up = len(entries) < _BLOCK
        learners.ready = learners.ready or caught_up or collection.generation == 0
        # Also if no entry is left to learn again from: the models from before must go.
        unwritten = learners.place > max(learners.written, 0 if collection.generation == 0 else -1)
        unwritten = unwritten or (not entries and learners.place > max(learners.saved, 0))
        wait = learners.due - time.monotonic()
        if unwritten and wait <= 0.0:
            self._write(collection, fence, learners, with_states=not entries)
            unwritten = False
        pause = _GATHERING if entries else IDLE
        return 0.0 if not caught_up else min(pause, wait) if unwritten else pause

    def close(self) -> None:
        """Write the states that were not written yet, so that nothing is learned again after a restart."""
        collections = self.store.collections() if self.fence is not None else {}
        for name, (_, learners) in list(self._learners.items()):
            if name in collections and learners.place > max(learners.saved, 0):
                self._write(collections[name], self.fence or 0, learners, with_states=True)

    def _of(self, collection: Collection) -> Learners:
        name, params = collection.name, collection.settings.get("learners") or DEFAULT
        stamp = (collection.generation, params)
        if name not in self._learners or self._learners[name][0] != stamp:
            checkpoint = self.checkpoints.newest(name, collection.generation)
            try:
                learners = Learners(params, checkpoint)
            except ModelFileError:  # of an earlier mahala: the log has all that is needed
                learners = Learners(params, None)
            # What is served does not go back while entries after the last states are learned again.
            learners.written = max([learners.written, *self.checkpoints.places(name, collection.generation)])
            self._learners[name] = stamp, learners
        return self._learners[name][1]

    def _write(self, collection: Collection, fence: int, learners: Learners, *, with_states: bool) -> None:
        started = time.monotonic()
        with_states = with_states or started >= learners.states_due
        learners.teach(functools.partial(self.store.vectors, collection.name))
        try:
            self.checkpoints.write(
                collection.name, fence, place=learners.place, generation=collection.generation, ready=learners.ready,
                status=learners.status(), parts=learners.parts(with_states),
            )  # fmt: skip
        except LeaseLost:
            del self._learners[collection.name]
            self._renewal = 0.0
            return
        learners.written = learners.place
        now = time.monotonic()
        learners.due = now + max(_SECONDS, _TIMES * (now - started))
        if with_states:
            learners.saved, learners.states_due = learners.place, now + _STATES
