"""Decorators for functions that Numba compiles.

Decorated functions keep their static types. They release the global interpreter lock, so that threads run them at the
same time. Numba is imported and a function compiled when it is first called: small data is often handled without.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Set
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

# LLVM's fast-math flags. FAST lets the compiler reorder sums, to vectorise them, and fuse products with sums.
FAST = frozenset({"reassoc", "contract"})
EXACT: frozenset[str] = frozenset()

# The τ of a step that is not taken because its numbers would overflow: a zero that its sign tells from others.
SKIPPED = -0.0

_lock = threading.RLock()


class Kernel:
    """A function that is compiled when it is first called."""

    def __init__(self, function: Callable[..., Any], fastmath: Set[str], options: dict[str, bool]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._fastmath, self._options = function, fastmath, options

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.dispatcher(*arguments, **named)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's function, in which the kernels that it calls are Numba's, too."""
        from mahala.compiled.compiling import compiled

        variables = self._function.__globals__
        with _lock:
            for name in self._function.__code__.co_names:
                if isinstance(variables.get(name), Kernel):
                    variables[name] = variables[name].dispatcher
            return self.__dict__.get("dispatcher") or compiled(self._function, self._fastmath, self._options)


def kernel(function: Function) -> Function:
    """Compile a function, with FAST arithmetic."""
    return kernel_with(FAST)(function)


def helper(function: Function) -> Function:
    """Compile a function that kernels alone call: it has no entry for Python, which takes as long as a short loop."""
    return kernel_with(FAST, no_cpython_wrapper=True)(function)


def kernel_with(fastmath: Set[str], **options: bool) -> Callable[[Function], Function]:
    """Compile a function with the fast-math flags given."""

    def decorated(function: Function) -> Function:
        return cast(Function, Kernel(function, fastmath, options))

    return decorated
