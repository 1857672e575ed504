"""Run the demo beside a sidecar."""

from collections.abc import Iterator
from contextlib import contextmanager

from mahala_search.sidecar.client import Client
from mahala_search.sidecar.demo.dishes import ENCODER, WIDTH, Dishes
from mahala_search.sidecar.demo.people import RATE, People

SPACE = "dishes"
# The share of the people who get the plain ranking: so large that a minute is enough.
SHARE = 0.4


@contextmanager
def demo(address: str, *, rate: float = RATE) -> Iterator[People]:
    """Have people search dishes beside the sidecar at an address, until the end of the block."""
    dishes = Dishes()
    with Client(address, SPACE, vectors=dishes.vectors, refresh=1.0, timeout=10.0) as client:
        client.call("PUT", body={"width": WIDTH, "encoder": ENCODER, "control": {"share": SHARE, "mode": "plain"}})
        people = People(client, dishes, rate=rate)
        people.start()
        try:
            yield people
        finally:
            people.stop()
