"""`mahala doctor` and `mahala warm-up`: describe the installation, and compile its functions ahead."""

import importlib
import os
import pkgutil
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import distributions, requires, version
from importlib.util import find_spec
from pathlib import Path

from threadpoolctl import threadpool_info

import mahala
from mahala.cli.parts.output import Facts, Json, show
from mahala.support.display import task_bar
from mahala.support.limits import COMPILING

# Extras that are for developers, or that only collect others.
_NOT_SHOWN = {"all", "dev", "docs", "test"}
# Environment variables that change how fast mahala runs, or what it compiles.
_VARIABLES = re.compile("NUMBA_.*|(OMP|OPENBLAS|MKL)_NUM_THREADS|CUDA_VISIBLE_DEVICES")


def doctor(as_json: Json = False) -> None:
    """Describe the installation: versions, threads, BLAS, GPUs, compiled code and extras.

    Add the output to bug reports. It includes the path of the cache folder, and environment variables of Numba and of
    numerical libraries, but none of your data.

    Examples:

        mahala doctor

        mahala doctor --json
    """
    import scipy.linalg  # noqa: F401  (loads SciPy's BLAS, which can be another one than NumPy's)

    from mahala.compiled.threads import n_cores, n_threads

    extras = _requirements()
    facts = {
        "mahala": mahala.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "packages": {name: version(name) for name in extras.pop("") if _is_installed(name)},
        "threads": {"used": n_threads(), "cores": n_cores()},
        "blas": [
            {"name": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
            for pool in threadpool_info()
            if pool["user_api"] == "blas"
        ],
        "gpu": _gpu(),
        "cache": _cache(),
        "extras": {
            name: {"missing": [part for part in parts if not _is_installed(part)]}
            for name, parts in sorted(extras.items())
        },
        "environment": {name: text for name, text in sorted(os.environ.items()) if _VARIABLES.fullmatch(name)},
    }
    show(facts, as_json, "\n".join(f"{name:<24}{text}" for name, text in _lines(facts)))


def warm_up(as_json: Json = False) -> None:
    """Compile all functions ahead, once per installation and processor.

    Without it, the first use of each learner takes some seconds to compile what it needs. The first run takes minutes,
    later ones take seconds. The machine code is in Numba's cache: the folder that NUMBA_CACHE_DIR names, or else the
    folder of the package if it is writable, or else one in the home folder.

    Examples:

        mahala warm-up
    """
    from mahala import warming

    with task_bar("Compiling", sys.stderr.isatty()) as update:
        n = warming.warm_up(update)
    done = f"{n} functions compiled in {COMPILING.seconds:.0f} s"
    facts = {"compiled": n, "seconds": COMPILING.seconds}
    show(facts, as_json, done if n else "nothing to compile: all functions are in the cache")


def _lines(facts: Facts) -> Iterator[tuple[str, str]]:
    yield from ((name, facts[name]) for name in ("mahala", "python", "platform"))
    yield from facts["packages"].items()
    yield "threads", f"{facts['threads']['used']} used, {facts['threads']['cores']} cores"
    for library in facts["blas"]:
        yield "BLAS", f"{library['name']} {library['version']}, threads: {library['threads']}"
    yield "GPU", facts["gpu"]
    cache = facts["cache"]
    yield "compiled code", f"{cache['functions']} functions, {cache['bytes'] / 2**20:.1f} MiB, in {cache['folder']}"
    for name, extra in facts["extras"].items():
        missing = ", ".join(extra["missing"])
        yield f"[{name}]", f"needs {missing}" if missing else "installed"
    yield from facts["environment"].items()


def _requirements() -> dict[str, list[str]]:
    """Return the names of required packages: of mahala itself (the key is empty) and of each extra."""
    result: dict[str, list[str]] = {}
    for line in requires("mahala") or ():
        name, extra = re.match(r"[\w-]+", line), re.search(r"extra == ['\"]([\w-]+)", line)
        if name is not None and "sys_platform" not in line:  # what only some platforms need is optional everywhere
            result.setdefault(extra[1] if extra else "", []).append(name[0])
    return {extra: names for extra, names in result.items() if extra not in _NOT_SHOWN}


def _is_installed(name: str) -> bool:
    return any(distributions(name=name))


def _gpu() -> str:
    """Return the names of the GPUs that PyTorch can use, or why there are none."""
    if find_spec("torch") is None:
        return "PyTorch is not installed"
    try:
        import torch
    except (ImportError, OSError) as error:
        return f"PyTorch cannot be imported: {error}"
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return ", ".join(names) or "none that PyTorch can use"


def _cache() -> Facts:
    """Return the folder of Numba's machine code, and what is there for the kernels of this installation."""
    from mahala import compiled
    from mahala.compiled.jit import Kernel

    folders: set[str] = set()
    for module in pkgutil.walk_packages(compiled.__path__, f"{compiled.__name__}."):
        members = vars(importlib.import_module(module.name)).values()
        if kernel := next((member for member in members if isinstance(member, Kernel)), None):
            stats = getattr(kernel.dispatcher, "stats", None)  # which is not there with NUMBA_DISABLE_JIT
            folders |= {stats.cache_path} if stats else set()
    files = [file for folder in folders for file in Path(folder).glob("*.nb?")]
    return {
        "folder": os.path.commonpath(folders) if folders else "no folder",
        "functions": sum(file.suffix == ".nbi" for file in files),
        "bytes": sum(file.stat().st_size for file in files),
    }
