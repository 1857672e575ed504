"""`mahala stream` killed at random moments, and with a fault at every step of a checkpoint, over all models.

Restarted until it is done, it ends with the model file of a run that was never stopped, byte for byte; each line is
printed at least once and in order; after every stop the model file, if there is one, can be loaded.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import mahala
from contract.learners import ALL
from mahala.cli.main import app
from mahala.online.online_learner import OnlineLearner
from mahala.online.pair_learner import PairLearner

from .runner import Failed

# Cases: every second one kills a stream three times, the others fail every step of its checkpoints.
AMOUNT, SHORT = 720, 1
CPU_SECONDS = 120.0
N_LINES, EVERY, N_KILLS, D = 30, 17, 3, 3
STREAMS = [
    *(learner for learner in ALL if isinstance(learner, OnlineLearner) and getattr(learner, "storage", None) != "gram")
]
# What a checkpoint calls: each is failed with each of these, or ends the process.
_CALLS = [
    (os, name)
    for name in ("fsync", "replace", "rename", "link", "open", "chmod", "chown", "fchmod", "unlink", "ftruncate")
]
_FAULTS = (errno.EIO, errno.ENOSPC, errno.EROFS, None)


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Load the kernels once, so that a forked stream begins at once."""
    for number in range(min(len(STREAMS), -(-amount // 2))):
        with (
            tempfile.TemporaryDirectory(prefix="campaign-") as folder,
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            app(Job(Path(folder), number, 0).arguments, standalone_mode=False)


class Job:
    """A stream in a folder of its own."""

    def __init__(self, folder: Path, number: int, seed: int) -> None:
        learner = STREAMS[7 * number % len(STREAMS)]  # the first few are of several kinds
        self.name, self.model, self.lines = repr(learner), folder / "m.safetensors", folder / "lines.jsonl"
        self.output = folder / "output"
        self.errors = folder / "errors"
        rng = np.random.default_rng([seed, number])
        with open(self.lines, "w") as file:
            for at in range(N_LINES):
                file.write(json.dumps(_line(learner, rng, at)) + "\n")
        params = {key: value for key, value in learner.get_params(deep=False).items() if key != "n_triplets"}
        settings = [f"{key}={value!r}" for key, value in params.items() if isinstance(value, int | float | str | dict)]
        self.arguments = ["stream", "--model", str(self.model), "--input", str(self.lines), "--learner"]
        self.arguments += [type(learner).__name__, "--checkpoint-every", str(EVERY)]
        self.arguments += [part for setting in settings for part in ("--set", setting)]

    def start(self, before: Callable[[], object] = lambda: None) -> int:
        """Run the command in a forked process, after `before`; return its id."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            signal.setitimer(signal.ITIMER_PROF, 0)
            for path, descriptor in ((self.output, 1), (self.errors, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
            before()
            code = _exit_code(self.arguments)
        finally:
            os._exit(code)

    def printed(self, whole: dict[int, str] | None = None) -> dict[int, str]:
        """Return the whole lines that were printed, by number; check them against those of a whole run."""
        text = self.output.read_text()
        lines = text.splitlines()[: text.count("\n")]
        numbers = [json.loads(line)["line"] for line in lines]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers)) if numbers else []):
            raise Failed(f"{self.name}: lines are printed out of order: {numbers}")
        for number, line in zip(numbers, lines, strict=True):
            if whole is not None and whole[number] != line:
                raise Failed(f"{self.name}: line {number} is {line}, in a whole run {whole[number]}")
        return dict(zip(numbers, lines, strict=True))

    def check_model(self) -> None:
        if self.model.exists():
            try:
                mahala.load(self.model)
            except Exception as error:
                raise Failed(f"{self.name}: the checkpoint cannot be loaded: {error}") from error


def _exit_code(arguments: list[str]) -> int:
    # A new object, so that nothing is left in a buffer that the parent had.
    sys.stdout = open(1, "w", buffering=8192, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    try:
        app(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.stdout.flush()
    return 0


def _line(learner: Any, rng: np.random.Generator, at: int) -> dict[str, Any]:
    a, b, c = rng.normal(size=(3, D)).round(3).tolist()
    if isinstance(learner, PairLearner):
        return {"x": a, "x2": b, "similar": at % 2 == 0}
    return {"query": a, "positive": b, "negative": c}


def end(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(case: int, seed: int, amount: int) -> int:
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        job = Job(Path(folder), case // 2, seed)
        started = time.monotonic()
        whole, model = whole_run(job)
        seconds = time.monotonic() - started
        rng = np.random.default_rng([seed, case])
        if case % 2 == 0:
            return _kill(job, rng, seconds, whole, model)
        return _fault(job, _FAULTS[case // 2 // len(STREAMS) % len(_FAULTS)], rng, whole, model)


def whole_run(job: Job) -> tuple[dict[int, str], bytes]:
    """Return what a stream that is never stopped prints, and its model file."""
    code = end(job.start())
    if code:
        raise Failed(f"{job.name}: exit code {code}: {job.errors.read_text()[-300:]}")
    whole, model = job.printed(), job.model.read_bytes()
    if sorted(whole) != list(range(1, N_LINES + 1)):
        raise Failed(f"{job.name}: of {N_LINES} lines {len(whole)} are printed")
    clean(job)
    return whole, model


def clean(job: Job) -> None:
    """Remove all but the input."""
    for path in job.lines.parent.iterdir():
        if path != job.lines:
            path.unlink()


def _kill(job: Job, rng: np.random.Generator, seconds: float, whole: dict[int, str], model: bytes) -> int:
    seen: set[int] = set()
    n_kills = 0
    for _ in range(20):
        pid = job.start()
        if n_kills < N_KILLS:
            time.sleep(float(rng.random()) * seconds)
            os.kill(pid, signal.SIGKILL)
        code = end(pid)
        n_kills += code == -signal.SIGKILL
        _check_seen(job, seen, whole)
        job.check_model()
        if code == 0 and n_kills >= N_KILLS:
            break
        if code == 0:  # it was done before it was killed
            clean(job)
            seen.clear()
        elif code != -signal.SIGKILL:
            raise Failed(f"{job.name}: exit code {code}: {job.errors.read_text()[-300:]}")
    _check_end(job, seen, model)
    return n_kills


def _check_seen(job: Job, seen: set[int], whole: dict[int, str]) -> None:
    printed = job.printed(whole) if job.output.exists() else {}
    if printed and min(printed) > max(seen, default=0) + 1:
        raise Failed(f"{job.name}: lines {max(seen, default=0) + 1} to {min(printed) - 1} are not printed")
    seen |= set(printed)


def _check_end(job: Job, seen: set[int], model: bytes) -> None:
    if sorted(seen) != list(range(1, N_LINES + 1)):
        raise Failed(f"{job.name}: of {N_LINES} lines {len(seen)} were ever printed")
    if job.model.read_bytes() != model:
        raise Failed(f"{job.name}: the model is not that of a run that was never stopped")
    if left := [path.name for path in job.model.parent.iterdir() if ".tmp" in path.name]:
        raise Failed(f"{job.name}: temporary files are left: {left}")


class _Faults:
    """Counts the calls of a checkpoint, and makes the k-th fail, or ends the process there."""

    def __init__(self, job: Job, k: int, error: int | None, count: Path) -> None:
        self.job, self.k, self.error, self.count, self.n = job, k, error, count, 0

    def install(self) -> None:
        for module, name in _CALLS:
            if hasattr(module, name):
                setattr(module, name, self._wrapped(getattr(module, name)))
        io.open = builtins.open = self._wrapped(builtins.open, writes=True)  # type: ignore[assignment]

    def _wrapped(self, function: Any, writes: bool = False) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            mode = args[1] if len(args) > 1 else kwargs.get("mode", "r")
            if not writes or (set(str(mode)) & set("wa+x") and str(self.job.model.parent) in str(args[0])):
                self.n += 1
                if self.n == self.k:
                    if self.error is None:
                        os._exit(137)
                    path = args[0] if isinstance(args[0], str | os.PathLike) else None
                    raise OSError(self.error, os.strerror(self.error), path)
                if self.k == 0:
                    os.truncate(self.count, self.n)
            return function(*args, **kwargs)

        return wrapped


def _fault(job: Job, error: int | None, rng: np.random.Generator, whole: dict[int, str], model: bytes) -> int:
    count = job.lines.with_name("count")
    count.touch()
    end(job.start(_Faults(job, 0, None, count).install))
    n_calls = count.stat().st_size
    if n_calls < 2:
        raise Failed(f"{job.name}: a checkpoint makes {n_calls} calls that can fail")
    for k in range(1, n_calls + 1):
        clean(job)
        check_stopped(job, end(job.start(_Faults(job, k, error, count).install)), whole, model)
    # A full disk: a file cannot grow beyond this, but what is printed fits.
    n_printed = sum(len(line) + 1 for line in whole.values())
    for size in rng.integers(n_printed, max(len(model), n_printed + 1), size=3):
        clean(job)
        check_stopped(job, end(job.start(functools.partial(_limit_files, int(size)))), whole, model)
    return n_calls + 3


def _limit_files(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def check_stopped(job: Job, code: int, whole: dict[int, str], model: bytes) -> None:
    """Check what a stream left that a fault stopped, or not, and what a restart makes of it."""
    seen: set[int] = set()
    told = job.errors.read_text()
    if code not in (0, 2, 137):
        raise Failed(f"{job.name}: exit code {code} after a fault: {told[-300:]}")
    if "Traceback" in told or (code == 2 and job.model.stem not in told):
        raise Failed(f"{job.name}: the error does not name the file: {told[-300:]}")
    _check_seen(job, seen, whole)
    job.check_model()
    code = end(job.start())
    if code:
        raise Failed(f"{job.name}: exit code {code} after a restart: {job.errors.read_text()[-300:]}")
    _check_seen(job, seen, whole)
    _check_end(job, seen, model)
