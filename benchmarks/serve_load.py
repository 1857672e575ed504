"""The load that `mahala serve` bears: queries to embed at a fixed rate, and events in batches, over loopback.

    python benchmarks/serve_load.py --seconds 20 --width 384 --events 5000
    python benchmarks/serve_load.py --vectors 300000

It starts a sidecar of its own in a folder for temporary files, and prints the time and the memory of the start. Then it
sends for a bounded time, whether or not earlier requests have been answered, and prints latencies, memory, shares of
the cores, and whether what was acknowledged is in the database exactly once. With `--vectors`, it embeds that many
vectors in batches instead.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

import mahala
from mahala_search.sidecar.store.store import Store

# Items of a page, and different items.
PAGE, ITEMS = 10, 2000
# Seconds after which a request has failed.
TIMEOUT = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--searches", type=float, default=50.0, help="per second")
    parser.add_argument("--events", type=float, default=5000.0, help="per second")
    parser.add_argument("--batch", type=int, default=100, help="events of one request")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=1, help="server processes")
    parser.add_argument("--vectors", type=int, default=0, help="embed that many, in batches, instead of the rates")
    parser.add_argument("--no-learn", action="store_true", help="without the process that learns")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="serve-load-") as folder:
        path = Path(folder) / "search.db"
        started = time.perf_counter()
        command = [sys.executable, "-m", "mahala", "serve", "--database", str(path), "--port", "0"]
        command += ["--workers", str(given.workers)] + ["--no-learn"] * given.no_learn
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                host, _, port = process.stdout.readline().strip().removeprefix("http://").rpartition(":")
                http = Connections(host, int(port))
                asyncio.run(begin(http, given.width))
                seconds = time.perf_counter() - started
                sizes = ", ".join(f"{name} {resident(own):.0f} MiB" for name, own in processes(process.pid).items())
                print(f"first answer after {seconds:.1f} s: {sizes}")
                send = embed_all if given.vectors else load
                clicks = asyncio.run(send(Connections(host, int(port)), given, process.pid))
            finally:
                process.terminate()
        if clicks:
            check(path, clicks)


class Failed(Exception):
    """A request that was refused, or got no answer."""


class Connections:
    """Connections that are kept, and a client that does as little as possible: it runs on the same cores."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, method: str, path: str, body: bytes = b"") -> Any:
        """Return the answer to a request; raise Failed if it is refused or does not come in time."""
        try:
            async with asyncio.timeout(TIMEOUT):
                pair = self._free.pop() if self._free else await asyncio.open_connection(self.host, self.port)
                reader, writer = pair
                head = (
                    f"{method} /v1/spaces/s{path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
                )
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                answer = await reader.readuntil(b"\r\n\r\n")
                length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                content = json.loads(await reader.readexactly(length))
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            raise Failed(type(error).__name__) from None
        self._free.append(pair)
        if answer.split()[1] not in (b"200", b"202"):
            raise Failed(f"{answer.split()[1].decode()}: {content['detail']}")
        return content


async def begin(http: Connections, width: int) -> None:
    """Make the space."""
    await http.send("PUT", "", json.dumps({"width": width}).encode())


def f32(vector: Any) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


