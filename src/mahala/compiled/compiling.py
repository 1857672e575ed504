"""Compilation with Numba, and its cache of machine code in files.

Numba's cache does not notice changes in the functions that a kernel calls: delete it after such a change, or set
NUMBA_CACHE_DIR to another directory, as the Makefile does. Where neither the package nor the home folder can be
written, the cache is in a private folder for temporary files. So it is where there is a cache that can only be read, as
in an image that was warmed up, which Numba would not use: the folder links to it.

Of processes that need the same function, one compiles it, and the others wait for its machine code.
"""

import contextlib
import functools
import gc
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core import event
from numba.core.caching import _CacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import typeof_impl
from numba.types import Dispatcher, unliteral

from mahala.support.limits import COMPILING
from mahala.support.signals import uninterrupted

try:
    import fcntl
except ImportError:  # Windows, where each process compiles for itself
    fcntl = None  # type: ignore[assignment]


def compiled(function: Any, fastmath: Set[str], options: dict[str, bool]) -> Any:
    """Return a function that Numba compiles for each combination of types, with the fast-math flags given."""
    compiler: Any = njit(
        cache=True, nogil=True, error_model="numpy", fastmath=set(fastmath), no_cfunc_wrapper=True, **options
    )
    sources = os.path.dirname(function.__code__.co_filename)
    if _read_only_cache(sources) is None:
        with contextlib.suppress(RuntimeError):  # neither the package nor the home folder can be written
            return _compiled_once(compiler(function))
    with _cache_in(_folder_with_links(sources)):
        return _compiled_once(compiler(function))


@functools.cache
def let_kernels_call(kernel: type, external: type) -> None:
    """Tell Numba what functions the objects of these classes stand for."""
    typeof_impl.register(kernel)(lambda kernel, context: Dispatcher(kernel.dispatcher))
    typeof_impl.register(external)(lambda external, context: external.kind)


def _compiled_once(function: Any) -> Any:
    """Let a function be compiled by one process at a time, and not again for every constant that a kernel passes it."""
    if not hasattr(function, "compile"):  # with NUMBA_DISABLE_JIT
        return function
    compile, call = function.compile, function.get_call_template
    place = zlib.crc32(f"{function.py_func.__module__}.{function.py_func.__qualname__}".encode())

    @functools.wraps(compile)
    def alone(signature: Any) -> Any:
        # Ctrl-C waits, because Numba does not recover from a compilation that was interrupted. Numba's own lock comes
        # before ours: a thread that has it may wait for a function that this one is to compile.
        with (
            uninterrupted(),
            global_compiler_lock,
            _locked(function._cache.cache_path, place),
            _no_garbage_collection(),
        ):
            return compile(signature)

    def without_literals(arguments: Any, named: dict[str, Any]) -> Any:
        return call(tuple(map(unliteral, arguments)), {name: unliteral(kind) for name, kind in named.items()})

    function.compile, function.get_call_template = alone, without_literals
    return function


@contextlib.contextmanager
def _locked(folder: str | None, place: int) -> Iterator[None]:
    """Hold a lock, one place in the file of locks of a cache, if it can be had; a process that ends gives it back."""
    lock = _lock_file(folder) if folder is not None and fcntl is not None else None
    if lock is not None:
        with contextlib.suppress(OSError):  # some network file systems have none
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, place)
    try:
        yield
    finally:
        if lock is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(lock, fcntl.LOCK_UN, 1, place)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause the search for garbage: compiling makes many objects that live, and would take 6 % longer."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@functools.cache
def _lock_file(folder: str) -> int | None:
    """Open the file of locks, which stays open: a process loses all its locks of a file that it closes."""
    try:
        os.makedirs(folder, exist_ok=True)
        return os.open(os.path.join(folder, "mahala.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


class CompileListener(event.Listener):  # type: ignore[misc]
    """Listener for Numba's compile events, of which there are none for machine code from the cache."""

    def on_start(self, event: Any) -> None:
        COMPILING.start()

    def on_end(self, event: Any) -> None:
        COMPILING.end()


event.register("numba:compile", CompileListener())


@contextlib.contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """Let functions that are decorated in the block have their cache in a folder; those of others keep theirs."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = folder
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _in_cache(folder: str, sources: str) -> Path:
    """Return where Numba keeps the machine code of the files in `sources`, in a folder that it is given."""
    return Path(folder, _CacheLocator.get_suitable_cache_subpath(os.path.join(sources, "kernels.py")))


@functools.cache
def _read_only_cache(sources: str) -> Path | None:
    """Return the folder with machine code of the files in `sources`, if it is there and cannot be written."""
    cache_dir = numba.config.CACHE_DIR
    folder = _in_cache(cache_dir, sources) if cache_dir else Path(sources, "__pycache__")
    return folder if any(folder.glob("*.nbi")) and not os.access(folder, os.W_OK) else None


@functools.cache
def _folder_with_links(sources: str) -> str:
    """Return the folder for machine code, with links to what is in a cache that can only be read."""
    folder, read_only = _private_folder(), _read_only_cache(sources)
    if read_only is not None:
        links = _in_cache(folder, sources)
        links.mkdir(exist_ok=True)
        for file in read_only.glob("*.nb[ci]"):
            # Numba replaces a file by another one, so that what it adds stays here.
            with contextlib.suppress(FileExistsError):
                (links / file.name).symlink_to(file)
    return folder


def _private_folder() -> str:
    """Return a folder for machine code that nobody else can write to, the same in every process if there is one."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = os.path.join(tempfile.gettempdir(), f"mahala-kernels-{user}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return tempfile.mkdtemp(prefix="mahala-kernels-")
    # Numba runs what it finds there.
    if stat.S_ISDIR(status.st_mode) and status.st_uid == user and not status.st_mode & 0o077:
        return folder
    return tempfile.mkdtemp(prefix="mahala-kernels-")
