"""The store against a model of dictionaries that does the same slowly, and obviously so."""

from __future__ import annotations

import time
from random import Random

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from mahala_search.sidecar.records import Query, Reaction, Search, Settings, Shown
from mahala_search.sidecar.store import writes

DAY, NOW = 86400.0, time.time()
VECTOR = np.array([1.0, 0.0])
PAGES, ITEMS, USERS, QUERIES = ["p0", "p1", "p2", "p3"], list("abcde"), [None, "1" * 32, "2" * 32], ["q0", "q1"]
SHOWN = {"p0": list("abc"), "p1": list("cbd"), "p2": list("ea"), "p3": list("deab")}


class Page:
    def __init__(self, search):
        self.id, self.query, self.user, self.at = search.id, search.query.key, search.user, search.at
        self.ids = self.seen = None
        self.reactions = {}  # by item and kind: value, revenue, user, time
        self.logged = None  # the items whose reactions are in the log
        self.forgotten = False

    def counted(self):
        reacted = {item for item, _ in self.reactions}
        return [item for at, item in enumerate(self.ids) if self.seen is None or at < self.seen or item in reacted]


class Reference:
    """What a space should hold, in dictionaries; every write looks at all pages."""

    def __init__(self):
        self.pages, self.items, self.queries, self.forgotten, self.counts = {}, set(), set(), {}, {}
        self.asked, self.log, self.n_logged = set(), [], 0
        self.rows = set()  # queries, with a vector or without

    def write(self, works):
        touched = []
        for work in works:  # pages that are there already come first, in the order of the works
            if (id := getattr(work, "search_id", None) or work.id) in self.pages and id not in touched:
                touched.append(id)
        outcomes = {}
        for kind in (Search, Shown, Reaction):
            outcomes |= {at: self.take(work) for at, work in enumerate(works) if isinstance(work, kind)}
        for outcome in outcomes.values():
            if isinstance(outcome, str):
                self.counts[outcome] = self.counts.get(outcome, 0) + 1
        touched += [
            id
            for id in self.pages
            if id not in touched and id in {getattr(w, "search_id", None) or w.id for w in works}
        ]
        self.settle(touched)
        return [outcomes[at] for at in range(len(works))]

    def take(self, work):
        """Return whether a work is new, or why it is ignored."""
        if isinstance(work, Search):
            return self.search(work)
        if isinstance(work, Shown) and work.search is not None and work.search_id not in self.pages:
            result = self.search(work.search)
            if isinstance(result, str):
                return result
        page = self.pages.get(work.search_id)
        if page is None:
            return writes.UNKNOWN
        if page.forgotten:
            return writes.FORGOTTEN
        if isinstance(work, Shown):
            is_new = page.ids is None
            if is_new:
                page.ids, page.seen = list(work.ids), None if work.seen is None else min(work.seen, len(work.ids))
            elif page.seen is not None and work.seen is not None:
                page.seen = max(page.seen, min(work.seen, len(page.ids)))
            self.items |= {id for id in work.vectors if id in page.ids}
            return is_new
        user = work.user or page.user
        if page.ids is None or work.item not in page.ids:
            return writes.NOT_SHOWN
        if (reason := self.refusal(user, min(work.at, page.at))) is not None:
            return reason
        if work.kind == "impression":
            before = page.seen
            if page.seen is not None:
                page.seen = max(page.seen, page.ids.index(work.item) + 1)
            return page.seen != before
        before = page.reactions.get((work.item, work.kind))
        if before is None:
            page.reactions[work.item, work.kind] = [work.value, work.revenue, user, work.at]
            return True
        larger = max(before[0], work.value), max(before[1], work.revenue)
        is_new = larger != tuple(before[:2])
        before[:2] = larger
        return is_new

    def search(self, search):
        if search.id in self.pages:
            return writes.FORGOTTEN if self.pages[search.id].forgotten else False
        if (reason := self.refusal(search.user, search.at)) is not None:
            return reason
        self.pages[search.id] = Page(search)
        self.rows.add(search.query.key)
        if search.query.vector is not None:
            self.queries.add(search.query.key)
        return True

    def refusal(self, user, at):
        if user in self.forgotten and at <= self.forgotten[user]:
            return writes.FORGOTTEN
        return writes.OLD if at < NOW - 90 * DAY else None

    def is_ready(self, page):
        return page.ids is not None and page.query in self.queries and self.items >= set(page.counted())

    def settle(self, touched):
        """Log what can be: of the pages touched, then of all others by their times."""
        rest = sorted((page.at, id) for id, page in self.pages.items() if id not in touched)
        for id in [*touched, *(id for _, id in rest)]:
            page = self.pages[id]
            if page.ids is not None and not page.forgotten:
                self.asked |= set(page.counted())
                if self.is_ready(page):
                    self.log_page(page)

    def log_page(self, page):
        largest = {}
        for (item, _), one in page.reactions.items():
            if item not in largest or one[0] > largest[item][0]:
                largest[item] = one
        new = {item: one for item, one in largest.items() if item not in (page.logged or ())}
        users = []
        for item in dict.fromkeys(item for item, _ in page.reactions):
            if item in new and new[item][2] not in users:
                users.append(new[item][2])
        if not users and page.logged is None:
            users = [page.user]
        for user in users:
            mine = {item: one[0] for item, one in new.items() if one[2] == user}
            entry = {item: mine.get(item, 0.0) for item in page.counted() if item in mine or item not in largest}
            self.n_logged += 1
            self.log.append((self.n_logged, page.id, user, entry, page.logged is None))
            page.logged = {*(page.logged or ()), *mine}
        page.logged = page.logged or set()

    def forget(self, user):
        own = [page for page in self.pages.values() if page.user == user and not page.forgotten]
        for page in own:
            page.forgotten, page.user, page.reactions = True, None, {}
        others = [page for page in self.pages.values() if any(one[2] == user for one in page.reactions.values())]
        for page in others:
            page.reactions = {key: one for key, one in page.reactions.items() if one[2] != user}
            page.logged = page.logged and page.logged & {item for item, _ in page.reactions}
        self.log = [entry for entry in self.log if not self.pages[entry[1]].forgotten and entry[2] != user]
        self.forgotten[user] = time.time()
        self.forget_queries()
        self.settle(sorted(page.id for page in others))
        return len(own) + len(others)

    def forget_queries(self):
        used = {page.query for page in self.pages.values() if not page.forgotten}
        self.rows &= used
        self.queries &= used

    def prune(self, now):
        old = {id for id, page in self.pages.items() if page.at < now - 90 * DAY}
        self.log = [entry for entry in self.log if entry[1] not in old]
        self.pages = {id: page for id, page in self.pages.items() if id not in old}
        if old:
            self.forget_queries()
        return len(old)


