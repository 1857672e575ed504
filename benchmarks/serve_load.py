"""The load that `mahala serve` bears: searches and impressions at fixed rates, over loopback.

    python benchmarks/serve_load.py --seconds 20 --items 100000 --width 384
    python benchmarks/serve_load.py --flood
    python benchmarks/serve_load.py --total 1000000 --batch 50 --items 10000 --width 64 --check

It starts a service of its own in a folder for temporary files, sends for a bounded time, and prints latencies, the lag
of the learner, memory, shares of the cores, and whether what was acknowledged is in the log exactly once. Requests that
are refused or get no answer are counted. `--busy 2` runs two processes beside it that take all the time they get.
`--flood` sends ten times as much, more than the service can answer, and prints the times of `/health`. With `--total`,
it sends so many impressions as fast as they are answered, and prints memory on the way. With `--check`, the log is
learned from again, and the models are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
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

import numpy as np

import mahala
from mahala_search.serve.learning.learners import DEFAULT, Learners
from mahala_search.serve.service import Service
from mahala_search.serve.store.checkpoints import Checkpoints

# Different bodies, which are sent again and again.
N_BODIES = 5000
# Seconds after which a request has failed, and after which the learner is not waited for any more.
TIMEOUT, PATIENCE = 10.0, 120.0
# A process that takes all the time it gets, until the one that started it ends.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(10**5))"

# A process that asks for /health twenty times per second, beside the one that sends the load, which is late itself.
PROBE = """
import http.client, sys, time
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
times, until = [], time.monotonic() + float(sys.argv[3])
while time.monotonic() < until:
    started = time.monotonic()
    connection.request("GET", "/health")
    connection.getresponse().read()
    times.append(1e3 * (time.monotonic() - started))
    time.sleep(0.05)
