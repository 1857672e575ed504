"""What clicks do to queries that were asked before, against a mere counter of clicks, and to new queries.

    python benchmarks/known_queries.py                  # 3 seeds, about two minutes
    python benchmarks/known_queries.py --seeds 8 --first 8 --impressions 3000

5,000 items of 96 features, 200 queries that are asked and 300 that are not. An item is relevant by a hidden weighting
of the features, which carries over to new queries, and by something that the vectors do not show. All figures are gains
in nDCG@10 over the inner product: the mean over seeds and, in brackets, the worst. "counter" ranks by the number of
clicks on an item for this query, from the same log, and then by the inner product. "worst group" is the lowest gain of
the queries that were asked least, medium and most often.
"""

from __future__ import annotations

import argparse

import numpy as np

import mahala_search
from mahala_search import click_model
from mahala_search.adapter.maps.judged import ndcg
from mahala_search.quality.click_models import ClickModel

N_ITEMS, WIDTH, N_ASKED, N_NEW, N_RELEVANT = 5000, 96, 200, 300, 12
# Click model and share of impressions in which the worst item shown is clicked.
CASES = {
    "position-biased clicks": (click_model("position"), 0.0),
    "with more noise": (ClickModel((0.2, 0.7), eta=1.0), 0.0),
    "random clicks, position-biased": (ClickModel((0.3,), eta=1.0), 0.0),
    "random clicks": (ClickModel((0.3,)), 0.0),
    "30 % hostile": (click_model("position"), 0.3),
}


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def world(seed, noise):
    """Return items, queries and whether each item is relevant for each query."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(60, WIDTH))
    items = unit(centers[rng.integers(60, size=N_ITEMS)] + rng.normal(size=(N_ITEMS, WIDTH)))
    n = N_ASKED + N_NEW
    queries = unit(items[rng.integers(N_ITEMS, size=n)] + 0.08 * rng.normal(size=(n, WIDTH)))
    raw = queries @ items.T
    hidden = queries * np.exp(0.5 * rng.normal(size=WIDTH)) @ items.T
    spread = np.sort(raw, axis=1)[:, -50:].std()
    scores = hidden / hidden.std() * raw.std() + noise * spread * rng.normal(size=raw.shape)
    relevant = np.zeros(raw.shape)
    np.put_along_axis(relevant, np.argsort(-scores, axis=1)[:, :N_RELEVANT], 1.0, axis=1)
    return items, queries, relevant


class Adapter:
    """A `QueryAdapter` as the sidecar has it."""

    def __init__(self, items, queries):
        self.items, self.queries, self.ids = items, queries, np.arange(len(items))
        self.adapter = mahala_search.QueryAdapter(user_cap=5, random_state=0)

    def rank(self, row, known=True):
        name = int(row) if known else None
        return self.adapter.rank(self.queries[row], self.items, 10, name, item_ids=self.ids)

    def learn(self, row, shown, clicked):
        self.adapter.learn_one(self.queries[row], self.items[shown], clicked, query_id=int(row), item_ids=shown)


def run(ranker, items, queries, relevant, clicks, hostile, n, seed):
    """Return the gains on asked queries of what learned and of the counter, on new queries, and of the worst group."""
    rng, adversary = np.random.default_rng(1000 + seed), click_model("adversarial")
    counts, n_asked = np.zeros((N_ASKED, N_ITEMS)), np.zeros(N_ASKED)
    for _ in range(n):
        row = int(rng.integers(N_ASKED))
        shown = ranker.rank(row)
        who = adversary if rng.random() < hostile else clicks
        clicked = who.click(relevant[row, shown], rng)
        ranker.learn(row, shown, clicked)
        counts[row, shown] += clicked
        n_asked[row] += 1

    def quality(row, ranked):
        return float(ndcg(relevant[row, ranked], relevant[row][relevant[row] > 0.0], 10))

    def gains(rows, ranking):
        return np.array([quality(row, ranking(row)) - quality(row, best(items @ queries[row])) for row in rows])

    def best(scores):
        return np.argsort(-scores, kind="stable")[:10]

    asked = np.flatnonzero(n_asked)
    served = gains(asked, ranker.rank)
    counter = gains(asked, lambda row: best(10.0 * counts[row] + items @ queries[row]))
    new = gains(range(N_ASKED, len(queries)), lambda row: ranker.rank(row, known=False))
    groups = np.array_split(served[np.argsort(n_asked[asked], kind="stable")], 3)
    return served.mean(), counter.mean(), new.mean(), min(part.mean() for part in groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--impressions", type=int, default=1000)
    parser.add_argument("--noise", type=float, default=1.5, help="of relevance that vectors do not show")
    parser.add_argument("--case", help="part of the name of a case")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    for name, (clicks, hostile) in CASES.items():
        if given.case is None or given.case in name:
            rows = []
            for seed in seeds:
                items, queries, relevant = world(seed, given.noise)
                ranker = Adapter(items, queries)
                rows.append(run(ranker, items, queries, relevant, clicks, hostile, given.impressions, seed))
            show(name, np.array(rows))


def show(name, rows):
    print(f"{name:32s}", end="")
    for column, values in zip(("asked", "counter", "new", "worst group"), rows.T, strict=True):
        print(f"{column} {values.mean():+.4f} ({values.min():+.4f})  ", end="")
    print(f"asked - counter, worst {(rows[:, 0] - rows[:, 1]).min():+.4f}", flush=True)


if __name__ == "__main__":
    main()
