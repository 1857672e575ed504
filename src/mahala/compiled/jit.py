"""Decorators for functions that Numba compiles.

Decorated functions keep their static types. They release the global interpreter lock, so that threads run them at the
same time. Numba is imported and a function compiled when it is first called: small data is often handled without.
"""

import functools
import os
import threading
from collections.abc import Callable, Set
from typing import Any, Self, TypeVar, cast

from mahala.support.arrays import FloatArray, SignArray
from mahala.support.signals import uninterrupted

Function = TypeVar("Function", bound=Callable[..., Any])

# LLVM's fast-math flags. FAST lets the compiler reorder sums, to vectorise them, and fuse products with sums.
FAST = frozenset({"reassoc", "contract"})
EXACT: frozenset[str] = frozenset()

# What each step saw and did: its signed loss p, its length τ and the label predicted before it.
Steps = tuple[FloatArray, FloatArray, SignArray]
# The τ of a step that is not taken because its numbers would overflow: a zero that its sign tells from others.
SKIPPED = -0.0

# Whether Numba is told to leave functions as they are, as for a debugger.
IS_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

_lock = threading.RLock()


class External:
    """A C function that Numba brings along; it has a type when a kernel that calls it is compiled."""

    def __init__(self, symbol: str, result: str, arguments: list[str]) -> None:
        self._symbol, self._result, self._arguments = symbol, result, arguments

    def __call__(self, *arguments: int) -> int:
        """For type checkers; only compiled code calls it."""
        raise NotImplementedError(f"{self._symbol} is called by compiled code only")

    @functools.cached_property
    def kind(self) -> Any:
        """The function as Numba's compiler knows it."""
        from numba import types
        from numba.np.linalg import ensure_blas

        ensure_blas()
        return types.ExternalFunction(
            self._symbol, getattr(types, self._result)(*(getattr(types, name) for name in self._arguments))
        )


class Kernel(functools.partial[Any]):
    """A function that is compiled when it is first called.

    A partial object of the compiled function, so that a call takes no more time than one of that function.
    """

    def __new__(cls, function: Callable[..., Any], fastmath: Set[str], options: dict[str, bool]) -> Self:
        """Return a kernel that compiles the function at the first call."""

        def first_call(*arguments: Any, **named: Any) -> Any:
            return made.dispatcher(*arguments, **named)

        made = super().__new__(cls, first_call)
        functools.update_wrapper(made, function)
        made.__dict__["_function"], made.__dict__["_options"] = function, (fastmath, options)
        return made

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's function, for which the kernel stands in other kernels."""
        with uninterrupted():  # an import of Numba that ends in the middle cannot be repeated
            from mahala.compiled.compiling import compiled, let_kernels_call

        with _lock, uninterrupted():
            if "dispatcher" in self.__dict__:
                return self.__dict__["dispatcher"]
            let_kernels_call(Kernel, External)
            result = compiled(self.__dict__["_function"], *self.__dict__["_options"])
            set_state: Any = super().__setstate__  # type: ignore[misc]  # which typeshed does not list
            set_state((result, (), {}, self.__dict__ | {"dispatcher": result}))
            return result


def kernel(function: Function) -> Function:
    """Compile a function, with FAST arithmetic."""
    return kernel_with(FAST)(function)


def helper(function: Function) -> Function:
    """Compile a function into the kernels that call it, with FAST arithmetic."""
    return helper_with(FAST)(function)


def helper_with(fastmath: Set[str]) -> Callable[[Function], Function]:
    """Compile a function into the kernels that call it, with the fast-math flags given.

    It has no entry for Python, which takes as long to compile as a short loop. It is always inlined. Otherwise a
    process that compiles the kernel calls the helper as it is by itself, and one that reads the kernel from the cache
    calls the copy that was optimised with it, which may be several times faster and round in another way.
    """
    return kernel_with(fastmath, no_cpython_wrapper=True, forceinline=True)


def kernel_with(fastmath: Set[str], **options: bool) -> Callable[[Function], Function]:
    """Compile a function with the fast-math flags given."""

    def decorated(function: Function) -> Function:
        return cast(Function, Kernel(function, fastmath, options))

    return decorated
