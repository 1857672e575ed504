"""Decorators that compile a function with Numba and cache the machine code in a file.

Decorated functions keep their static types. They release the global interpreter lock, so that threads run them at the
same time. Numba's cache does not notice changes in the functions that a kernel calls:
delete it after such a change, or set NUMBA_CACHE_DIR to another directory, as the Makefile does.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, TypeVar

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
    compiler: Callable[[Function], Function] = njit(cache=True, nogil=True, error_model="numpy", fastmath=set(fastmath))
    return compiler