TIMES = [NOW, NOW - 60, NOW - 120] * 3 + [NOW - 100 * DAY, NOW - 80 * DAY, NOW - 70 * DAY, NOW + 5 * DAY]


def visit(random):
    """Return what belongs to a page, or a part of it: a search, what was shown, reactions."""
    page = random.choice(PAGES)
    ids = SHOWN[page]
    query = Query(random.choice(QUERIES), random.choice([VECTOR, VECTOR, VECTOR, None]))
    search = Search(page, query, random.choice(USERS), at=random.choice(TIMES))
    works = [search] if random.random() < 0.7 else []
    if random.random() < 0.7:
        vectors = {id: VECTOR for id in ids if random.random() < 0.6}
        seen = random.choice([None, *range(len(ids) + 2)])
        works.append(Shown(page, ids, seen, vectors=vectors, search=random.choice([None, search])))
    for _ in range(random.randrange(4)):
        item, kind = random.choice([*ids, *ids, *ITEMS]), random.choice(["click", "purchase", "impression"])
        value, revenue = random.choice([1.0, 2.0, 3.0]), random.choice([0.0, 5.0])
        user = random.choice([None, *USERS])
        works.append(Reaction(page, item, kind, value, revenue, user, random.choice(TIMES)))
    return works


class StoreMachine(RuleBasedStateMachine):
    store = None

    @initialize(seed=st.integers(0, 2**32 - 1))
    def begin(self, seed):
        # What is drawn here is not made smaller when a test fails, but reaches the log far more often.
        self.random = Random(seed)
        for name in self.store.spaces():
            self.store.drop(name)
        self.space = self.store.create("s", Settings(width=2))
        self.reference = Reference()

    @rule()
    def write(self):
        self._write()

    def _write(self):
        groups = [visit(self.random) for _ in range(self.random.randint(1, 3))]
        results = self.store.write([(self.space.id, works) for works in groups])
        works = [work for group in groups for work in group]
        written = [one for result in results for one in result]
        assert [one.ignored or one.new for one in written] == self.reference.write(works)
        for work, one in zip(works, written, strict=True):
            if isinstance(work, Shown) and one.ignored is None:
                lacking = set(self.reference.pages[work.search_id].counted()) - self.reference.items
                assert set(one.missing) == lacking

    @rule()
    def write_again(self):
        self._write()

    @rule()
    def add_vectors(self):
        ids = self.random.sample(ITEMS, self.random.randrange(2))
        keys = [key for key in self.random.sample(QUERIES, self.random.randrange(2)) if key in self.reference.rows]
        self.store.add_vectors(self.space.id, dict.fromkeys(ids, VECTOR), ["a"], dict.fromkeys(keys, VECTOR))
        self.reference.items |= set(ids)
        self.reference.queries |= set(keys)
        self.reference.settle([])

    @rule()
    def forget(self):
        if self.random.random() < 0.4:
            user = self.random.choice(USERS[1:])
            assert self.store.forget(self.space.id, user) == self.reference.forget(user)

    @rule()
    def prune(self):
        if self.random.random() < 0.4:
            now = NOW + self.random.choice([0, 15]) * DAY
            assert self.store.prune(now) == self.reference.prune(now)

    @invariant()
    def same(self):
        if not hasattr(self, "space"):
            return
        entries = self.store.read_log(self.space.id, 0, 1000)
        log = [
            (one.place, one.search_id, one.user, dict(zip(one.ids, one.values, strict=True)), one.first)
            for one in entries
        ]
        assert log == self.reference.log
        assert set(self.store.missing(self.space.id, 99)) == self.reference.asked - self.reference.items
        progress = self.store.progress(self.space.id)
        pages = [page for page in self.reference.pages.values() if page.ids is not None and not page.forgotten]
        assert progress["waiting"] == sum(not self.reference.is_ready(page) for page in pages)
        assert progress["logged"] == self.reference.n_logged
        assert self.store.counts(self.space.id) == self.reference.counts


def run_machine(store, share):
    """Hold a store against the reference, with a share of the usual number of examples."""
    machine = type("Machine", (StoreMachine,), {"store": store})
    chosen = settings(max_examples=int(share * settings().max_examples), stateful_step_count=15, deadline=None)
    run_state_machine_as_test(machine, settings=chosen)


def test_the_store_does_what_the_reference_does(store):
    run_machine(store, 2.0)
