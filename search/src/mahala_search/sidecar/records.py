"""What the parts of the sidecar pass to each other. It imports nothing heavy: serving starts with it."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mahala_search.arrays import FloatArray
from mahala_search.events.formats import Reaction as Reaction

# The arms of a search: what ranked it. None is a search that no report counts.
LEARNED, PLAIN, MIXED = "learned", "plain", "mixed"
# The names of the arm that gets the plain ranking; the second one is common where the team assigns the arms itself.
BASES = (PLAIN, "control")


class Unavailable(RuntimeError):
    """The database cannot be read or written at the moment; nothing was changed."""


class Unknown(LookupError):
    """There is no space, search or version of this name."""


class Conflict(ValueError):
    """What was asked for contradicts what is there; nothing was changed."""


@dataclass(frozen=True)
class Control:
    """Which share of the people gets another ranking than the learned one, to measure the gain.

    Parameters
    ----------
    share : 0 to 0.5
    mode : what they get: the plain ranking ("plain"), both rankings mixed ("interleave"); "team" if the team assigns
        the arms itself, and names them in what it sends
    since : when this was set; searches before are not counted
    """

    share: float = 0.0
    mode: Literal["plain", "interleave", "team"] = "plain"
    since: float = 0.0


@dataclass(frozen=True)
class Settings:
    """Settings of a space.

    Parameters
    ----------
    width : numbers of a vector
    similarity : how the engine compares vectors
    encoder : what made the vectors, in the team's words; it cannot be changed: another encoder is another space
    resolver : where vectors of ids come from, {"kind": "qdrant", "url": ..., ...}; None: from `shown` only
    control : see `Control`
    learner : parameters of `QueryAdapter`
    texts : whether texts of queries are stored
    retention : days for which what was shown and done is kept
    """

    width: int
    similarity: Literal["cosine", "dot"] = "cosine"
    encoder: str = ""
    resolver: Mapping[str, Any] | None = None
    control: Control = Control()
    learner: Mapping[str, Any] = field(default_factory=dict)
    texts: bool = False
    retention: float = 90.0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """Return settings from what `dataclasses.asdict` makes of them."""
        return cls(**{**values, "control": Control(**values["control"])})


@dataclass(frozen=True)
class Space:
    """A tenant's queries and items under one encoder. Its `id` is never given to another one, also of the same name."""

    id: str
    name: str
    settings: Settings
    n_logged: int = 0  # entries of the log that were ever written
    version: int = 0  # the newest one of its model
    generation: int = 0  # raised when something was forgotten: the log is learned again, beside what is served
    pinned: int | None = None  # the version that is served; 0 is the plain ranking, None the newest
    successor: str | None = None  # the name of the space of the next encoder
    problem: str | None = None  # why it is not learned


def key_of(salt: bytes, text: str) -> str:
    """Return the key of an id of a query or a user: it tells nothing about the id to those without the salt."""
    return hmac.new(salt, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Query:
    """A query: the key of its id (`key_of`; without an id, that of its vector), its vector, and perhaps its text."""

    key: str
    vector: FloatArray | None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """A search, as it is written. `user` is a key (`key_of`), never an id; `signals` are by name, one per item."""

    id: str
    query: Query
    user: str | None = None
    arm: str | None = None
    version: int = 0
    at: float = field(default_factory=time.time)
    expires: float | None = None  # when its token does


@dataclass(frozen=True, slots=True)
class Shown:
    """What was shown for a search, from the top.

    Parameters
    ----------
    seen : how many of the items came into view; None: all
    positions : the place of each item on the page, from 1; None: 1, 2, ...
    teams : a letter for each item of two mixed rankings, "A" for those of the learned one, or "B"
    vectors : of some of the items; the first that was ever written for an item stays
    signals : numbers of each item by which it was reranked, by name
    search : if it is not recorded yet, as it came from a client or from a token
    """

    search_id: str
    ids: Sequence[str]
    seen: int | None = None
    positions: Sequence[int] | None = None
    teams: str | None = None
    vectors: Mapping[str, FloatArray] = field(default_factory=dict)
    signals: Mapping[str, Sequence[float | None]] | None = None
    search: Search | None = None


# What is written: each is counted once, however often it comes. Here, the user of a reaction is a key, and None is
# that of the search.
Work = Search | Shown | Reaction


class Written(NamedTuple):
    """What became of a work: `new` is False if it was there before; `missing` are shown ids without a vector."""

    new: bool
    missing: Sequence[str] = ()
    ignored: str | None = None  # why nothing came of it


@dataclass(frozen=True, slots=True)
class Entry:
    """A place of the log: a page whose vectors are all known, with what people did that no entry before has.

    `values` has a number for each of the items that count (those that were seen, and those that people reacted to).
    The first entry of a page has `first`: it comes when the page was shown, or with the first reaction.
    """

    place: int
    search_id: str
    query: Query
    user: str | None
    ids: Sequence[str]
    positions: Sequence[int]
    values: Sequence[float]
    signals: Mapping[str, Sequence[float | None]] | None
    first: bool
    at: float


@dataclass(frozen=True)
class Model:
    """A version of what is served: `maps` as `QueryMaps.to_arrays` in safetensors, and the ids of remembered items.

    `names` has the ids whose `digest_of` is a key of the maps' remembered items. Version 0 is the plain ranking, whose
    maps are empty bytes.
    """

    version: int
    place: int
    maps: bytes
    names: Sequence[str]
    created: float
    status: Mapping[str, Any]
    problem: str | None = None  # why this version is served instead of the one that is pinned
