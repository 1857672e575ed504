"""The load that `mahala serve` bears: searches and impressions at fixed rates, over loopback.

    python benchmarks/serve_load.py --seconds 20 --items 100000 --width 384

It starts a service of its own in a folder for temporary files, sends for a bounded time, and prints latencies, the lag
of the learner, memory, and whether what was acknowledged is in the log exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

import mahala
from mahala.serve.service import Service


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--searches", type=float, default=50.0, help="per second")
    parser.add_argument("--impressions", type=float, default=300.0, help="per second")
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="serve-load-") as folder:
        path = Path(folder) / "mahala.db"
        rng = np.random.default_rng(0)
        with Service(path, learn=False) as service:
            service.create("c", width=given.width)
            for start in range(0, given.items, 10_000):
                vectors = rng.normal(size=(min(10_000, given.items - start), given.width)) / np.sqrt(given.width)
                items = [{"id": f"i{start + at}", "vector": vector} for at, vector in enumerate(vectors)]
                service.put_items("c", items)
        command = [sys.executable, "-m", "mahala", "serve", "--database", str(path), "--port", "0", "--rate", "100000"]
        started = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                address = process.stdout.readline().strip()
                print(f"up after {time.perf_counter() - started:.1f} s, {resident(process.pid):.0f} MiB")
                asyncio.run(load(address, given, process.pid))
            finally:
                process.terminate()


async def load(address: str, given: argparse.Namespace, pid: int) -> None:
    """Send at fixed rates, whether or not earlier requests have been answered, and print what was measured."""
    rng = np.random.default_rng(1)
    limits = httpx.Limits(max_connections=200)
    times: dict[str, list[float]] = {"search": [], "impressions": []}
    places: list[int] = []
    lags: list[int] = []
    async with httpx.AsyncClient(base_url=f"{address}/v1/collections/c", timeout=60.0, limits=limits) as http:
        warm = {"query": {"item": "i0"}, "shown": ["i1", "i2"], "clicked": ["i2"]}
        (first,) = (await http.post("/impressions", json=warm)).json()["places"]
        while (await http.get("/model")).json()["learned"] < first:  # the learner is loaded and compiled
            await asyncio.sleep(0.1)

        async def search() -> None:
            body = {"query": {"vector": rng.normal(size=given.width).tolist()}, "k": 10}
            started = time.perf_counter()
            (await http.post("/search", json=body)).raise_for_status()
            times["search"].append(time.perf_counter() - started)

        async def impression() -> None:
            shown = [f"i{row}" for row in rng.choice(given.items, size=10, replace=False)]
            query = {"item": f"i{rng.integers(given.items)}"}
            body = {"query": query, "shown": shown, "clicked": shown[:1], "user": f"u{rng.integers(1000)}"}
            started = time.perf_counter()
            answer = (await http.post("/impressions", json=body)).raise_for_status()
            times["impressions"].append(time.perf_counter() - started)
            places.extend(answer.json()["places"])

        async def watch() -> None:
            told = (await http.get("/model")).json()
            lags.append(told["logged"] - told["learned"])

        plans = [(given.searches, search), (given.impressions, impression), (1.0, watch)]
        await asyncio.gather(*(at_rate(rate, given.seconds, send) for rate, send in plans))
        started = time.perf_counter()
        while (told := (await http.get("/model")).json())["learned"] < max(places):
            await asyncio.sleep(0.1)
        waited = time.perf_counter() - started
    for name, seconds in times.items():
        p50, p99 = 1e3 * np.quantile(seconds, [0.5, 0.99])
        print(f"{name}: {len(seconds) / given.seconds:.0f} per second, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    print(f"learner: {waited:.1f} s behind at the end, up to {max(lags)} entries on the way; {resident(pid):.0f} MiB")
    exact = sorted(places) == list(range(2, len(places) + 2)) and told["logged"] == len(places) + 1
    print(f"acknowledged impressions are in the log exactly once: {exact}")


async def at_rate(rate: float, seconds: float, send: object) -> None:
    """Call a function so many times per second, and wait for all of them."""
    started, tasks = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, started + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(send()))  # type: ignore[operator]
    await asyncio.gather(*tasks)


def resident(pid: int) -> float:
    """Return the memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    print(f"mahala {mahala.__version__}")
    main()
