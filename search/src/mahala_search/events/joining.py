"""Events of search: what was shown, and what people did later; `join` makes impressions of them."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

# Why a reaction is ignored.
UNKNOWN_SEARCH = "the search is unknown: it was not recorded, or has expired"
NOT_SHOWN = "the item was not shown for this search, or was deleted"


class Shown(NamedTuple):
    """Items that were shown for a query from the top: {"vector"}, {"item"} or {"text"}, perhaps with an {"id"}.

    `seen` is how many of them came into view, None all of them; `positions` are their places on the page, from 1.
    `signals` are numbers of each item by name, and `arm` is that of a comparison that the team makes itself.
    """

    search: str
    items: Sequence[str]
    query: Mapping[str, Any]
    user: str | None
    at: float
    seen: int | None = None
    positions: Sequence[int] | None = None
    signals: Mapping[str, Sequence[float | None]] | None = None
    arm: str | None = None


class Reaction(NamedTuple):
    """What a user did with an item that was shown for a search; a larger value says more.

    The kind "impression", with the value 0, only says that the item came into view, at a `position` from 1.
    """

    search: str
    item: str
    value: float
    user: str | None
    at: float
    kind: str = "click"
    revenue: float = 0.0
    position: int | None = None


class Page(NamedTuple):
    """An impression: items of a search from the top, the user's reaction to each, and the time of the last one."""

    search: str
    user: str | None
    at: float
    items: Sequence[str]
    values: Sequence[float]


def in_view(items: Sequence[str], seen: int | None, named: Container[str]) -> Sequence[str]:
    """Return the items that came into view: the first `seen`, and all down to the last one that an event names.

    >>> in_view(["a", "b", "c", "d"], 1, {"c"})
    ['a', 'b', 'c']
    """
    deepest = max((place for place, item in enumerate(items, 1) if item in named), default=0)
    return items if seen is None else items[: max(seen, deepest)]


def join(
    shown: Mapping[str, Sequence[str]],
    counted: Mapping[str, Mapping[str, float]],
    reactions: Sequence[Reaction],
    users: Mapping[str, str | None],
) -> tuple[list[Page], list[int | str | None]]:
    """Return one page for each search and user with new reactions, and what became of each reaction.

    A page has the items to which the user reacted, against those to which nobody has reacted so far. Of several
    reactions to an item, the largest one counts, once.

    Parameters
    ----------
    shown : by search, the items that were shown from the top
    counted : by search, the reactions to items that are in pages already
    reactions : new ones, in any order
    users : by search, the user of a reaction that names none

    Returns
    -------
    Pages, and for each reaction the number of the page that has it or a larger one, None if such a one was counted
    before, or a text that says why it is ignored.

    >>> click = Reaction("s", "b", 1.0, "u", 9.0)
    >>> join({"s": ["a", "b", "c"]}, {"s": {"c": 1.0}}, [click, click], {})
    ([Page(search='s', user='u', at=9.0, items=['a', 'b'], values=[0.0, 1.0])], [0, 0])
    """
    reactions = [one if one.user is not None else one._replace(user=users.get(one.search)) for one in reactions]
    largest: dict[str, dict[str, Reaction]] = {}
    for one in reactions:
        if one.item in shown.get(one.search, ()) and one.value > counted.get(one.search, {}).get(one.item, 0.0):
            of_search = largest.setdefault(one.search, {})
            before = of_search.get(one.item)
            if before is None or (one.value, -one.at) > (before.value, -before.at):  # of equal ones, the first
                of_search[one.item] = one
    pages: dict[tuple[str, str | None], Page] = {}
    for search, of_search in largest.items():
        reacted = of_search.keys() | counted.get(search, {}).keys()
        for user in dict.fromkeys(one.user for one in of_search.values()):
            by_user = {item: one for item, one in of_search.items() if one.user == user}
            items = [item for item in shown[search] if item in by_user or item not in reacted]
            values = [by_user[item].value if item in by_user else 0.0 for item in items]
            pages[search, user] = Page(search, user, max(one.at for one in by_user.values()), items, values)
    numbers = {key: number for number, key in enumerate(pages)}

    def outcome(one: Reaction) -> int | str | None:
        if one.search not in shown:
            return UNKNOWN_SEARCH
        if one.item not in shown[one.search]:
            return NOT_SHOWN
        winner = largest.get(one.search, {}).get(one.item)
        return None if winner is None else numbers[winner.search, winner.user]

    return list(pages.values()), [outcome(one) for one in reactions]
