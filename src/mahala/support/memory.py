"""Raise MemoryError before allocating more than there is."""

from __future__ import annotations

import math
import os
from pathlib import Path


def memory_limit(max_memory: float | None) -> float:
    """Return the number of bytes that may be allocated: max_memory, by default the memory of this machine.

    What a limit on the memory of this process (`ulimit -v`) leaves counts too.
    """
    if max_memory is not None:
        return float(max_memory)
    limit = math.inf
    if hasattr(os, "sysconf"):
        limit = float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    try:
        import resource
    except ImportError:  # Windows
        return limit
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    return limit if own == resource.RLIM_INFINITY else min(limit, float(own) - _in_use())


def _in_use() -> float:
    """The address space of this process, in bytes, where the system tells."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[0]
    except OSError:
        return 0.0
    return float(pages) * os.sysconf("SC_PAGE_SIZE")


def check_room(needed: float, max_memory: float | None, what: str, advice: str) -> None:
    """Raise a MemoryError, which ends with `advice`, if `what` needs more bytes than may be allocated."""
    limit = memory_limit(max_memory)
    if needed > limit:
        have = "this machine's" if max_memory is None else "max_memory ="
        raise MemoryError(f"{what} takes {_gigabytes(needed)}, more than {have} {_gigabytes(limit)}; {advice}")


def _gigabytes(n: float) -> str:
    return f"{n / 2**30:.3g} GiB"
