"""`mahala serve` killed at random moments while clients send what people did, and queries are embedded all the while.

Restarted each time, it ends with every acknowledged click in its log exactly once, with an empty spool, and with the
model that learns from that log without a stop, bit for bit.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import sqlalchemy as sa
import uvicorn

from mahala_search.sidecar.http.app import create_app
from mahala_search.sidecar.http.bodies import encoded
from mahala_search.sidecar.http.guard import ServerSettings
from mahala_search.sidecar.http.server import configuration
from mahala_search.sidecar.learning.learner import SpaceLearner, new_adapter
from mahala_search.sidecar.learning.process import learn
from mahala_search.sidecar.records import Settings
from mahala_search.sidecar.service import Sidecar
from mahala_search.sidecar.store import tables
from mahala_search.sidecar.store.checkpoints import Checkpoints
from mahala_search.sidecar.store.spool import Spool
from mahala_search.sidecar.store.store import Store

from .runner import Failed
from .values import Rng

# Cases: each kills a sidecar a few times.
AMOUNT, SHORT = 100, 1
CPU_SECONDS = 300.0
N_CLIENTS, WIDTH, N_ITEMS = 3, 6, 30
_FULL, _SHORT = (3, 40), (1, 10)  # kills, and searches of each client
LEARNER = {"user_cap": 20, "random_state": 0}


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Load the kernels once, so that a forked sidecar learns at once."""
    adapter = new_adapter(LEARNER)
    adapter.learn_one(np.ones(WIDTH), np.eye(2, WIDTH), [1.0, 0.0])
    adapter.maps()


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    n_kills, n_each = _FULL if amount > SHORT else _SHORT
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        folder = Path(name)
        store = Store(folder / "search.db")
        space = store.create("s", Settings(WIDTH, learner=LEARNER))
        store.add_vectors(space.id, {f"i{at}": rng.normal(size=WIDTH) for at in range(N_ITEMS)})
        store.close()
        with socket.create_server(("127.0.0.1", 0), backlog=128) as bound:
            clicked = _under_load(folder, bound, rng, n_kills, n_each)
        if len(clicked) != N_CLIENTS * n_each:
            raise Failed(f"{len(clicked)} of {N_CLIENTS * n_each} clicks were acknowledged")
        _check(folder, clicked)
    return n_kills