async def load(http: Connections, given: argparse.Namespace, pid: int) -> int:
    """Show pages, then send clicks on them and queries at fixed rates, and print what was measured.

    Returns how many clicks were acknowledged.
    """
    rng = np.random.default_rng(0)
    n_clicks = int(given.events * given.seconds)
    items = rng.normal(size=(ITEMS, given.width))
    queries = [json.dumps({"queries": [{"f32": f32(row), "id": f"q{at}", "user": f"u{at}"}]}).encode()
               for at, row in enumerate(rng.normal(size=(500, given.width)))]  # fmt: skip
    clicks: list[dict[str, str]] = []
    sent = set[int]()
    started = time.perf_counter()
    for start in range(0, n_clicks // PAGE, 200):
        bodies = []
        for at in range(start, min(start + 200, n_clicks // PAGE)):
            shown = rng.choice(ITEMS, size=PAGE, replace=False)
            query = {"f32": f32(items[at % 300]), "id": f"q{at % 300}", "user": f"u{at % 1000}"}
            new = {f"d{row}": f32(items[row]) for row in shown.tolist() if row not in sent}
            sent.update(shown.tolist())
            search = {"query": query, "at": time.time()}
            ids = [f"d{row}" for row in shown]
            bodies.append({"search_id": f"s{at}", "ids": ids, "vectors": new, "search": search})
            clicks += [{"search_id": f"s{at}", "item": id} for id in ids]
        await http.send("POST", "/shown", json.dumps(bodies).encode())
    while (await http.send("POST", "/embed", queries[0]))["results"][0][
        "search_id"
    ] is None:  # the spool is written first
        await asyncio.sleep(0.1)
    seconds = time.perf_counter() - started
    print(f"{n_clicks // PAGE:,} pages with their searches were written in {seconds:.1f} s")
    rng.shuffle(clicks)
    events = [json.dumps(clicks[at : at + given.batch]).encode() for at in range(0, len(clicks), given.batch)]
    times: dict[str, list[float]] = {"embed": [], "events": []}
    failures: Counter[str] = Counter()
    acknowledged = without_id = 0

    async def embed(number: int) -> None:
        nonlocal without_id
        started = time.perf_counter()
        answer = await http.send("POST", "/embed", queries[number % len(queries)])
        times["embed"].append(time.perf_counter() - started)
        without_id += answer["results"][0]["search_id"] is None

    async def batch(number: int) -> None:
        nonlocal acknowledged
        started = time.perf_counter()
        answer = await http.send("POST", "/events", events[number])
        times["events"].append(time.perf_counter() - started)
        acknowledged += answer["accepted"]

    pids = {"load": os.getpid()} | processes(pid)
    used = {name: cpu_seconds(own) for name, own in pids.items()}
    started = time.perf_counter()
    plans = [(given.searches, embed), (given.events / given.batch, batch)]
    await asyncio.gather(*(at_rate(rate, given.seconds, send, failures) for rate, send in plans))
    took = time.perf_counter() - started
    while "mahala_writer_spooled 0.0" not in urlopen(f"http://{http.host}:{http.port}/metrics").read().decode():
        await asyncio.sleep(0.2)
    for name, each in ((name, each) for name, each in times.items() if each):
        p50, p99, most = 1e3 * np.quantile(each, [0.5, 0.99, 1.0])
        print(f"{name}: {len(each) / took:.0f}/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms, at most {most:.0f} ms")
    print(f"{acknowledged / took:,.0f} events/s, {without_id} searches without an id")
    for reason, n in failures.items():
        print(f"failed: {n}, {reason}")
    for name, own in pids.items():
        share = 100.0 * (cpu_seconds(own) - used[name]) / took
        print(f"{name.split()[0]}: {share:.0f} % of a core, {resident(own):.0f} MiB")
    return acknowledged


async def embed_all(http: Connections, given: argparse.Namespace, pid: int) -> int:
    """Embed vectors in batches, and print how long it took."""
    rows = np.random.default_rng(0).normal(size=(1000, given.width))
    body = json.dumps({"queries": [{"f32": f32(row)} for row in rows], "record": False}).encode()
    started = time.perf_counter()
    for _ in range(given.vectors // len(rows)):
        await http.send("POST", "/embed", body)
    seconds = time.perf_counter() - started
    print(f"{given.vectors:,} vectors of {given.width} numbers as base64: {seconds:.1f} s, {resident(pid):.0f} MiB")
    return 0


async def at_rate(rate: float, seconds: float, send: Callable[[int], Awaitable[None]], failures: Counter[str]) -> None:
    """Call a function so many times per second, wait for all of them, and count those that failed by reason."""

    async def sent(number: int) -> None:
        try:
            await send(number)
        except Failed as error:
            failures[str(error)] += 1

    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, started + number / rate - time.perf_counter()))
            tasks.create_task(sent(number))


def check(path: Path, n: int) -> None:
    """Compare the clicks that were acknowledged with those of the pages."""
    store = Store(path)
    with store.reading() as connection:
        rows = connection.exec_driver_sql("SELECT reactions FROM search_pages WHERE reactions <> '{}'").all()
    written = sum(len(json.loads(row[0])) for row in rows)
    print(f"{n:,} acknowledged clicks are in the database exactly once: {written == n}")
    store.close()


def resident(pid: int) -> float:
    """Return the memory of a process in MiB."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the time that a process has had on the cores."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def processes(pid: int) -> dict[str, int]:
    """Return the numbers of the processes of a sidecar by name: its own, and those that it has started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(number) for task in tasks for number in (task / "children").read_text().split()]
    commands = {number: Path(f"/proc/{number}/cmdline").read_text() for number in children}
    kinds = {"learner": "learning", "worker": "spawn_main"}  # and what their commands have
    named = [(kind, n) for n, command in commands.items() for kind, part in kinds.items() if part in command]
    return {"server": pid} | {f"{kind} {number}": number for kind, number in named}


if __name__ == "__main__":
    print(f"mahala {mahala.__version__}")
    main()
