"""One small job (fit, save, load, stream) in places where it has to give what it gives at home.

`python -m campaign.places FOLDER [HOW]` runs the job and writes what it learned to FOLDER/result.npz.
"""

from __future__ import annotations

import ctypes
import functools
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .runner import Failed

AMOUNT, SHORT = 9, 1  # places, the cheapest first
CPU_SECONDS = 1200.0
_ROOT = Path(__file__).parents[1]
_HOME: dict[str, np.ndarray] = {}


def job(folder: Path) -> dict[str, np.ndarray]:
    """Fit, save, load and stream; return what was learned."""
    from typer.testing import CliRunner

    import mahala
    from mahala.cli.main import app

    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = rng.normal(size=(30, 4)) + np.eye(3, 4)[y]
    learned = {}
    for learner in (mahala.PA(random_state=0), mahala.OASIS(n_triplets=50, random_state=0), mahala.PCA()):
        path = folder / f"{type(learner).__name__}.safetensors"
        learner.fit(X, y).save(path)
        learned[path.stem] = np.asarray(mahala.load(path).metric_.matrix)
    lines = "".join(
        json.dumps({"x": list(a), "x2": list(b), "similar": i % 2 == 0}) + "\n" for i, (a, b) in enumerate(pairwise(X))
    )
    (folder / "lines.jsonl").write_text(lines)
    (folder / "stream.safetensors").unlink(missing_ok=True)
    arguments = [
        "stream",
        "--model",
        folder / "stream.safetensors",
        "--learner",
        "PA",
        "--input",
        folder / "lines.jsonl",
    ]
    for _ in range(2):  # the second one has nothing left to do
        result = CliRunner().invoke(
            app, [*map(str, arguments), "--checkpoint-every", "7", "--checkpoint-seconds", "0.01"]
        )
        if result.exit_code:
            raise Failed(f"mahala stream: {result.output[-300:]}")
    learned["stream"] = np.asarray(mahala.load(folder / "stream.safetensors").metric_.matrix)
    return learned


def _with_clock_set_back(folder: Path) -> dict[str, np.ndarray]:
    """Let the clock go back by a day at every look at it, which gives every file a date to come.

    The process is this one, which was forked from that of `prepare`, where all is loaded: only the clock differs.
    """
    real, calls = time.time, [0]

    def earlier() -> float:
        calls[0] += 1
        return real() - 86400.0 * calls[0]

    time.time = earlier
    try:
        return job(folder)
    finally:
        time.time = real


def _with_commas() -> None:
    import locale

    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"):
        try:
            locale.setlocale(locale.LC_ALL, name)
            return
        except locale.Error:
            continue
    print("no locale with decimal commas is installed", file=sys.stderr)


def _in_processes(method: str, folder: Path) -> dict[str, np.ndarray]:
    """Run the job in a process that multiprocessing starts, after it ran in this one."""
    job(folder)
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply(job, (folder,))


def main(folder: Path, how: str) -> None:
    if how == "commas":
        _with_commas()
    learned = _in_processes(how, folder) if how in ("fork", "spawn") else job(folder)
    np.savez(folder / "result.npz", **learned)


def _start(folder: Path, how: str = "", options: tuple[str, ...] = (), **more: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"} | more.pop("environment", {})
    kept = {key: value for key, value in environment.items() if value is not None}
    command = [sys.executable, *options, "-m", "campaign.places", str(folder), how]
    return subprocess.Popen(
        command, env=kept, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )


def _result(process: subprocess.Popen[str], folder: Path) -> dict[str, np.ndarray]:
    output, _ = process.communicate()
    if process.returncode:
        raise Failed(f"exit code {process.returncode}: {output[-1500:]}")
    with np.load(folder / "result.npz") as file:
        return dict(file)


def _plain(folder: Path, **how: Any) -> dict[str, np.ndarray]:
    return _result(_start(folder, **how), folder)


def _cold(folder: Path) -> dict[str, np.ndarray]:
    """Eight processes at once that share a cache with nothing in it."""
    folders = [folder / str(at) for at in range(8)]
    for own in folders:
        own.mkdir()
    started = [_start(own, environment={"NUMBA_CACHE_DIR": str(folder / "cache")}) for own in folders]
    results = [_result(process, own) for process, own in zip(started, folders, strict=True)]
    for other in results[1:]:
        _compare(other, results[0], 0.0)
    return results[0]


def _checked(folder: Path) -> dict[str, np.ndarray]:
    """With every index checked, in a cache of its own."""
    return _plain(folder, environment={"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder / "cache")})


def _homeless(folder: Path) -> dict[str, np.ndarray]:
    """No HOME, and a package in a folder that cannot be written to."""
    shutil.copytree(
        _ROOT / "src" / "mahala", folder / "package" / "mahala", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(_ROOT / "campaign", folder / "package" / "campaign", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [folder / "package", *(folder / "package").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    own = folder / "own"
    own.mkdir()
    nowhere = {"HOME": str(folder / "package" / "nowhere"), "PYTHONPATH": str(folder / "package")}
    unset: dict[str, Any] = dict.fromkeys(("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"))
    try:
        return _plain(own, environment=unset | nowhere, preexec_fn=_obey_modes)
    finally:
        for path in [folder / "package", *(folder / "package").rglob("*")]:
            path.chmod(0o755)


def _obey_modes() -> None:
    """Give up the right of root to write where the mode of a file forbids it; others never had it."""
    bounding_set_drop, dac_override = 24, 1
    ctypes.CDLL(None).prctl(bounding_set_drop, dac_override, 0, 0, 0)


# What is different there, and how near the result has to be: without the compiler sums are taken in another order.
PLACES: list[tuple[str, Callable[[Path], dict[str, np.ndarray]], float]] = [
    ("clock set back", _with_clock_set_back, 0.0),
    ("python -O", functools.partial(_plain, options=("-O",)), 0.0),
    ("decimal commas", functools.partial(_plain, how="commas", environment={"LC_ALL": "de_DE.UTF-8"}), 0.0),
    ("fork", functools.partial(_plain, how="fork"), 0.0),
    ("spawn", functools.partial(_plain, how="spawn"), 0.0),
    ("NUMBA_DISABLE_JIT", functools.partial(_plain, environment={"NUMBA_DISABLE_JIT": "1"}), 1e-9),
    ("no HOME, read-only package", _homeless, 0.0),
    ("NUMBA_BOUNDSCHECK", _checked, 1e-9),
    ("8 processes, cold cache", _cold, 0.0),
]


def n_cases(amount: int) -> int:
    return min(amount, len(PLACES))


def prepare(amount: int) -> None:
    """Run the job at home."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        _HOME.update(job(Path(folder)))


def _compare(got: dict[str, np.ndarray], want: dict[str, np.ndarray], rtol: float) -> None:
    for name, matrix in want.items():
        if not np.allclose(got[name], matrix, rtol=0.0, atol=rtol * np.abs(matrix).max()):
            raise Failed(f"{name} is another one: off by {np.abs(got[name] - matrix).max():.2g}")


def run(case: int, seed: int, amount: int) -> int:
    name, place, rtol = PLACES[case]
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        try:
            _compare(place(Path(folder)), _HOME, rtol)
        except Failed as error:
            raise Failed(f"{name}: {error}") from error
    return 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
