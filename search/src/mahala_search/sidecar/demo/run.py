"""Run the demo beside a sidecar."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from mahala_search.sidecar.client import Client
from mahala_search.sidecar.demo.dishes import SETTINGS, Dishes
from mahala_search.sidecar.demo.people import RATE, People

SPACE = "dishes"
# The share of the people who get the plain ranking: so large that a minute is enough.
SHARE = 0.4


@contextmanager
def demo(address: str, *, key: str | None = None, rate: float = RATE) -> Iterator[People]:
    """Have people search dishes beside the sidecar at an address, until the end of the block."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=address, headers=headers, timeout=10.0) as http:
        body = {"width": SETTINGS.width, "encoder": SETTINGS.encoder, "control": {"share": SHARE, "mode": "plain"}}
        http.put(f"/v1/spaces/{SPACE}", json=body).raise_for_status()
    dishes = Dishes()
    with Client(address, SPACE, key=key, vectors=dishes.vectors, refresh=1.0) as client:
        people = People(client, dishes, rate=rate)
        people.start()
        try:
            yield people
        finally:
            people.stop()
