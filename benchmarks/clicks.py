"""What clicks teach: gains in nDCG@10 on new and on known queries, beside a counter of clicks.

    python benchmarks/clicks.py                                   # Cranfield and Reuters, one seed
    python benchmarks/clicks.py cranfield --seeds 3 --random 0.3  # 30 % of the pages are clicked at random
    python benchmarks/clicks.py my.npz --clicks 3000 --served     # arrays X, Q, qrels; people see what is served
    python benchmarks/clicks.py cranfield --judgments --seeds 5   # judgments of 70 % of the queries, no clicks

People ask queries by Zipf's law, on a phone or a desktop, and go down the page as far as the device lets them. There
are 300 of them and two bots: one clicks the first result of every page, one a result at random. People click relevant
results ("navigational"), or open every result that may be relevant ("informational"). The page shows the plain ranking,
or with --served what was learned. "new" are the queries that were never asked, "known" the others, weighted by how
often they are asked; brackets have the standard error. The counter adds 0.3 c / (n + 2) to the score of an item that
was clicked c times on n pages of the query. Everything has its default parameters.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

import mahala_search

K = 10
N_USERS, BOTS, BOT_SHARE = 300, 2, 0.03  # the share of pages of each bot
PHONE = 0.6  # of the users; they look at fewer results
DEPTH = {False: 0.7, True: 1.3}  # the result at rank r is looked at with probability r^-depth
NEW_SHARE = 0.3
# The probability of a click on an item that is looked at, irrelevant and relevant.
PEOPLE = {"navigational": (0.06, 0.75), "informational": ((0.05, 0.2), (0.4, 0.8))}


class Collection(NamedTuple):
    """Unit vectors of items and queries, and the grades of each query's relevant items, from 0 to 1."""

    items: np.ndarray
    queries: np.ndarray
    grades: list[dict[int, float]]


class Page(NamedTuple):
    """What was shown for a query, from the top, and what was clicked."""

    query: int
    shown: np.ndarray
    clicked: np.ndarray
    user: str


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def graded(items, queries, judgments):
    """Return a collection; queries without a relevant item are left out."""
    grades = [{} for _ in queries]
    best = max(grade for *_, grade in judgments)
    for query, item, grade in judgments:
        if grade > 0.0:
            grades[int(query)][int(item)] = max(grade / best, grades[int(query)].get(int(item), 0.0))
    judged = [row for row, known in enumerate(grades) if known]
    return Collection(unit(items.astype(float)), unit(queries[judged].astype(float)), [grades[row] for row in judged])


