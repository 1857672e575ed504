"""Settings for the whole process, or for a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mahala.support.validation import Count, check_value

_settings: dict[str, Any] = {"n_threads": None}
_in_block: ContextVar[dict[str, Any]] = ContextVar("mahala_settings")


def get_config() -> dict[str, Any]:
    """Return the settings that hold here.

    >>> get_config()
    {'n_threads': None}
    """
    return _settings | _in_block.get({})


def set_config(**settings: Any) -> None:
    """Change settings for the whole process.

    Parameters
    ----------
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
        check_value(value, name, Count | None)
    return settings
