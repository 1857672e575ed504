"""A server process on a socket, and several of them on the same one, which are started again if they end."""

import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

log = logging.getLogger("mahala_search")

# Seconds before a process that has ended is started again.
_PAUSE = 1.0
# Seconds after which a process has started.
_STARTING = 20.0
# Seconds for answers that are under way when the server is stopped.
_STOPPING = 10
# Connections that are accepted in one turn of the event loop at most, and that wait for it.
_ACCEPTED = 256


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens: from now on, requests wait until a server runs."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{host}:{port} cannot be bound: {reason}; give another --port") from None
    # asyncio does not do so for sockets that it has not made, and then every answer waits 40 ms for its second part.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def configuration(app: Any) -> uvicorn.Config:
    """Return how uvicorn runs an app."""
    # Clients that wait between requests keep their connections: one that is closed as they write is an error to them.
    times: dict[str, Any] = {"timeout_keep_alive": 60, "timeout_graceful_shutdown": _STOPPING}
    quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
    # h11 bounds the bytes of headers. uvloop accepts one connection in a turn of its loop: in a flood, clients and
    # /health would wait for seconds.
    return uvicorn.Config(app, http="h11", loop="asyncio", backlog=_ACCEPTED, **times | quiet)


def run(app: Any, bound: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM; the latter raises SystemExit, so that the caller closes what is open."""
    _exit_on_sigterm()
    # What is here stays, and would be gone through by each collection of garbage.
    gc.freeze()
    # Searches have a thread for each core: those of BLAS would wait for each other, and spin meanwhile.
    threadpool_limits(1, "blas")
    # A thread that has just sent an answer waits this long for one that computes; the default of 5 ms adds up.
    sys.setswitchinterval(5e-4)
    with bound:
        uvicorn.Server(configuration(app)).run([bound])


def run_processes(n: int, serve: Callable[[socket.socket], None], bound: socket.socket) -> None:
    """Call a function in n processes with a socket that they share, until SIGINT or SIGTERM.

    A process that ends is started again, unless several in a row fail and none has ever lived for `_STARTING` seconds.
    `serve` can be pickled, and calls `run` at the end.
    """
    _exit_on_sigterm()
    context = multiprocessing.get_context("spawn")

    def started() -> Any:
        process = context.Process(target=_serve, args=(serve, bound), name="mahala-server", daemon=True)
        process.start()
        return process, time.monotonic()

    processes, n_failures, has_started = [started() for _ in range(n)], 0, False
    try:
        while True:
            ended = wait([process.sentinel for process, _ in processes])
            has_started = has_started or time.monotonic() - min(start for _, start in processes) > _STARTING
            for at, (process, _) in enumerate(processes):
                if process.sentinel not in ended:
                    continue
                process.join()
                n_failures = n_failures + 1 if process.exitcode > 0 else 0
                if n_failures > n and not has_started:
                    sys.exit(f"the server processes end with the code {process.exitcode} as soon as they start")
                time.sleep(_PAUSE)
                log.warning("a server process ended with the code %s, and is started again", process.exitcode)
                processes[at] = started()
    finally:
        for process, _ in processes:
            process.terminate()
        for process, _ in processes:
            process.join()


def _serve(serve: Callable[[socket.socket], None], bound: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    serve(bound)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _exit_on_sigterm() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