def _under_load(folder: Path, bound: socket.socket, rng: Rng, n_kills: int, n_each: int) -> dict[str, str]:
    """Kill a sidecar while clients use it; return the item of each click that it acknowledged, by the search."""
    address = f"http://127.0.0.1:{bound.getsockname()[1]}"
    seeds = rng.integers(2**31, size=N_CLIENTS).tolist()
    pid = _start(folder, bound)
    # The clients' threads are in a process of their own: one with threads must not be forked.
    reading, writing = os.pipe()
    clients = os.fork()
    if clients == 0:
        os.write(writing, json.dumps(_use(address, seeds, n_each)).encode())
        os._exit(0)
    os.close(writing)
    for _ in range(n_kills):
        time.sleep(float(rng.random()) * 0.8)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        pid = _start(folder, bound)
    with open(reading, "rb") as file:
        said = json.loads(file.read() or "{}")
    os.waitpid(clients, 0)
    if said.get("problem") or not said:
        raise Failed(f"a client failed: {said.get('problem', 'it crashed')}")
    _wait(folder)
    os.kill(pid, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (0, -signal.SIGTERM):
        raise Failed(f"the sidecar ended with the code {code}")
    clicked: dict[str, str] = said["clicked"]
    return clicked


def _wait(folder: Path) -> None:
    """Wait until the spool is empty, and the last state has learned all of the log."""
    store, spool, end = Store(folder / "search.db"), Spool(folder / "spool"), time.monotonic() + 60.0
    space = store.spaces()["s"]
    while True:
        spooled = len(spool)
        logged, newest = store.progress(space.id)["logged"], Checkpoints(store.database).newest(space.id)
        if not spooled and newest is not None and newest.place == logged:
            break
        if time.monotonic() > end:
            raise Failed(f"after 60 s, {newest and newest.place} of {logged} are learned, {spooled} groups are spooled")
        time.sleep(0.05)
    store.close()
    spool.close()


def _use(address: str, seeds: list[int], n_each: int) -> dict[str, Any]:
    """Let clients use the sidecar; return what it acknowledged, and what went wrong."""
    clicked: dict[str, str] = {}
    problems: list[BaseException] = []
    clients = [
        threading.Thread(target=_client, args=(address, number, own, n_each, clicked, problems))
        for number, own in enumerate(seeds)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return {"clicked": clicked, "problem": repr(problems[0]) if problems else ""}


def _client(
    address: str, number: int, seed: int, n_each: int, clicked: dict[str, str], problems: list[BaseException]
) -> None:
    rng = np.random.default_rng(seed)
    try:
        with httpx.Client(base_url=f"{address}/v1/spaces/s", timeout=5.0) as http:
            for at in range(n_each):
                query = {"f32": encoded(rng.normal(size=WIDTH)), "id": f"q{rng.integers(9)}", "user": f"u{at % 4}"}
                ids = [f"i{item}" for item in rng.permutation(N_ITEMS)[:5]]
                (found,) = _post(http, "/embed", {"queries": [query]})["results"]
                if at % 2 and found["search_id"] is not None:
                    search = found["search_id"]
                    _post(http, "/shown", {"search_id": search, "ids": ids})
                    events = [{"search_id": search, "item": ids[0]}]
                else:  # as a search that was made elsewhere
                    search, vector = f"{number}-{at}", rng.normal(size=WIDTH).tolist()
                    shown = {"search_id": search, "query": {"vector": vector, "id": query["id"]}, "shown": ids}
                    events = [shown, {"search_id": search, "item": ids[0]}]
                answer = _post(http, "/events", events)
                if answer["accepted"] != len(events):
                    raise Failed(f"events of {search} were not accepted: {answer}")
                clicked[search] = ids[0]
    except BaseException as error:
        problems.append(error)


def _post(http: httpx.Client, path: str, body: Any) -> Any:
    """Return the answer to a request, which is sent again while the sidecar is away."""
    end = time.monotonic() + 60.0
    while True:
        try:
            response = http.post(path, json=body)
            if response.status_code != 503:
                return response.raise_for_status().json()
        except httpx.TransportError:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def _start(folder: Path, bound: socket.socket) -> int:
    """Fork a process that serves on a socket; return its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with Sidecar(folder / "search.db", folder / "spool") as sidecar:
            stop = threading.Event()
            learning = threading.Thread(target=_learn, args=(folder, stop))
            learning.start()
            uvicorn.Server(configuration(create_app(sidecar, ServerSettings()))).run([bound])
            stop.set()
            learning.join()
    finally:
        os._exit(0)


def _learn(folder: Path, stop: threading.Event) -> None:
    store = Store(folder / "search.db")
    while not stop.wait(0.1):  # the lease of the one that was killed has to expire
        learn(store, Checkpoints(store.database, 0.3), stop)
    store.close()


def _check(folder: Path, clicked: dict[str, str]) -> None:
    store = Store(folder / "search.db")
    space = store.spaces()["s"]
    entries = store.read_log(space.id, 0, 100_000)
    if [entry.place for entry in entries] != list(range(1, len(entries) + 1)):
        raise Failed("the log has gaps, or is out of order")
    with store.reading() as connection:
        columns = tables.pages.c.id, tables.pages.c.reactions
        pages = {row.id: row.reactions for row in connection.execute(sa.select(*columns))}
    if any("click" not in pages[id].get(item, {}) for id, item in clicked.items()):
        raise Failed(f"of {len(clicked)} clicks that were acknowledged, some are not in the database")
    for id, item in clicked.items():
        of_page = [entry for entry in entries if entry.search_id == id]
        values = [dict(zip(entry.ids, entry.values, strict=True)) for entry in of_page]
        if sum(sum(one.values()) for one in values) != 1.0 or sum(one.get(item, 0.0) for one in values) != 1.0:
            raise Failed(f"the click on {item} of {id} is not in the log exactly once: {values}")
        if [entry.first for entry in of_page] != [True, False][: len(of_page)]:
            raise Failed(f"the page {id} is not counted exactly once")
    newest, whole = Checkpoints(store.database).newest(space.id), SpaceLearner(LEARNER, 0)
    for entry in entries:
        whole.learn([entry], store.item_vectors(space.id, entry.ids))
    served = store.served(space.id)
    if newest is None or (newest.place, newest.state) != (len(entries), whole.state()):
        raise Failed("the model is not that of a sidecar that was never killed")
    if served is None or (served.maps, list(served.names)) != whole.maps():
        raise Failed("what is served is not that of a sidecar that was never killed")
    store.close()
