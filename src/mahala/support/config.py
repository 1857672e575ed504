"""Settings for the whole process, or for a block of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

from mahala.support.parameters import Count, Where, check_value

# The engine for rows in chunks is this, followed by the name of the workers' engine, or nothing for their own setting.
WORKERS = "workers:"

_settings: dict[str, Any] = {"engine": None, "n_threads": None, "tf32": False}


def _is_engine(value: Any) -> bool:
    if isinstance(value, str):
        return bool(re.fullmatch(rf"({WORKERS})?(cpu|cuda(:\d+)?|torch-cpu)|{WORKERS}", value))
    return hasattr(value, "scheduler_info")


_Engine = Annotated[
    Any, Where(_is_engine, "'cpu', 'cuda', 'cuda:1' and so on, 'torch-cpu', or a Client of dask.distributed")
]
_TYPES: dict[str, Any] = {"engine": _Engine | None, "n_threads": Count | None, "tf32": bool}
_in_block: ContextVar[dict[str, Any]] = ContextVar("mahala_settings")


def get_config() -> dict[str, Any]:
    """Return the settings that hold here.

    >>> get_config()
    {'engine': None, 'n_threads': None, 'tf32': False}
    """
    return _settings | _in_block.get({})


def set_config(**settings: Any) -> None:
    """Change settings for the whole process.

    Parameters
    ----------
    engine : "cpu", a device of PyTorch such as "cuda", a Client of dask.distributed, or None
        Where learners that fit all the data compute their sums, and where nearest neighbours are searched. None is
        "cpu", the cores of this machine. Dask arrays are computed by Dask, whatever the engine; its workers then use
        the device named here, or else that of `set_config` on the worker.
    tf32 : bool
        Whether matrix products of float32 on a GPU round their factors to 11 bits, which is faster.
    n_threads : int or None
        Number of threads of a computation. None for OMP_NUM_THREADS, or without it the number of cores that the
        process may use.
    """
    _settings.update(_checked(settings))


@contextmanager
def config_context(**settings: Any) -> Iterator[None]:
    """Change settings, those of `set_config`, within a block.

    >>> with config_context(n_threads=1):
    ...     get_config()["n_threads"]
    1
    """
    token = _in_block.set(_in_block.get({}) | _checked(settings))
    try:
        yield
    finally:
        _in_block.reset(token)


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    for name, value in settings.items():
        if name not in _settings:
            raise TypeError(f"there is no setting {name!r}; the settings are {', '.join(_settings)}")
        check_value(value, name, _TYPES[name])
    return settings
