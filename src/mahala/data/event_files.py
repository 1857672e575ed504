"""Files of events: all impressions that their searches and reactions make."""

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

from mahala.data.event_formats import Format, Ignored, read_event
from mahala.data.events import Page, Reaction, Shown, join


class EventFile(NamedTuple):
    """The events of a file, its malformed lines by number, and how many others are ignored, by the reason."""

    shown: list[Shown]
    reactions: list[Reaction]
    malformed: list[tuple[int, str]]
    ignored: Counter[str]

    def impressions(self, items: Container[str], vectors: Mapping[str, Any]) -> list[tuple[Shown, Page]]:
        """Return what was shown with all reactions of a user to it, in the order of their times.

        Parameters
        ----------
        items : ids of items; others that were shown are left out
        vectors : vectors of queries by their texts, their ids, or the ids of searches; others are left as they are
        """
        searches = {one.search: one for one in sorted(self.shown, key=lambda one: -one.at)}  # the first of each
        shown = {id: [item for item in one.items if item in items] for id, one in searches.items()}
        users = {id: one.user for id, one in searches.items()}
        pages, outcomes = join(shown, {}, self.reactions, users)
        self.ignored.update(outcome for outcome in outcomes if isinstance(outcome, str))
        pages.sort(key=lambda page: page.at)
        return [(_with_vector(searches[page.search], vectors), page) for page in pages]


def _with_vector(shown: Shown, vectors: Mapping[str, Any]) -> Shown:
    query = shown.query
    for key in (query.get("text"), query.get("id"), shown.search):
        if key is not None and key in vectors:
            return shown._replace(query={"vector": vectors[key], "id": query.get("id") or query.get("text")})
    return shown


def read_events(lines: Iterable[str | bytes], format: Format | None = None) -> EventFile:
    """Return the events of JSON Lines, in any order.

    >>> file = read_events(['{"search_id": "s", "item": "a"}', '{"search_id": "s", "item": "b", "type": "hover"}', "{"])
    >>> len(file.reactions), file.ignored.total(), [number for number, _ in file.malformed]
    (1, 1, [3])
    """
    file = EventFile([], [], [], Counter())
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = read_event(json.loads(line), format)
        except Ignored as reason:
            file.ignored[str(reason)] += 1
        except (ValueError, RecursionError) as error:
            file.malformed.append((number, str(error)))
        else:
            if isinstance(event, Shown):
                file.shown.append(event)
            else:
                file.reactions.append(event)
    return file
