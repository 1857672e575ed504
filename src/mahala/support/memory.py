"""How much memory there is, and a refusal in words before it runs out."""

from __future__ import annotations

import math
import os


def memory_limit(max_memory: float | None) -> float:
    """Bytes that may be taken: max_memory, by default what this machine has."""
    if max_memory is not None:
        return float(max_memory)
    if hasattr(os, "sysconf"):
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    return math.inf


def check_room(needed: float, max_memory: float | None, what: str, advice: str) -> None:
    """Refuses what takes more bytes than there may be, before it is made."""
    limit = memory_limit(max_memory)
    if needed > limit:
        have = "this machine's" if max_memory is None else "max_memory ="
        raise MemoryError(f"{what} takes {_gigabytes(needed)}, more than {have} {_gigabytes(limit)}; {advice}")


def _gigabytes(n: float) -> str:
    return f"{n / 2**30:.3g} GiB"
