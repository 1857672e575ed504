"""Read impressions from lines of JSON."""

import json
from typing import Any

from mahala.extend import LineError, LineReader
from mahala_search.events.impressions import Impression, check_reactions


class ImpressionReader(LineReader[Impression]):
    """Read impressions.

    >>> line = b'{"query": [1, 2], "shown": [[1, 3], [5, 0]], "clicked": [false, true], "query_id": 7}'
    >>> ImpressionReader().read(line)[0].clicked
    array([0., 1.])
    """

    kind, keys = "an impression", ("query", "shown", "clicked")
    reserved = ("line", "right", "trust")

    def comparison(self, entries: dict[str, Any]) -> Impression:
        query = self.point(entries["query"], "query", self.widths[0])
        for name in ("shown", "clicked"):
            if type(entries[name]) is not list:
                raise LineError(f"{name} must be a list, got {self.shown(entries[name])}")
        points = [self.point(value, f"shown[{at}]", query.width) for at, value in enumerate(entries["shown"])]
        if not set(map(type, entries["clicked"])) <= {bool, int, float}:
            raise LineError(f"clicked must hold true, false or numbers, got {self.shown(entries['clicked'])}")
        try:
            clicked = check_reactions(entries["clicked"], len(points))
        except ValueError as error:
            raise LineError(str(error)) from None
        ids = (entries.get(name) for name in ("query_id", "user"))
        query_id, user = (json.dumps(value) if isinstance(value, dict | list) else value for value in ids)
        return Impression(self.rows(query), self.rows(*points), clicked, query_id, user)