def texts(path, name):
    with gzip.open(path / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def reuters(path, n=5000, n_queries=1100):
    """Headlines, of which the body is relevant; word vectors are those that explain the embedding of STS-B."""
    sentences = np.load(path / "stsb_emb.npz")
    told = [row[s] for row in texts(path, "stsb.jsonl.gz") for s in ("s1", "s2")]
    known = dict(zip(sentences["pairs"].ravel(), told, strict=True))
    words = CountVectorizer(min_df=3, token_pattern=r"(?u)\b\w+\b")
    counts = words.fit_transform(known[at] for at in range(len(known))).astype(float)
    gram = (counts.T @ counts).toarray() + np.eye(counts.shape[1])
    vectors = np.linalg.solve(gram, counts.T @ sentences["X"].astype(float))
    rows = [row for row in texts(path, "reuters21578.jsonl.gz") if len(row["body"] or "") > 500 and row["title"]][:n]
    bodies, titles = (words.transform([row[name] for row in rows]) for name in ("body", "title"))
    asked = np.flatnonzero(titles[:n_queries].sum(axis=1))
    return graded(bodies @ vectors, titles[asked] @ vectors, [(at, row, 1.0) for at, row in enumerate(asked)])


def collection(name):
    path = Path(os.environ["MAHALA_DATA"])
    if name == "reuters":
        return reuters(path)
    arrays = np.load(path / "cranfield_emb.npz" if name == "cranfield" else name)
    return graded(arrays["X"], arrays["Q"], arrays["qrels"])


class World:
    """People and bots who ask some of the queries of a collection, and click."""

    def __init__(self, data, seed, people="navigational", random=0.0):
        self.data, self.random = data, random
        self.rng = np.random.default_rng(seed)
        rows = self.rng.permutation(len(data.queries))
        n_new = int(NEW_SHARE * len(rows))
        self.new, self.known = np.sort(rows[:n_new]), rows[n_new:]
        weights = 1.0 / np.arange(1.0, len(self.known) + 1.0)
        self.shares = weights / weights.sum()
        activity = self.rng.lognormal(size=N_USERS)
        self.activity = activity / activity.sum()
        self.on_phone = self.rng.random(N_USERS) < PHONE
        low, high = PEOPLE[people]
        n = len(data.queries)
        self.attraction = [np.full(n, low) if np.isscalar(low) else self.rng.uniform(*low, size=n)]
        self.attraction += [np.full(n, high) if np.isscalar(high) else self.rng.uniform(*high, size=n)]

    def page(self, rank):
        """Ask a query, and return what was shown and clicked; `rank` returns the items shown for a query."""
        rng, query = self.rng, int(self.rng.choice(self.known, p=self.shares))
        shown = rank(query)
        who, n = rng.random(), len(shown)
        if who < BOTS * BOT_SHARE:
            bot = int(who // BOT_SHARE)
            return Page(query, shown, np.arange(n) == (0 if bot == 0 else rng.integers(n)), f"bot {bot}")
        user = int(rng.choice(N_USERS, p=self.activity))
        if rng.random() < self.random:
            return Page(query, shown, np.arange(n) == rng.integers(n), f"user {user}")
        looked_at = rng.random(n) < np.arange(1.0, n + 1.0) ** -DEPTH[bool(self.on_phone[user])]
        grades = np.array([self.data.grades[query].get(int(item), 0.0) for item in shown])
        low, high = (part[query] for part in self.attraction)
        return Page(query, shown, looked_at & (rng.random(n) < low + grades * (high - low)), f"user {user}")


def best(scores):
    return np.argsort(-scores, kind="stable")[:K]


class Counter:
    """The 20 lines that a team would write."""

    def __init__(self, data):
        self.data, self.counts = data, {}

    def learn(self, page):
        for item, is_clicked in zip(page.shown.tolist(), page.clicked.tolist(), strict=True):
            counts = self.counts.setdefault(page.query, {}).setdefault(item, [0, 0])
            counts[0] += is_clicked
            counts[1] += 1

    def rank(self, row, known=True):
        scores = self.data.items @ self.data.queries[row]
        for item, (clicks, pages) in self.counts.get(row, {}).items():
            scores[item] += 0.3 * clicks / (pages + 2) * known
        return best(scores)


class Adapter:
    """`QueryAdapter`, with the ids of queries, items and users."""

    def __init__(self, data, **settings):
        self.data, self.ids = data, np.arange(len(data.items))
        self.adapter = mahala_search.QueryAdapter(random_state=0, **settings)

    def learn(self, page):
        self.adapter.learn_one(
            self.data.queries[page.query], self.data.items[page.shown], page.clicked,
            query_id=page.query, user=page.user, item_ids=page.shown,
        )  # fmt: skip

    def rank(self, row, known=True):
        name = int(row) if known else None
        return self.adapter.rank(self.data.queries[row], self.data.items, K, name, item_ids=self.ids)


def ndcg(grades, ranked):
    discounts = 1.0 / np.log2(np.arange(2.0, K + 2.0))
    ideal = np.sort(list(grades.values()))[::-1][:K]
    found = [grades.get(int(item), 0.0) for item in ranked]
    return float(discounts[: len(found)] @ found / (discounts[: len(ideal)] @ ideal))


def gain(world, rank, rows, weights=None):
    """Return the gain over the plain ranking on queries, and its standard error."""
    data = world.data
    gains = np.array([
        ndcg(data.grades[row], rank(row)) - ndcg(data.grades[row], best(data.items @ data.queries[row])) for row in rows
    ])  # fmt: skip
    weights = np.full(len(rows), 1.0 / len(rows)) if weights is None else weights / weights.sum()
    mean = float(weights @ gains)
    return mean, float(np.sqrt(weights**2 @ (gains - mean) ** 2))


def judged_gain(data, seed):
    """Return the gain on new queries by the judgments of the others, and its standard error."""
    world = World(data, seed)
    judgments = [(at, item, grade) for at, row in enumerate(world.known) for item, grade in data.grades[row].items()]
    adapter = mahala_search.QueryAdapter(random_state=seed).fit(data.queries[world.known], data.items, judgments)
    return gain(world, lambda row: adapter.rank(data.queries[row], data.items, K), world.new)


def run(data, seed, people, random, stops, served=False, learners=None):
    """Yield (clicks, name of the learner, gain on new queries, gain on known queries, seconds of learning)."""
    learners = learners or {"adapter": Adapter(data), "counter": Counter(data)}
    for alone in [[name] for name in learners] if served else [list(learners)]:
        world = World(data, seed, people, random)
        n_clicks, asked, seconds = 0, np.zeros(len(data.queries)), dict.fromkeys(alone, 0.0)
        for stop in stops:
            while n_clicks < stop:
                plain = lambda row: best(data.items @ data.queries[row])  # noqa: E731
                page = world.page(learners[alone[0]].rank if served else plain)
                n_clicks += int(page.clicked.sum())
                asked[page.query] += 1
                for name in alone:
                    start = time.process_time()
                    learners[name].learn(page)
                    seconds[name] += time.process_time() - start
            for name in alone:
                rank, known = learners[name].rank, np.flatnonzero(asked)
                new = gain(world, lambda row, rank=rank: rank(row, known=False), world.new)
                yield stop, name, new, gain(world, rank, known), seconds[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("collections", nargs="*", default=["cranfield", "reuters"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--random", type=float, default=0.0, help="share of pages that are clicked at random")
    parser.add_argument("--people", choices=list(PEOPLE), default="navigational")
    parser.add_argument("--clicks", type=int, nargs="+", default=[300, 1000, 3000])
    parser.add_argument("--served", action="store_true", help="show what was learned")
    parser.add_argument("--judgments", action="store_true", help="learn from judgments instead of clicks")
    given = parser.parse_args()
    for name in given.collections:
        data = collection(name)
        print(f"# {Path(name).stem}: {len(data.items)} items, {len(data.queries)} queries, {given.people} people, "
              f"{given.random:.0%} of pages clicked at random")  # fmt: skip
        for seed in range(given.first, given.first + given.seeds):
            if given.judgments:
                new = judged_gain(data, seed)
                print(f"seed {seed} judgments  new {new[0]:+.4f} ({new[1]:.4f})", flush=True)
                continue
            for n, who, new, known, seconds in run(data, seed, given.people, given.random, given.clicks, given.served):
                print(f"seed {seed} {n:5d} clicks  {who:8s} new {new[0]:+.4f} ({new[1]:.4f})  "
                      f"known {known[0]:+.4f} ({known[1]:.4f})  {seconds:.1f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
