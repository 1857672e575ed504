"""`mahala serve` killed at random moments while clients send what people did, and searched all the while.

Restarted each time, it ends with every acknowledged impression in its log exactly once, and with the models that learn
from that log without a stop, bit for bit; `mahala stream` learns the same model from it.
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

import numpy as np
import uvicorn

import mahala
import mahala_search
from mahala_search.serve.http.app import create_app
from mahala_search.serve.index.quantised import quantised, score_bounds
from mahala_search.serve.learning.learners import Learners, new_learner
from mahala_search.serve.service import Service
from mahala_search.serve.store.checkpoints import Checkpoints
from mahala_search.serve.store.files import log_lines

from .runner import Failed

# Cases: each kills a service N_KILLS times.
AMOUNT, SHORT = 100, 1
CPU_SECONDS = 300.0
N_KILLS, N_CLIENTS, N_EACH, WIDTH, N_ITEMS = 3, 3, 40, 6, 30
LEARNERS = {"adapter": {"user_cap": 20, "random_state": 0}, "cautious": {"cap": 0.3, "random_state": 0}}


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Load the kernels once, so that a forked service begins at once."""
    adapter = new_learner(LEARNERS["adapter"])
    adapter.learn_one(np.ones(WIDTH), np.eye(2, WIDTH), [1.0, 0.0])
    adapter.maps()
    X = np.ones((2, WIDTH), dtype=np.float32)
    score_bounds(*quantised(X), np.ones(2, dtype=bool), np.ones(WIDTH))


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        path = Path(folder) / "mahala.db"
        vectors = rng.normal(size=(N_ITEMS, WIDTH))
        with Service(path, learn=False) as service:
            service.create("c", width=WIDTH, settings={"learners": LEARNERS})
            service.put_items("c", [{"id": f"i{at}", "vector": vector} for at, vector in enumerate(vectors)])
        with socket.create_server(("127.0.0.1", 0), backlog=128) as bound:
            acknowledged = _under_load(path, bound, rng)
        with Service(path, learn=False) as service:
            _check(service, acknowledged, Path(folder))
    return N_KILLS


def _under_load(path: Path, bound: socket.socket, rng: np.random.Generator) -> dict[str, int]:
    """Kill a service while clients use it; return the places of what it acknowledged."""
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
    with mahala_search.serve.Client(address, "c", timeout=5.0, attempts=8) as client:
        client.wait(max(told["acknowledged"].values()), 60.0)
    _wait_for_states(path, max(told["acknowledged"].values()))
    os.kill(pid, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (0, -signal.SIGTERM):
        raise Failed(f"the service ended with the code {code}")
    acknowledged: dict[str, int] = told["acknowledged"]
    return acknowledged


def _wait_for_states(path: Path, place: int) -> None:
    """Wait until the states have learned up to a place: before a kill, perhaps only the maps of it were written."""
    end = time.monotonic() + 60.0
    with Service(path, learn=False) as service:
        checkpoints = Checkpoints(service.store.database)
        while (newest := checkpoints.newest("c", 0)) is None or newest[0].place < place:
            if time.monotonic() > end:
                raise Failed(f"after 60 s, the states have learned up to {newest and newest[0].place}, not {place}")
            time.sleep(0.05)


def _use(address: str, seeds: list[int]) -> dict[str, Any]:
    """Let clients use the service; return the places of what it acknowledged, and what went wrong."""
    acknowledged: dict[str, int] = {}
    problems: list[BaseException] = []
    clients = [
        threading.Thread(target=_client, args=(address, number, own, acknowledged, problems))
        for number, own in enumerate(seeds)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return {"acknowledged": acknowledged, "problem": repr(problems[0]) if problems else ""}


def _client(address: str, number: int, seed: int, acknowledged: dict[str, int], problems: list[BaseException]) -> None:
    rng = np.random.default_rng(seed)
    try:
        with mahala_search.serve.Client(address, "c", timeout=5.0, attempts=8) as client:
            for at in range(N_EACH):
                found = client.search(vector=rng.normal(size=WIDTH).tolist(), k=5)
                query: dict[str, Any] = {"item": f"i{rng.integers(N_ITEMS)}"}
                clicked, key = found.ids[int(rng.integers(5)) :][:1], f"{number}-{at}"
                told = {"shown": found.ids, "user": f"u{at % 4}"}
                if at % 2:  # as a search that was made elsewhere, and a click that names it
                    events = [{"search_id": key, "query": query, **told}, {"search_id": key, "item": clicked[0]}]
                    acknowledged[key] = client.events(events)["places"][1]
                else:
                    told |= {"clicked": clicked, "version": found.version}
                    acknowledged[key] = client.impression(**told, key=key, **query)
    except BaseException as error:
        problems.append(error)


def _start(path: Path, bound: socket.socket) -> int:
    """Fork a process that serves on a socket; return its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with Service(path, lease_seconds=0.3) as service:
            config = uvicorn.Config(create_app(service), log_level="critical", access_log=False)
            uvicorn.Server(config).run([bound])
    finally:
        os._exit(0)


def _check(service: Service, acknowledged: dict[str, int], folder: Path) -> None:
    entries = list(service.store.read_log("c"))
    places = {entry.key.split(":")[1]: entry.place for entry in entries if entry.key is not None}
    if len(entries) != N_CLIENTS * N_EACH or places != acknowledged:
        raise Failed(f"{len(acknowledged)} impressions were acknowledged, but the log has {len(entries)}, or elsewhere")
    if [entry.place for entry in entries] != list(range(1, len(entries) + 1)):
        raise Failed("the log has gaps, or is out of order")
    version, states = Checkpoints(service.store.database).newest("c", 0) or (None, {})
    if version is None or version.place != len(entries):
        raise Failed(f"the last checkpoint is not at the end of the log: {version}")
    whole = Learners(LEARNERS, None)
    for entry in entries:
        whole.learn([entry], lambda rows: service.store.vectors("c", rows))
    if {name: adapter.to_bytes() for name, adapter in whole.adapters.items()} != states:
        raise Failed("the models are not those of a service that was never killed")
    whole.teach(lambda rows: service.store.vectors("c", rows))
    if whole.status() != version.status:
        raise Failed("what is told about the models is not that of a service that was never killed")
    stream = mahala.stream.Stream(
        folder / "m.safetensors",
        new_learner(LEARNERS["adapter"]),
        items=service.store.vectors("c", range(N_ITEMS)).astype(np.float32),
        n_features=WIDTH,
    )
    for _ in stream.learn(line.encode() for line in log_lines(service.store, "c")):
        pass
    # Their memories of clicks differ in how they name items: rows here, vectors there.
    adapter, found = whole.adapters["adapter"], stream.learner
    same = np.array_equal(found.metric_.matrix, adapter.metric_.matrix)
    if not same or found.trust_ != adapter.trust_:
        raise Failed("the model is not that of mahala stream over the same log")
