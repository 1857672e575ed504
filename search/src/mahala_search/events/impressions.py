"""Impressions: what was shown for a query, and how people reacted to it; and how they are read from lines of JSON."""

import json
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from mahala.extend import LineError, LineReader, as_floats
from mahala_search.arrays import FloatArray


class Impression(NamedTuple):
    """One impression: a query, the vectors shown from the top, a reaction to each, and who asked."""

    query: Any
    shown: Any
    clicked: FloatArray
    query_id: Hashable
    user: Hashable


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


def check_reactions(clicked: Any, n_shown: int) -> FloatArray:
    """Return one finite number per result shown."""
    if n_shown == 0:
        raise ValueError("shown must have at least one item, got none")
    values = as_floats(clicked, "clicked")
    if values.shape != (n_shown,):
        wanted = f"one entry for each of the {n_shown} items shown"
        raise ValueError(f"clicked must have {wanted}, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("clicked contains NaN or infinity; every reaction must be a finite number")
    return values
