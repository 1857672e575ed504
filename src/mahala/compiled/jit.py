"""Decorators that compile a function with Numba and cache the machine code in a file.

Decorated functions keep their static types. They release the global interpreter lock, so that threads run them at the
same time. Numba's cache does not notice changes in the functions that a kernel calls:
delete it after such a change, or set NUMBA_CACHE_DIR to another directory, as the Makefile does. Where neither the
package nor the home folder can be written, the cache is in a private folder for temporary files.
"""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from collections.abc import Callable, Set
from typing import Any, TypeVar

import numba
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

# LLVM's fast-math flags. FAST lets the compiler reorder sums, to vectorise them, and fuse products with sums.
FAST = frozenset({"reassoc", "contract"})
EXACT: frozenset[str] = frozenset()

# The τ of a step that is not taken because its numbers would overflow: a zero that its sign tells from others.
SKIPPED = -0.0


def kernel(function: Function) -> Function:
    """Compile a function, with FAST arithmetic."""
    return kernel_with(FAST)(function)


def kernel_with(fastmath: Set[str]) -> Callable[[Function], Function]:
    """Compile a function with the fast-math flags given."""
    compiler: Any = njit(cache=True, nogil=True, error_model="numpy", fastmath=set(fastmath))

    def compiled(function: Function) -> Function:
        try:
            return compiler(function)  # type: ignore[no-any-return]
        except RuntimeError:  # neither the package nor the home folder can be written
            numba.config.CACHE_DIR = _own_folder()
            return compiler(function)  # type: ignore[no-any-return]

    return compiled


@functools.cache
def _own_folder() -> str:
    """Return a folder for machine code that nobody else can write to, the same in every process if there is one."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = os.path.join(tempfile.gettempdir(), f"mahala-kernels-{user}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return tempfile.mkdtemp(prefix="mahala-kernels-")
    # Numba runs what it finds there.
    if stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077:
        return folder
    return tempfile.mkdtemp(prefix="mahala-kernels-")
