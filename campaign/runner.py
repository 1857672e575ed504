"""Run the cases of a part in forked processes, each with limits, and keep what was tried and what failed."""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

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


@dataclass
class State:
    """What has been done of a part; `done` are ranges of cases."""

    seed: int
    amount: int
    tried: int = 0
    seconds: float = 0.0
    done: list[list[int]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def todo(self, n_cases: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of cases that are left."""
        start = 0
        for first, stop in [*sorted(self.done), [n_cases, n_cases]]:
            if start < first:
                yield start, first
            start = max(start, stop)

    def add(self, start: int, stop: int) -> None:
        merged: list[list[int]] = []
        for first, last in sorted([*self.done, [start, stop]]):
            if merged and first <= merged[-1][1]:
                merged[-1][1] = max(last, merged[-1][1])
            else:
                merged.append([first, last])
        self.done = merged


def load_state(path: Path | None, name: str, seed: int, amount: int) -> State:
    """Return the state of a part that was stopped, or a new one."""
    known = json.loads(path.read_text()).get(name) if path is not None and path.exists() else None
    if known is None or (known["seed"], known["amount"]) != (seed, amount):
        return State(seed, amount)
    return State(**known)


def save_state(path: Path | None, name: str, state: State) -> None:
    """Write the state of a part beside those of the others."""
    if path is None:
        return
    known = json.loads(path.read_text()) if path.exists() else {}
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(known | {name: asdict(state)}, indent=1))
    os.replace(temporary, path)


class _Worker:
    """A forked process that runs a range of cases."""

    def __init__(self, part: ModuleType, state: State, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self._told = mmap.mmap(-1, _NUMBERS.size)  # the case that runs, and how much was tried before it
        self._failures = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by `end`)
        self._told[:] = _NUMBERS.pack(start, 0)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._run(part, state)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)

    def _run(self, part: ModuleType, state: State) -> None:
        tried, end = 0, time.monotonic() + _BLOCK_SECONDS
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

    def end(self, status: int, state: State) -> int:
        """Add what was done to the state; return the first case that is left."""
        case, tried = _NUMBERS.unpack(self._told[:])
        self._failures.seek(0)
        state.failures += [json.loads(line) for line in self._failures]
        if status:
            number = -os.waitstatus_to_exitcode(status)
            killed = signal.Signals(number).name if number > 0 else "an error of the campaign itself"
            why = {"SIGPROF": "too much CPU time", "SIGALRM": "it hangs"}.get(killed, "crashed")
            state.failures.append({"case": case, "what": f"{why} ({killed})"})
            case, tried = case + 1, tried + 1
        state.tried += tried
        state.add(self.start, case)
        self._failures.close()
        return case


def check_source() -> None:
    """Raise unless mahala is the one beside this package: a campaign must not test another copy."""
    import mahala

    own = Path(__file__).parents[1] / "src"
    if not Path(mahala.__file__).is_relative_to(own):
        raise RuntimeError(f"mahala is imported from {mahala.__file__}, not from {own}: set PYTHONPATH or install it")


def run_part(name: str, part: ModuleType, state: State, jobs: int, path: Path | None) -> None:
    """Run what is left of a part; Ctrl-C ends it after writing the state."""
    todo = []
    for start, stop in state.todo(part.n_cases(state.amount)):
        step = -(-(stop - start) // (1 if jobs == 1 else jobs * 8))
        todo += [(at, min(at + step, stop)) for at in range(start, stop, step)]
    todo.reverse()
    if todo:
        part.prepare(state.amount)
    workers: dict[int, _Worker] = {}
    before, started = state.seconds, time.monotonic()
    try:
        while todo or workers:
            while todo and len(workers) < jobs:
                worker = _Worker(part, state, *todo.pop())
                workers[worker.pid] = worker
            pid, status = os.wait()
            worker = workers.pop(pid)
            n_failures = len(state.failures)
            left = worker.end(status, state)
            if left < worker.stop:
                todo.append((left, worker.stop))
            for failure in state.failures[n_failures:]:
                print(f"{name} --seed {state.seed} --only {failure['case']}: {failure['what']}", flush=True)
            state.seconds = before + time.monotonic() - started
            save_state(path, name, state)
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
