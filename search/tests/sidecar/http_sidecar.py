"""A sidecar with a small space behind HTTP, which the tests of its interface share."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import replace

import numpy as np
import uvicorn
from safetensors.numpy import save
from starlette.testclient import TestClient

from mahala_search.adapter.maps.query_maps import QueryMaps
from mahala_search.adapter.memory.bonuses import Bonuses
from mahala_search.adapter.memory.remembered import digest_of
from mahala_search.adapter.trust.signals import ENGINE
from mahala_search.sidecar.http import search
from mahala_search.sidecar.http.app import create_app
from mahala_search.sidecar.http.bodies import decoded, encoded
from mahala_search.sidecar.http.guard import ServerSettings
from mahala_search.sidecar.http.server import configuration
from mahala_search.sidecar.records import Settings, key_of
from mahala_search.sidecar.service import Sidecar
from mahala_search.sidecar.store.checkpoints import Checkpoints

search.WAIT = 10.0  # also where many tests run at once
WIDTH = 4
BASE = "/v1/spaces/s"
# A map for new queries that turns the first axis into the second.
TURN = np.eye(WIDTH)[[1, 0, 2, 3]]


def vector(at, width=WIDTH):
    """Return the axis `at`."""
    return np.eye(width)[at]


def query(at=0, **more):
    return {"f32": encoded(vector(at)), **more}


def http_of(sidecar, **settings):
    return TestClient(create_app(sidecar, ServerSettings(**settings)), base_url="http://127.0.0.1")


def publish(sidecar, name="s", new=TURN, remembered=None, agreed=True, signals=ENGINE):
    """Write a version of a model that maps new queries by a matrix, and remembers {query id: {item: bonus}}.

    `agreed` is whether enough users agree on these items.
    """
    space = sidecar.store.spaces()[name]
    by_digest = {digest_of(key_of(sidecar.store.salt(space.id), id)): items for id, items in (remembered or {}).items()}
    digests, stops, items, values = sorted(by_digest), [], [], []
    for digest in digests:
        for item, value in sorted((digest_of(item), value) for item, value in by_digest[digest].items()):
            items.append(item)
            values.append(value)
        stops.append(len(items))
    keys = [np.array(part, dtype=np.uint64) for part in (digests, items)]
    parts = np.array(values, dtype=np.float32), np.full(len(values), agreed, dtype=np.uint8)
    bonuses = Bonuses(keys[0], np.array(stops, dtype=np.int64), keys[1], *parts)
    maps = QueryMaps(new, bonuses, signals=signals)
    checkpoints = Checkpoints(sidecar.store.database, holder="test")
    version = checkpoints.write(
        space.id, checkpoints.take_lease(), place=1, generation=space.generation,
        names=[item for items in (remembered or {}).values() for item in items], status={"shown": 1}, state=b"",
        maps=save(maps.to_arrays()),
    )  # fmt: skip
    sidecar.refresh()
    return version


def make(sidecar, name="s", **settings):
    return sidecar.put(name, replace(Settings(WIDTH), **settings)).space


def embedded(http, *queries, base=BASE, **more):
    """Return the results of queries, with their vectors decoded."""
    answer = http.post(f"{base}/embed", json={"queries": list(queries), **more})
    assert answer.status_code == 200, answer.text
    return [one | {"vector": decoded(one["f32"])} for one in answer.json()["results"]]


@contextlib.contextmanager
def opened(folder, name="search.db"):
    with Sidecar(folder / name, folder / "spool") as sidecar:
        yield sidecar


@contextlib.contextmanager
def running(sidecar, pages=(), **settings):
    """Serve in a thread; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = uvicorn.Server(configuration(create_app(sidecar, ServerSettings(**settings), pages)))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        wait_for(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
