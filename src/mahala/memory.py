"""How much memory there is, and a refusal in words before it runs out."""

from __future__ import annotations

import os


def check_room(needed: float, limit: float | None, what: str, advice: str) -> None:
    """Refuses what takes more bytes than `limit`, by default than this machine has, before it is made."""
    if limit is None:
        if hasattr(os, "sysconf"):
            machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            if needed > machine:
                raise MemoryError(
                    f"{what} takes {gigabytes(needed)}, more than the {gigabytes(machine)} of this machine; {advice}"
                )
    elif needed > limit:
        raise MemoryError(f"{what} takes {gigabytes(needed)}, more than max_memory={gigabytes(limit)}; {advice}")


def gigabytes(n: float) -> str:
    return f"{n / 2**30:.3g} GiB"
