"""Programs in processes of their own, for tests of signals, pipes and terminals.

A server that has imported what they need forks them, which takes a hundredth of the time of a new interpreter.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from multiprocessing.reduction import DupFd

COMMAND = "from mahala.cli.main import app; app()"  # as `mahala`, with the arguments of the program
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["pytest", "polars", "processes", "mahala.warming", "mahala.cli.main", "mahala.stream", "mahala.evaluation"]
)


class Program:
    """Python code that runs in a process of its own, with pipes to and from it.

    Parameters
    ----------
    code : what to run, with `arguments` in `sys.argv`
    folder : working directory
    stdout, stderr : descriptors to write to instead of a pipe
    """

    def __init__(self, code, *arguments, folder=".", stdout=None, stderr=None):
        ends = [os.pipe()]
        theirs = [ends[0][0]]
        self.stdin = open(ends[0][1], "w", encoding="utf-8")  # noqa: SIM115
        self.stdout, self.stderr = None, None
        for name, given in (("stdout", stdout), ("stderr", stderr)):
            if given is None:
                reading, given = os.pipe()
                ends.append((reading, given))
                setattr(self, name, open(reading, encoding="utf-8"))  # noqa: SIM115
            theirs.append(given)
        self._process = _SERVER.Process(
            target=_run, args=(code, [str(argument) for argument in arguments], str(folder), _Descriptors(theirs))
        )
        self._process.start()
        os.close(theirs[0])
        for _, writing in ends[1:]:
            os.close(writing)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.wait()
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None and not file.closed:
                file.close()

    @property
    def running(self):
        return self._process.is_alive()

    def kill(self):
        self.send(signal.SIGKILL)

    def send(self, number):
        """Send a signal, if it is still running."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(self._process.pid, number)

    def wait(self, seconds=100.0):
        """Wait for its end; return its exit code, negative if a signal ended it."""
        self._process.join(seconds)
        assert self._process.exitcode is not None, "the process does not end"
        return self._process.exitcode


class _Descriptors:
    """File descriptors that are sent to the process with its arguments."""

    def __init__(self, numbers):
        self._numbers = numbers

    def __reduce__(self):
        return list, ([DupFd(number) for number in self._numbers],)


def _run(code, arguments, folder, descriptors):
    for number, given in enumerate(descriptors):
        descriptor = given.detach()
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate(("r", "w", "w"))
    )
    sys.stderr.reconfigure(line_buffering=True)
    os.chdir(folder)
    sys.argv = ["mahala", *arguments]
    exec(code, {"__name__": "__main__"})
