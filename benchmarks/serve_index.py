"""Searches of `mahala serve` that read all items, and those that use a graph: time, and how many of the best are found.

    python benchmarks/serve_index.py --items 100000 1000000 --width 384

Items are near a space of 40 dimensions, as embeddings are, with length one; queries are mapped as learned ones are.
Times are those of one core.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mahala_search.serve.index.graph import extended
from mahala_search.serve.index.item_index import Index
from mahala_search.serve.store.rows import Items

K, N_QUERIES, DIMENSIONS, BLOCK = 10, 100, 40, 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[100_000, 1_000_000], help="increasing")
    parser.add_argument("--width", type=int, default=384)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    learned = np.eye(given.width) + 0.02 * rng.normal(size=(given.width, given.width))
    queries = vectors(N_QUERIES, given.width, seed=10**9).astype(np.float64) @ learned
    index, graph, built = Index("c", given.width, max(given.items)), None, 0.0
    for n in given.items:
        index.refresh(Rows(n, given.width))  # type: ignore[arg-type]
        index.graph = None
        index.search(queries[0], K)
        exact, wanted = timed(lambda: [index.search(query, K) for query in queries])
        before = graph
        seconds, graph = timed(lambda before=before: extended(index, before, threading.Event()))
        built += seconds
        index.graph = graph
        near, found = timed(lambda: [index.search(query, K) for query in queries])
        pairs = zip(found, wanted, strict=True)
        recall = np.mean([len({o.row for o in own} & {o.row for o in best}) / K for own, best in pairs])
        print(
            f"{n:,} × {given.width}: all items {1e3 * exact / N_QUERIES:.1f} ms, graph {1e3 * near / N_QUERIES:.1f} ms "
            f"with {recall:.3f} of the {K} best, built in {built:.0f} s",
            flush=True,
        )


class Rows:
    """Random items in place of a database."""

    def __init__(self, n: int, width: int) -> None:
        self.n, self.width = n, width

    def changed_blocks(self, name: str, after: int) -> Iterator[Items]:
        for start in range(after, self.n, BLOCK):
            rows = range(start, min(start + BLOCK, self.n))
            X = vectors(len(rows), self.width, seed=start)
            yield Items(
                rows,
                [f"i{row}" for row in rows],
                X,
                [{}] * len(rows),
                [True] * len(rows),
                range(rows[0] + 1, rows[-1] + 2),
            )


def vectors(n: int, width: int, seed: int) -> Any:
    rng, space = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(DIMENSIONS, width))
    X = rng.normal(size=(n, DIMENSIONS)) @ space + 0.5 * rng.normal(size=(n, width))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of this thread on a core, and what a call returns."""
    started = time.thread_time()
    result = call()
    return time.thread_time() - started, result


if __name__ == "__main__":
    main()
