"""Which ranking a search gets: the learned one, or, for a share of people, the plain one or a mix of both."""

import hashlib
import random
from collections.abc import Sequence

from mahala_search.sidecar.records import LEARNED, MIXED, PLAIN, Control


def arm_of(control: Control, space: str, who: str) -> str:
    """Return the arm of a user, or of a search without one: always the same one in a space, which is named by its id.

    >>> control = Control(share=0.1)
    >>> sum(arm_of(control, "films", f"u{number}") == "plain" for number in range(1000))
    90
    """
    salt = hashlib.blake2b(space.encode(), digest_size=16).digest()
    digest = hashlib.blake2b(who.encode("utf-8", "surrogatepass"), digest_size=8, person=salt).digest()
    if int.from_bytes(digest, "big") >= control.share * 2.0**64:
        return LEARNED
    return MIXED if control.mode == "interleave" else PLAIN


def interleaved(first: Sequence[str], second: Sequence[str], k: int, seed: str) -> tuple[list[str], str]:
    """Return k ids of two rankings by team draft, and the team of each, "A" or "B".

    The team with fewer items picks next, a coin decides between equals, and a pick is the team's best item that is not
    there yet (Radlinski, Kurup and Joachims, 2008).

    >>> interleaved(["a", "b", "c"], ["a", "d", "b"], 3, "seed")
    (['a', 'd', 'b'], 'ABA')
    """
    coin = random.Random(seed)
    items: dict[str, None] = {}
    teams = ""
    rankings = [iter(first), iter(second)]
    while len(items) < k:
        counts = [teams.count(name) for name in "AB"]
        team = coin.randrange(2) if counts[0] == counts[1] else int(counts[0] > counts[1])
        pick = next((item for item in rankings[team] if item not in items), None)
        if pick is None:
            break
        items[pick] = None
        teams += "AB"[team]
    return list(items), teams