times.sort()
middle, late = times[len(times) // 2], times[int(0.99 * len(times))]
print(f"/health: {len(times)} answers, p50 {middle:.1f} ms, p99 {late:.1f} ms, at most {times[-1]:.0f} ms")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--searches", type=float, default=50.0, help="per second")
    parser.add_argument("--impressions", type=float, default=300.0, help="per second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--flood", action="store_true", help="ten times the rates, and the times of /health")
    parser.add_argument("--total", type=int, help="impressions, as fast as they are answered, instead of the rates")
    parser.add_argument("--batch", type=int, default=1, help="impressions in one request, with --total")
    parser.add_argument("--check", action="store_true", help="learn from the log again, and compare the models")
    parser.add_argument("--workers", type=int, default=1, help="server processes")
    parser.add_argument("--busy", type=int, default=0, help="other processes that take all the time they get")
    parser.add_argument("--folder", type=Path, help="keep the database here, or use the one that is there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="serve-load-") as folder:
        path = (given.folder or Path(folder)) / "mahala.db"
        fill(path, given.items, given.width)
        started = time.perf_counter()
        command = [sys.executable, "-m", "mahala", "serve", "--database", str(path), "--port", "0", "--rate", "100000"]
        command += ["--workers", str(given.workers)]
        with contextlib.ExitStack() as others, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(given.busy):
                others.callback(subprocess.Popen([sys.executable, "-c", BUSY]).kill)
            try:
                assert process.stdout is not None
                host, _, port = process.stdout.readline().strip().removeprefix("http://").rpartition(":")
                print(f"up after {time.perf_counter() - started:.1f} s")
                send = flood if given.total else load
                places, before = asyncio.run(send(Connections(host, int(port)), given, process.pid))
            finally:
                process.terminate()
        check(path, places, before, given.check)


def fill(path: Path, n: int, width: int) -> None:
    """Make a collection of random items, unless there is one."""
    rng = np.random.default_rng(0)
    with Service(path, learn=False) as service:
        if service.names():
            return
        service.create("c", width=width)
        for start in range(0, n, 10_000):
            vectors = rng.normal(size=(min(10_000, n - start), width)) / np.sqrt(width)
            items = [
                {"id": f"i{start + at}", "vector": vector, "payload": {"title": f"item {start + at}"}}
                for at, vector in enumerate(vectors)
            ]
            service.put_items("c", items)


class Failed(Exception):
    """A request that was refused, or got no answer."""


class Connections:
    """Connections that are kept, and a client that does as little as possible: it runs on the same cores."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, method: str, path: str, body: bytes = b"", key: str | None = None) -> Any:
        """Return the answer to a request; raise Failed if it is refused or does not come in time."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._send(method, path, body, key)
        except TimeoutError:
            raise Failed("no answer in time") from None
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Failed(type(error).__name__) from None

    async def _send(self, method: str, path: str, body: bytes, key: str | None) -> Any:
        """Send a request; again if the service closed the connection just then, as it does to those idle for long."""
        while self._free:
            reader, writer = self._free.pop()
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                return await self._sent(reader, writer, method, path, body, key)
        return await self._sent(*await asyncio.open_connection(self.host, self.port), method, path, body, key)

    async def _sent(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        method: str,
        path: str,
        body: bytes,
        key: str | None,
    ) -> Any:
        more = f"Idempotency-Key: {key}\r\n" if key is not None else ""
        head = (
            f"{method} /v1/collections/c/{path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{more}\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = json.loads(await reader.readexactly(length))
        self._free.append((reader, writer))
        if answer.split()[1] not in (b"200", b"201"):
            raise Failed(f"{answer.split()[1].decode()}: {content['detail']}")
        return content


def bodies(given: argparse.Namespace) -> tuple[list[bytes], list[bytes]]:
    """Return searches and impressions."""
    rng = np.random.default_rng(1)
    searches, impressions = [], []
    for _ in range(N_BODIES):
        searches.append(json.dumps({"query": {"vector": rng.normal(size=given.width).tolist()}, "k": 10}).encode())
        query, *shown = (f"i{row}" for row in rng.choice(given.items, size=11, replace=False))
        own = {"query": {"item": query}, "shown": shown, "clicked": shown[:1], "user": f"u{rng.integers(1000)}"}
        impressions.append(json.dumps(own).encode())
    return searches, impressions


async def load(http: Connections, given: argparse.Namespace, pid: int) -> tuple[list[int], int]:
    """Send at fixed rates, whether or not earlier requests have been answered, and print what was measured.

    Returns the places of the acknowledged impressions, and how many entries the log had before.
    """
    searches, impressions = bodies(given)
    times: dict[str, list[float]] = {"search": [], "impressions": []}
    places: list[int] = []
    lags: list[float] = []
    failures: Counter[str] = Counter()
    first = await begun(http, impressions[0])

    async def search(number: int) -> None:
        started = time.perf_counter()
        await http.send("POST", "search", searches[number % N_BODIES])
        times["search"].append(time.perf_counter() - started)

    async def impression(number: int) -> None:
        started = time.perf_counter()
        answer = await http.send("POST", "impressions", impressions[number % N_BODIES], key=f"{first}-{number}")
        times["impressions"].append(time.perf_counter() - started)
        places.extend(answer["places"])

    acknowledged: list[tuple[float, int]] = []

    async def watch(number: int) -> None:
        """Note for how long what is learned by now has been in the log."""
        place_learned, now = (await http.send("GET", "model"))["learned"], time.perf_counter()
        acknowledged.append((now, max(places, default=first)))
        lags.append(now - next((at for at, place in acknowledged if place > place_learned), now))

    pids = {"load": os.getpid()} | processes(pid)
    used = {name: cpu_seconds(own) for name, own in pids.items()}
    memory = {name: resident(own) for name, own in pids.items()}
    started = time.perf_counter()
    times_more = 10.0 if given.flood else 1.0
    plans = [(times_more * given.searches, search), (times_more * given.impressions, impression), (4.0, watch)]
    probe = [sys.executable, "-c", PROBE, http.host, str(http.port), str(given.seconds)]
    with subprocess.Popen(probe) if given.flood else contextlib.nullcontext():
        await asyncio.gather(*(at_rate(rate, given.seconds, send, failures) for rate, send in plans))
        took = time.perf_counter() - started
    await learned(http, max(places, default=first))
    waited = time.perf_counter() - started - took
    for name, seconds in ((name, own) for name, own in times.items() if own):
        p50, p99, most = 1e3 * np.quantile(seconds, [0.5, 0.99, 1.0])
        print(f"{name}: {len(seconds) / took:.0f}/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms, at most {most:.0f} ms")
    for reason, n in failures.items():
        print(f"failed: {n} ({100.0 * n / (failures.total() + sum(map(len, times.values()))):.2f} %), {reason}")
    print(f"learner: up to {max(lags):.1f} s behind, {np.median(lags):.1f} s in the median, {waited:.1f} s at the end")
    n_requests = sum(map(len, times.values()))
    for name, own in pids.items():
        seconds_used = cpu_seconds(own) - used[name]
        print(
            f"{name.split()[0]}: {100.0 * seconds_used / (took + waited):.0f} % of a core, "
            f"{1e3 * seconds_used / n_requests:.2f} ms of it per request, "
            f"{memory[name]:.0f} MiB before, {resident(own):.0f} after"
        )
    print(f"load average {os.getloadavg()[0]:.1f}")
    return places, first


async def begun(http: Connections, impression: bytes) -> int:
    """Return the place of a first impression once it is learned from: the learner is loaded and compiled then."""
    (first,) = (await surely(http, "POST", "impressions", impression, key=f"first-{time.time()}"))["places"]
    await learned(http, first)
    return int(first)


async def learned(http: Connections, place: int) -> None:
    """Wait until a place of the log is learned from, or say that it was not for a long time."""
    until = time.perf_counter() + PATIENCE
    while time.perf_counter() < until:
        if (await surely(http, "GET", "model"))["learned"] >= place:
            return
        await asyncio.sleep(0.1)
    print(f"place {place:,} of the log was not learned from within {PATIENCE:g} s")


async def surely(http: Connections, *request: Any, **options: Any) -> Any:
    """Return the answer to a request, which is sent again until there is one."""
    while True:
        try:
            return await http.send(*request, **options)
        except Failed as error:
            print(f"again: {error}")
            await asyncio.sleep(1.0)


async def flood(http: Connections, given: argparse.Namespace, pid: int) -> tuple[list[int], int]:
    """Send impressions as fast as they are answered, and print memory and the learner's lag on the way.

    Returns the places of the acknowledged impressions, and how many entries the log had before.
    """
    _, impressions = bodies(given)
    first = await begun(http, impressions[0])
    places: list[int] = []
    parts = iter(range(0, given.total, given.batch))
    started, step = time.perf_counter(), max(1, given.total // 20)

    async def worker() -> None:
        for start in parts:
            own = [impressions[number % N_BODIES] for number in range(start, min(start + given.batch, given.total))]
            body = b"[" + b",".join(own) + b"]"
            new = (await surely(http, "POST", "impressions", body, key=f"{first}-{start}"))["places"]
            places.extend(new)
            if len(places) // step > (len(places) - len(new)) // step:
                await tell()

    async def tell() -> None:
        n_learned = (await surely(http, "GET", "model"))["learned"]
        sizes = ", ".join(f"{name} {resident(own):.0f} MiB" for name, own in pids.items())
        seconds = time.perf_counter() - started
        print(f"{len(places):,} sent, {n_learned:,} learned after {seconds:.0f} s: {sizes}", flush=True)

    pids = processes(pid)
    await asyncio.gather(*(worker() for _ in range(4)))
    await learned(http, max(places))
    await tell()
    return places, first


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


def check(path: Path, places: list[int], before: int, again: bool) -> None:
    """Compare what was acknowledged with the log, and the models with those that learn from it without a stop."""
    with Service(path, learn=False) as service:
        logged = [entry.place for entry in service.store.read_log("c", before)]
        exact = len(set(places)) == len(places) and set(places) <= set(logged) and len(set(logged)) == len(logged)
        print(f"{len(places):,} acknowledged impressions are in the log exactly once: {exact}")
        if len(logged) > len(places):
            print(f"{len(logged) - len(places):,} more are in the log, whose answers did not come")
        if again:
            known = Checkpoints(service.store.database).newest("c", 0)
            assert known is not None
            whole = Learners(DEFAULT, None)
            for entry in service.store.read_log("c", limit=known[0].place):
                whole.learn([entry], lambda rows: service.store.vectors("c", rows))
            same = {name: adapter.to_bytes() for name, adapter in whole.adapters.items()} == known[1]
            print(f"the models are those of {whole.place:,} entries learned without a stop, bit for bit: {same}")


def resident(pid: int) -> float:
    """Return the memory of a process in MiB."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the time that a process has had on the cores."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def processes(pid: int) -> dict[str, int]:
    """Return the numbers of the processes of a service by name: its own, and those that it has started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(number) for task in tasks for number in (task / "children").read_text().split()]
    commands = {number: Path(f"/proc/{number}/cmdline").read_text() for number in children}
    kinds = {"learner": "learning.worker", "worker": "spawn_main"}  # and what their commands have
    named = [(kind, n) for n, command in commands.items() for kind, part in kinds.items() if part in command]
    return {"server": pid} | {f"{kind} {number}": number for kind, number in named}


if __name__ == "__main__":
    print(f"mahala {mahala.__version__}")
    main()
