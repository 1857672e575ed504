"""Searches of a service: rankings by arm and their records, reranking, entries of feedback, imported events."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from mahala_search.adapter.trust.signals import check_signals
from mahala_search.events.formats import Format, read_events
from mahala_search.events.joining import Shown
from mahala_search.serve.experiment.arms import MIXED, PLAIN, Control, interleaved
from mahala_search.serve.index.item_index import Found
from mahala_search.serve.index.served_collection import PLAIN_MODEL, Query
from mahala_search.serve.service import Service
from mahala_search.serve.store.appends import KeyReused, blocks
from mahala_search.serve.store.database import Unknown
from mahala_search.serve.store.rows import LogEntry, SignalLists, check_vector, picked
from mahala_search.serve.store.searches import COUNTED_BEFORE, Search, page_entry, search_key

# Items shown for a search that are recorded, from the top.
RECORDED = 200


@dataclass(frozen=True)
class Reranked:
    """A candidate with its new score, and its position among those given, from 0."""

    id: str
    score: float
    position: int


T = TypeVar("T", Found, Reranked)


def search_in_arm(
    service: Service,
    name: str,
    user: str | None,
    query: Query,
    k: int,
    ranking: Callable[[bool], tuple[int, list[T]]],
    *,
    compared: bool = True,
    signals_of: Callable[[list[T]], SignalLists] | None = None,
) -> tuple[dict[str, Any], list[T]]:
    """Search by the ranking of a user's arm, and record the search; if not `compared`, it has no arm.

    `ranking` returns the version that ranked and at least k items, by the plain ranking if it is given True;
    `signals_of` returns the signals of items. Return version, id and arm of the search as JSON, and the items.
    """
    served, id = service.served(name), uuid.uuid4().hex
    control, arm, teams = Control.of(served.collection.settings), None, None
    if control.share and compared and served.model.version:  # version 0 is the plain ranking itself
        arm = control.arm(name, user or id)
    version, found = ranking(arm == PLAIN)
    if arm == MIXED:
        found, teams = interleaved(found, ranking(True)[1], k, id, key=lambda one: one.id)
    shown = [one.id for one in found]
    signals = signals_of(found) if signals_of else None
    place = query.row, query.stored_vector, query.id
    search = Search(id, shown[:RECORDED], *place, user, version, arm, teams and teams[:RECORDED], signals)
    service.writer.record(name, search)  # in the background, so that events that come later can name its id
    return {"version": version, "search_id": id, "arm": arm}, found


def made_elsewhere(service: Service, name: str, event: Shown) -> Search:
    """Return a search that another system made, to be written with the events that name it."""
    query = service.resolve(name, event.query)
    return Search(event.search, event.items, query.row, query.stored_vector, query.id, event.user, at=event.at)


def listed_signals(candidates: Sequence[Mapping[str, Any]]) -> SignalLists:
    """Return the signals of candidates by name, with the score; raise ValueError if they have this name, too.

    >>> listed_signals([{"score": 2.0, "signals": {"age": 3.0}}, {"score": 1.0, "signals": {}}])
    {'score': [2.0, 1.0], 'age': [3.0, None]}
    """
    names = dict.fromkeys(name for one in candidates for name in one["signals"])
    if "score" in names:
        raise ValueError("candidates must have 'score' beside their signals, not among them")
    scores = [one["score"] for one in candidates]
    return {"score": scores} | {name: [one["signals"].get(name) for one in candidates] for name in names}


def reranked(
    service: Service, name: str, query: Query, candidates: Sequence[Mapping[str, Any]], plain: bool, user: str | None
) -> tuple[int, list[Reranked]]:
    """Return the version that ranked, and candidates of another engine, best first; `plain`: in its own order.

    A candidate is {"id": ..., "score": ..., "signals": {name: number or None}, "vector": a vector or None}.
    """
    served = service.served(name)
    model, width = PLAIN_MODEL if plain else served.model, served.collection.width
    vectors = [
        None if one["vector"] is None else check_vector(one["vector"], width, f"candidates[{at}].vector")
        for at, one in enumerate(candidates)
    ]
    signals = check_signals(listed_signals(candidates), len(candidates))
    rows = service.rows(name, [one["id"] for one in candidates])
    order, scores = served.reranked(query, model, rows, vectors, signals, user)
    ranking = zip(order.tolist(), scores.tolist(), strict=True)
    return model.version, [Reranked(candidates[at]["id"], score, at) for at, score in ranking]


def feedback_entry(
    service: Service, name: str, kind: str, query: Query, shown: Sequence[str], clicked: Sequence[float], **more: Any
) -> LogEntry:
    """Return the entry of the log for a query, the ids shown for it, and a reaction to each.

    Items that are unknown or were deleted are left out; Unknown is raised if nothing to learn from is left.
    A judged pair is one item and a verdict, 1 or 0. It does not say above or below which others the item belongs,
    so items with the other verdict are written with it: nothing is learned until a query has both verdicts.
    """
    version = more.get("version")
    if version is not None and version > service.served(name).collection.version:
        service.refresh()  # another process may have just made it
        if version > (newest := service.served(name).collection.version):
            raise ValueError(f"version must be that of a search: 0 to {newest}, got {version}")
    found = service.rows(name, shown)
    clicks = [(row, float(value)) for row, value in zip(found, clicked, strict=True) if row is not None]
    if None in found and len({value for _, value in clicks}) < 2:
        raise Unknown(f"there is no item {shown[found.index(None)][:64]!r} in {name!r}; nothing is left to compare")
    rows, values = [row for row, _ in clicks], [value for _, value in clicks]
    more["signals"] = picked(more.get("signals"), [at for at, row in enumerate(found) if row is not None])
    entry = LogEntry(kind, rows, values, query=query.row, vector=query.stored_vector, query_id=query.id, **more)
    if kind != "pair":
        return entry
    if rows == [query.row]:
        raise ValueError("a judged pair must have two different items")
    served = service.served(name)
    others = served.pairs.contrast(service.store, served.collection.generation, entry)
    return replace(entry, shown=[*rows, *others], clicked=[*values, *[1.0 - values[0]] * len(others)])


class Imported(NamedTuple):
    """How many impressions were written to the log and were there before, malformed lines, and what is ignored."""

    written: int
    there: int
    malformed: list[tuple[int, str]]
    ignored: Counter[str]


def import_events(
    service: Service, name: str, lines: Iterable[str | bytes], format: Format | None, vectors: Mapping[str, Any]
) -> Imported:
    """Write the impressions of a file of events to the log, with their own times; each is counted once.

    `vectors` has vectors of queries, by their texts or ids.
    """
    file = read_events(lines, format)
    ids = list({item for shown in file.shown for item in shown.items})
    rows = {id: row for id, row in zip(ids, service.rows(name, ids), strict=True) if row is not None}
    entries: list[LogEntry] = []
    pages: Counter[str] = Counter()
    for shown, page in file.impressions(rows, vectors):
        try:
            search = made_elsewhere(service, name, shown)
        except (ValueError, Unknown) as error:
            file.ignored[str(error)] += 1
            continue
        n = pages[page.search]
        pages[page.search] += 1
        key = f"page:{n}:{page.search}" if n else search_key(page.search)  # of no other search
        entries.append(page_entry(page, rows, search, key))
    before, written, there = service.store.collection(name).n_logged, 0, 0
    for block in blocks(entries):
        for result in service.store.append_all([(name, [entry]) for entry in block]):
            if isinstance(result, KeyReused):
                file.ignored[COUNTED_BEFORE] += 1
            elif isinstance(result, Exception):
                raise result
            elif result[0] > before:
                written += 1
            else:
                there += 1
    return Imported(written, there, file.malformed, file.ignored)
