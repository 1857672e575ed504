"""People of the demo: they search, look from the top, and click; a taste that no text has decides what they like."""

import threading
import time
from collections.abc import Mapping

import numpy as np

from mahala_search.sidecar.client import Client
from mahala_search.sidecar.demo.dishes import Dishes

# People, searches of all of them in a second, results of the engine, and of a page.
N_PEOPLE, RATE, FOUND, PAGE = 400, 25.0, 30, 10
# What they eat, whatever they ask for.
DIETS = {"vegan", "vegetarian"}
# How often a dish is clicked that is looked at: of the kind and diet wanted, of the kind alone, any other.
CLICKED = (0.6, 0.08, 0.02)
# How often a dish is ordered that was clicked.
BOUGHT = 0.15


class People(threading.Thread):
    """Search beside a sidecar as a team's program would: embed, search in the engine, tell what was shown and clicked.

    Parameters
    ----------
    client : of the sidecar's space
    dishes : the engine
    rate : searches in a second
    """

    def __init__(self, client: Client, dishes: Dishes, *, rate: float = RATE, seed: int = 0) -> None:
        super().__init__(name="mahala-demo", daemon=True)
        self._client, self._dishes, self._rate = client, dishes, rate
        self._rng, self._stop_asked = np.random.default_rng(seed), threading.Event()
        pairs = sorted({(dish["cuisine"], dish["kind"]) for dish in dishes.dishes if dish["cuisine"] and dish["kind"]})
        self._queries = [f"{cuisine} {kind}" for cuisine, kind in pairs]
        self._kinds = [kind for _, kind in pairs]
        self._vectors = [dishes.encode(query) for query in self._queries]
        self._about = {dish["title"]: dish for dish in dishes.dishes}
        weights = 1.0 / (1.0 + self._rng.permutation(len(pairs)))  # few queries are frequent
        self._shares = weights / weights.sum()
        self.n_searches = 0

    def run(self) -> None:
        """Search until `stop`."""
        started = time.monotonic()
        while not self._stop_asked.wait(max(0.0, started + self.n_searches / self._rate - time.monotonic())):
            self.search()

    def stop(self) -> None:
        """Let the last search end."""
        self._stop_asked.set()
        self.join()

    def search(self) -> None:
        """Let one of them search."""
        query = int(self._rng.choice(len(self._queries), p=self._shares))
        user = f"person {self._rng.integers(N_PEOPLE)}"
        search = self._client.embed(self._vectors[query], self._queries[query], user=user)
        ids = search.order(self._dishes.search(search.vector, FOUND))[:PAGE]
        seen = int(self._rng.integers(3, PAGE + 1))
        self._client.shown(search, ids, seen=seen)
        for place, id in enumerate(ids[:seen], 1):
            if self._rng.random() < self._liking(self._about[id], self._kinds[query]) / np.sqrt(place):
                self._client.event(search, id, "click")
                if self._rng.random() < BOUGHT:
                    self._client.event(search, id, "purchase", revenue=round(5.0 + 15.0 * self._rng.random(), 2))
        self.n_searches += 1

    @staticmethod
    def _liking(dish: Mapping[str, str], kind: str) -> float:
        if dish["kind"] != kind:
            return CLICKED[2]
        return CLICKED[0] if dish["diet"] in DIETS else CLICKED[1]
