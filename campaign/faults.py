"""`mahala stream` under strace: system calls of its checkpoints fail, are cut short, or are its last.

As for `kills`, a restart ends with the model file of a run that was never stopped. Without strace there are no cases.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from . import kills
from .kills import STREAMS, Job, check_stopped, clean, end, whole_run
from .runner import Failed

AMOUNT, SHORT = 6 * len(STREAMS), 1
CPU_SECONDS = 120.0
# A write that is cut short tells of one byte: the rest is written by another call, or reported.
_CALLS = ("openat", "write", "fsync", "rename", "link", "unlink", "chmod", "fchmod", "ftruncate", "mkdir", "flock")
_FAULTS = ("error=EIO", "error=ENOSPC", "error=EROFS", "error=EINTR", "signal=KILL", "retval=1")


prepare = kills.prepare


def n_cases(amount: int) -> int:
    return amount if shutil.which("strace") else 0


def run(case: int, seed: int, amount: int) -> int:
    fault = _FAULTS[(case + case // len(STREAMS)) % len(_FAULTS)]
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        job = Job(Path(folder), case, seed)
        whole, model = whole_run(job)
        trace = Path(folder, "trace")
        _traced(job, trace, [])
        # Calls on files of this folder, each with its number among all calls of its name.
        seen: dict[str, int] = {}
        chosen = []
        for line in trace.read_text().splitlines():
            name = re.match(r"\d* *(\w+)\(", line)
            if name is not None:
                seen[name[1]] = seen.get(name[1], 0) + 1
                if str(job.model.parent) in line and str(job.lines) not in line and str(job.output) not in line:
                    chosen.append((name[1], seen[name[1]]))
        if len(chosen) < 5:
            raise Failed(f"{job.name}: a stream makes {len(chosen)} calls on files of its folder")
        tried = 0
        for name, number in chosen[:: 1 if amount > SHORT else 8]:
            if fault == "retval=1" and name != "write":
                continue
            clean(job)
            code = _traced(job, trace, ["-e", f"inject={name}:{fault}:when={number}"])
            try:
                check_stopped(job, 137 if code == -signal.SIGKILL else code, whole, model)
            except Failed as failure:
                raise Failed(f"call {number} of {name}, {fault}: {failure}") from failure
            tried += 1
        return tried


def _wait_for_tracer() -> None:
    """Stop, and let any process trace this one: many systems allow it to ancestors only."""
    set_ptracer, any_process = 0x59616D61, ctypes.c_ulong(-1)
    ctypes.CDLL(None).prctl(set_ptracer, any_process, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)


def _traced(job: Job, trace: Path, arguments: list[str]) -> int:
    """Run the stream under strace; return its exit code."""
    pid = job.start(_wait_for_tracer)
    os.waitpid(pid, os.WUNTRACED)
    command = ["strace", "-f", "-y", "-s", "0", "-o", str(trace), "-p", str(pid), "-e", f"trace={','.join(_CALLS)}"]
    strace = subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status = Path(f"/proc/{pid}/status")
    while re.search(r"TracerPid:\s+0\b", status.read_text()):
        if strace.poll() is not None:
            os.kill(pid, signal.SIGKILL)
            end(pid)
            raise Failed("strace cannot trace a process here")
        time.sleep(0.002)
    os.kill(pid, signal.SIGCONT)
    code = end(pid)
    strace.wait()
    return code
