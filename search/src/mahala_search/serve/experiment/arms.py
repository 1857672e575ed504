"""Which ranking a search gets: the learned one, or, for a share of people, the plain one or a mix of both."""

import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

LEARNED, PLAIN, MIXED = "learned", "plain", "mixed"

T = TypeVar("T")


@dataclass(frozen=True)
class Control:
    """The setting `control` of a collection.

    Parameters
    ----------
    share : share of the people whose searches are not ranked by what was learned alone, 0 to 0.5
    mode : what they get: the plain ranking ("plain"), or both rankings mixed ("interleave")
    since : when the share was set: searches before are not counted
    """

    share: float = 0.0
    mode: Literal["plain", "interleave"] = "plain"
    since: float = 0.0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Return the control of a collection by its settings; raise ValueError if it is not valid."""
        fields = settings.get("control") or {}
        if not isinstance(fields, dict) or fields.keys() - {"share", "mode", "since"}:
            raise ValueError('control must be {"share": 0.1, "mode": "plain" or "interleave"}')
        control = cls(**fields)
        numbers = (control.share, control.since)
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers):
            raise ValueError(f"control: share must be a number, got {control.share!r:.40}")
        if not 0.0 <= control.share <= 0.5:
            raise ValueError(f"control: share must be 0 to 0.5, got {control.share:g}")
        if control.mode not in ("plain", "interleave"):
            raise ValueError(f"control: mode must be plain or interleave, got {control.mode!r:.40}")
        return control

    def arm(self, collection: str, who: str) -> str:
        """Return the arm of a user, or of a search without one: always the same one in a collection.

        >>> control = Control(share=0.1)
        >>> sum(control.arm("films", f"u{number}") == "plain" for number in range(1000))
        90
        """
        salt = hashlib.blake2b(collection.encode(), digest_size=16).digest()
        digest = hashlib.blake2b(who.encode("utf-8", "surrogatepass"), digest_size=8, person=salt).digest()
        if int.from_bytes(digest, "big") >= self.share * 2.0**64:
            return LEARNED
        return PLAIN if self.mode == "plain" else MIXED


def started(settings: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose control has the time at which it began, which is now unless it is the one from before."""
    control, former = Control.of(settings), Control.of(before)
    if control.share == 0.0:
        return {name: value for name, value in settings.items() if name != "control"}
    same = (control.share, control.mode) == (former.share, former.mode)
    since = former.since if same else time.time()
    return settings | {"control": {"share": control.share, "mode": control.mode, "since": since}}


def interleaved(
    learned: Sequence[T], plain: Sequence[T], k: int, seed: str, key: Callable[[T], str] = str
) -> tuple[list[T], str]:
    """Return k items of two rankings by team draft, and the team of each: "L" or "P"; `key` returns an item's id.

    The team with fewer items picks next, a coin decides between equals, and a pick is the team's best item that is not
    there yet (Radlinski, Kurup and Joachims, 2008).

    >>> interleaved(["a", "b", "c"], ["a", "d", "b"], 3, "seed")
    (['a', 'd', 'b'], 'LPL')
    """
    coin = random.Random(seed)
    items: list[T] = []
    taken: set[str] = set()
    teams = ""
    rankings = {"L": iter(learned), "P": iter(plain)}
    while len(items) < k:
        counts = teams.count("L"), teams.count("P")
        team = "LP"[coin.randrange(2) if counts[0] == counts[1] else int(counts[0] > counts[1])]
        pick = next((item for item in rankings[team] if key(item) not in taken), None)
        if pick is None:
            break
        items.append(pick)
        taken.add(key(pick))
        teams += team
    return items, teams
