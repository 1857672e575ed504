"""Import of a history of events into a collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mahala.data.event_files import Format, read_events
from mahala.serve.searches import made_elsewhere
from mahala.serve.service import Service
from mahala.serve.store.appends import KeyReused, blocks
from mahala.serve.store.database import Unknown
from mahala.serve.store.events import COUNTED_BEFORE, page_entry, search_key
from mahala.serve.store.rows import LogEntry


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
