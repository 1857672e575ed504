"""Events of search: what was shown, and what people did later; `join` makes impressions of them."""

from collections import Counter, defaultdict
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
    """What was shown, items of it from the top, a user's reaction to each, and the time of the last one."""

    shown: Shown
    user: str | None
    at: float
    items: Sequence[str]
    values: Sequence[float]


def join(
    shown: Sequence[Shown], reactions: Sequence[Reaction], items: Container[str], ignored: Counter[str]
) -> list[Page]:
    """Return one page for each search and user with reactions, in the order of their times.

    A page has the items to which the user reacted, against those to which nobody did: the first ones that came into
    view, and all down to the last one that an event names. Of several reactions to an item, the largest one counts,
    once. Items that are not among `items` are left out. Why reactions are not used is added to `ignored`.

    >>> click = Reaction("s", "b", 1.0, "u", 9.0)
    >>> [page] = join([Shown("s", ["a", "b", "c"], {}, None, 8.0, seen=1)], [click, click], "abc", Counter())
    >>> page[1:]
    ('u', 9.0, ['a', 'b'], [0.0, 1.0])
    """
    searches = {one.search: one for one in sorted(shown, key=lambda one: -one.at)}  # the first of each
    largest: dict[str, dict[str, Reaction]] = {search: {} for search in searches}
    for one in sorted(reactions, key=lambda one: (-one.value, one.at)):
        if one.search not in searches:
            ignored[UNKNOWN_SEARCH] += 1
        elif one.item not in searches[one.search].items or one.item not in items:
            ignored[NOT_SHOWN] += 1
        else:
            largest[one.search].setdefault(one.item, one)
    pages = []
    for search, by_item in largest.items():
        on_page = searches[search]
        n = len(on_page.items) if on_page.seen is None else on_page.seen
        n = max([n, *(place for place, item in enumerate(on_page.items, 1) if item in by_item)])
        of_user: dict[str | None, dict[str, Reaction]] = defaultdict(dict)
        for item, one in by_item.items():
            if one.value:
                of_user[one.user or on_page.user][item] = one
        others = [item for item in on_page.items[:n] if item in items]
        for user, mine in of_user.items():
            ids = [item for item in others if item in mine or not (item in by_item and by_item[item].value)]
            values = [mine[item].value if item in mine else 0.0 for item in ids]
            pages.append(Page(on_page, user, max(one.at for one in mine.values()), ids, values))
    return sorted(pages, key=lambda page: page.at)
