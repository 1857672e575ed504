"""`mahala serve` killed at random moments while clients search and send what people do.

Restarted each time, it ends with everything that it acknowledged in its log exactly once, and with the model that
learns from that log without a stop, bit for bit.
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
import uvicorn

from mahala_search.sidecar.http.app import create_app
from mahala_search.sidecar.http.bodies import encoded
from mahala_search.sidecar.http.guard import ServerSettings
from mahala_search.sidecar.learning.learner import SpaceLearner
from mahala_search.sidecar.learning.learning import Learning
from mahala_search.sidecar.records import Settings, Unavailable
from mahala_search.sidecar.service import Sidecar
from mahala_search.sidecar.store.checkpoints import Checkpoints
from mahala_search.sidecar.store.store import Store

from .runner import Failed

# Cases: each kills a sidecar N_KILLS times.
AMOUNT, SHORT = 100, 1
CPU_SECONDS = 300.0
N_KILLS, N_CLIENTS, N_EACH, WIDTH, N_ITEMS, PAGE = 3, 3, 40, 6, 30, 5
# What a client may send again: the answer did not come, the sidecar was busy, or the search was not written.
PAUSE = 0.05


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Load what learns once, so that a forked sidecar begins at once."""
    SpaceLearner({}, 0).maps()


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        path = Path(folder) / "search.db"
        store = Store(path)
        space = store.create("s", Settings(WIDTH))
        store.close()
        with socket.create_server(("127.0.0.1", 0), backlog=128) as bound:
            acknowledged = _under_load(path, bound, rng)
        store = Store(path)
        _check(store, space.id, acknowledged)
        store.close()
    return N_KILLS


def _under_load(path: Path, bound: socket.socket, rng: np.random.Generator) -> dict[str, str]:
    """Kill a sidecar while clients use it; return the item that was clicked for each search."""
    address = f"http://127.0.0.1:{bound.getsockname()[1]}"
    seeds = rng.integers(2**31, size=N_CLIENTS).tolist()
    pid = _start(path, bound)
    # The clients' threads are in a process of their own: one with threads must not be forked.
    reading, writing = os.pipe()
    clients = os.fork()
    if clients == 0:
        os.write(writing, json.dumps(_use(address, seeds)).encode())
        os._exit(0)
    os.close(writing)
    for _ in range(N_KILLS):
        time.sleep(float(rng.random()) * 0.8)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        pid = _start(path, bound)
    with open(reading, "rb") as file:
        told = json.loads(file.read() or "{}")
    os.waitpid(clients, 0)
    if told.get("problem") or not told:
        raise Failed(f"a client failed: {told.get('problem', 'it crashed')}")
    acknowledged: dict[str, str] = told["acknowledged"]
    _wait(path, 2 * len(acknowledged))
    os.kill(pid, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (0, -signal.SIGTERM):
        raise Failed(f"the sidecar ended with the code {code}")
    return acknowledged


def _wait(path: Path, place: int) -> None:
    """Wait until a place of the log has been learned from."""
    end = time.monotonic() + 60.0
    store = Store(path)
    (space,) = store.spaces().values()
    while (learned := store.progress(space.id)["learned"]) < place:
        if time.monotonic() > end:
            raise Failed(f"after 60 s, {learned} entries of the log have been learned from, not {place}")
        time.sleep(0.05)
    store.close()


def _use(address: str, seeds: list[int]) -> dict[str, Any]:
    """Let clients use the sidecar; return what it acknowledged, and what went wrong."""
    acknowledged: dict[str, str] = {}
    problems: list[BaseException] = []
    clients = [threading.Thread(target=_client, args=(address, own, acknowledged, problems)) for own in seeds]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return {"acknowledged": acknowledged, "problem": repr(problems[0]) if problems else ""}


def _client(address: str, seed: int, acknowledged: dict[str, str], problems: list[BaseException]) -> None:
    rng = np.random.default_rng(seed)
    items = np.random.default_rng(0).normal(size=(N_ITEMS, WIDTH))
    try:
        with httpx.Client(base_url=f"{address}/v1/spaces/s", timeout=5.0) as http:
            for at in range(N_EACH):
                query = {"f32": encoded(rng.normal(size=WIDTH)), "id": f"q{rng.integers(9)}", "user": f"u{at % 4}"}
                search_id = None
                while search_id is None:  # a search that was not written has no id
                    search_id = _sent(http, "/embed", {"queries": [query]})["results"][0]["search_id"]
                shown = [int(row) for row in rng.choice(N_ITEMS, size=PAGE, replace=False)]
                vectors = {f"i{row}": encoded(items[row]) for row in shown}
                clicked = f"i{shown[int(rng.integers(PAGE))]}"
                _sent(http, "/shown", {"search_id": search_id, "ids": [*vectors], "vectors": vectors})
                answer = _sent(http, "/events", {"search_id": search_id, "item": clicked})
                if answer["accepted"] != 1:
                    raise Failed(f"a click was not accepted: {answer['problems']}")
                acknowledged[search_id] = clicked
    except BaseException as error:
        problems.append(error)


def _sent(http: httpx.Client, path: str, body: Any) -> Any:
    """Send a request until it is answered; return the answer."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        try:
            answer = http.post(path, json=body)
        except httpx.TransportError:
            pass
        else:
            if answer.status_code < 400:
                return answer.json()
            if answer.status_code != 503:
                raise Failed(f"{answer.status_code}: {answer.text}")
        time.sleep(PAUSE)
    raise Failed(f"{path} was not answered for 60 s")


def _start(path: Path, bound: socket.socket) -> int:
    """Fork a process that serves on a socket and learns; return its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with Sidecar(path, path.parent / "spool") as sidecar:
            threading.Thread(target=_learn, args=(sidecar.store,), daemon=True).start()
            app = create_app(sidecar, ServerSettings(rate=1e9))
            uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False)).run([bound])
    finally:
        os._exit(0)


def _learn(store: Store) -> None:
    learning = Learning(store, Checkpoints(store.database, 0.3))
    while True:
        try:
            pause = learning.step()
        except Unavailable:
            pause = 0.1
        time.sleep(pause)


def _check(store: Store, space: str, acknowledged: dict[str, str]) -> None:
    entries = store.read_log(space, 0, 10**6)
    if [entry.place for entry in entries] != list(range(1, len(entries) + 1)):
        raise Failed("the log has gaps, or is out of order")
    clicks = [(one.search_id, id) for one in entries for id, value in zip(one.ids, one.values, strict=True) if value]
    if sorted(clicks) != sorted(acknowledged.items()) or len(acknowledged) != N_CLIENTS * N_EACH:
        raise Failed(f"{len(acknowledged)} clicks were acknowledged, but the log has {len(clicks)}, or others")
    if sum(entry.first for entry in entries) != len(acknowledged):
        raise Failed("what was shown for a search is in the log twice, or not at all")
    whole = SpaceLearner({}, 0)
    for entry in entries:
        whole.learn([entry], store.item_vectors(space, entry.ids))
    served = store.served(space)
    if served is None or (served.maps, list(served.names)) != whole.maps():
        raise Failed("the model is not that of a sidecar that was never killed")
