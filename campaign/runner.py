"""Run the cases of a part in forked processes, each with limits, and keep what was tried and what failed."""

from __future__ import annotations

import functools
import json
import math
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from mahala.evaluation.cell_file import CellFile

# Every part is a module with these:
#   AMOUNT, SHORT    its size in a full campaign, and in a short one
#   CPU_SECONDS      the time that a case may take
#   n_cases(amount)  the number of cases
#   prepare(amount)  what all cases share, done once before processes are forked
#   run(case, seed, amount)   run a case; return how much was tried, raise Failed or another exception if it fails
_BLOCK_SECONDS = 60.0  # a process ends after this time and the state is written
_NUMBERS = struct.Struct("qq")


class Failed(Exception):
    """What a case promised did not hold."""


class Block(NamedTuple):
    """Cases of a part that one process ran, from `start` on."""

    part: str
    seed: int
    amount: int
    start: int


class State:
    """What has been done of a part: its blocks, in a file that those of other parts and seeds share."""

    def __init__(self, path: Path | None, part: str, seed: int, amount: int) -> None:
        self.part, self.seed, self.amount = part, seed, amount
        self._file = CellFile(path, Block, "campaign")

    def add(self, start: int, stop: int, tried: int, seconds: float, failures: list[dict[str, Any]]) -> None:
        """Keep what was done of a block, which ended before the case `stop`, and of which version and when."""
        block = Block(self.part, self.seed, self.amount, start)
        done = {"stop": stop, "tried": tried, "seconds": seconds, "failures": failures}
        self._file.add(block, done | {"version": version(), "day": datetime.now(UTC).date().isoformat()})

    def _blocks(self) -> list[tuple[int, dict[str, Any]]]:
        key = self.part, self.seed, self.amount
        return sorted((block.start, done) for block, done in self._file.cells.items() if block[:3] == key)

    def todo(self, n_cases: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of cases that are left."""
        start = 0
        for first, stop in [*((first, done["stop"]) for first, done in self._blocks()), (n_cases, n_cases)]:
            if start < first:
                yield start, first
            start = max(start, stop)

    @property
    def cases(self) -> int:
        """The number of cases that were run."""
        return sum(done["stop"] - start for start, done in self._blocks())

    @property
    def tried(self) -> int:
        return sum(done["tried"] for _, done in self._blocks())

    @property
    def seconds(self) -> float:
        return sum(done["seconds"] for _, done in self._blocks())

    @property
    def failures(self) -> list[dict[str, Any]]:
        return [failure for _, done in self._blocks() for failure in done["failures"]]


class _Worker:
    """A forked process that runs a range of cases."""

    def __init__(self, part: ModuleType, state: State, start: int, stop: int, deadline: float) -> None:
        self.start, self.stop = start, stop
        self._told = mmap.mmap(-1, _NUMBERS.size)  # the case that runs, and how much was tried before it
        self._failures = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by `end`)
        self._told[:] = _NUMBERS.pack(start, 0)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._run(part, state, deadline)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)

    def _run(self, part: ModuleType, state: State, deadline: float) -> None:
        tried, end = 0, min(time.monotonic() + _BLOCK_SECONDS, deadline)
        for case in range(self.start, self.stop):
            self._told[:] = _NUMBERS.pack(case, tried)
            # Without a handler these end the process, compiled code or not.
            signal.setitimer(signal.ITIMER_PROF, part.CPU_SECONDS)
            signal.setitimer(signal.ITIMER_REAL, 20 * part.CPU_SECONDS + 60)
            try:
                tried += part.run(case, state.seed, state.amount)
            except Exception as error:
                tried += 1
                what = str(error) if isinstance(error, Failed) else "".join(traceback.format_exception(error)[-3:])
                self._failures.write(json.dumps({"case": case, "what": what[-2000:]}) + "\n")
                self._failures.flush()
            if time.monotonic() > end:
                break
        self._told[:] = _NUMBERS.pack(case + 1, tried)

    def end(self, status: int) -> tuple[int, int, list[dict[str, Any]]]:
        """Return the first case that is left, how much was tried, and what failed."""
        case, tried = _NUMBERS.unpack(self._told[:])
        self._failures.seek(0)
        failures = [json.loads(line) for line in self._failures]
        self._failures.close()
        if status:
            number = -os.waitstatus_to_exitcode(status)
            killed = signal.Signals(number).name if number > 0 else "an error of the campaign itself"
            why = {"SIGPROF": "too much CPU time", "SIGALRM": "it hangs"}.get(killed, "crashed")
            failures.append({"case": case, "what": f"{why} ({killed})"})
            case, tried = case + 1, tried + 1
        return case, tried, failures


@functools.cache
def version() -> str:
    """Return the version of mahala, with the commit if this is a checkout of the repository."""
    import mahala

    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    described = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return " ".join([mahala.__version__, described.stdout.strip()]).strip()


def check_source() -> None:
    """Raise unless mahala is the one beside this package: a campaign must not test another copy."""
    import mahala

    own = Path(__file__).parents[1] / "src"
    if not Path(mahala.__file__).is_relative_to(own):
        raise RuntimeError(f"mahala is imported from {mahala.__file__}, not from {own}: set PYTHONPATH or install it")


def run_part(part: ModuleType, state: State, jobs: int, seconds: float | None = None) -> None:
    """Run what is left of a part; after Ctrl-C, blocks that are finished are in the state.

    No case begins after so many seconds, but one does in any case; those that have begun are run to their end.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    todo = []
    for start, stop in state.todo(part.n_cases(state.amount)):
        step = -(-(stop - start) // (1 if jobs == 1 else jobs * 8))
        todo += [(at, min(at + step, stop)) for at in range(start, stop, step)]
    todo.reverse()
    if todo:
        part.prepare(state.amount)
    workers: dict[int, _Worker] = {}
    last = time.monotonic()
    try:
        while todo or workers:
            while todo and len(workers) < jobs:
                worker = _Worker(part, state, *todo.pop(), deadline)
                workers[worker.pid] = worker
            pid, status = os.wait()
            worker = workers.pop(pid)
            left, tried, failures = worker.end(status)
            if left < worker.stop:
                todo.append((left, worker.stop))
            for failure in failures:
                print(f"{state.part} --seed {state.seed} --only {failure['case']}: {failure['what']}", flush=True)
            now = time.monotonic()
            if now > deadline:
                todo.clear()
            state.add(worker.start, left, tried, now - last, failures)
            last = now
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
