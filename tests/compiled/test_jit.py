from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mahala
from mahala.compiled.jit import kernel
from mahala.compiled.triplets import lazy_dense
from mahala.compiled.triplets.rows import late

CALL = """
from mahala.compiled.triplets.rows import late
assert late(2.0, 0.5) == 1.5
hits = late.dispatcher.stats.cache_hits
print(sum(hits.values()) if hits else 0)
"""


@pytest.fixture(scope="module")
def baked(tmp_path_factory):
    """A cache with one function, and how many cache hits each of the two processes that share it had."""
    cache = tmp_path_factory.mktemp("baked")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(mahala.__file__).parents[1])}
    started = [
        subprocess.Popen([sys.executable, "-c", CALL], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    return cache, [process.communicate(timeout=100)[0].strip() for process in started]


def test_of_two_processes_one_compiles_and_the_other_loads_the_machine_code(baked):
    assert sorted(baked[1]) == ["0", "1"]


READ_ONLY = """
import os, sys
writable, real = sys.argv[1], os.access
os.access = lambda path, mode: real(path, mode) and (mode != os.W_OK or str(path).startswith(writable))
from mahala.compiled.triplets.rows import late
from mahala.support.limits import COMPILING
import numba
assert late(2.0, 0.5) == 1.5
assert numba.config.CACHE_DIR == os.environ["NUMBA_CACHE_DIR"]  # which functions of others keep
print(COMPILING.n_compiled)
assert late(2, 1) == 1  # another signature
print(COMPILING.n_compiled)
"""


def test_a_cache_that_can_only_be_read_is_read(baked, tmp_path):
    """As in an image that was warmed up; what is compiled in addition goes to a folder of its own."""
    cache, own = baked[0], tmp_path / "own"
    own.mkdir()
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": str(Path(mahala.__file__).parents[1]),
        "TMPDIR": str(own),
    }
    before = {file: file.read_bytes() for file in cache.rglob("*.nb*")}
    command = [sys.executable, "-c", READ_ONLY, str(own)]
    compiled = [subprocess.run(command, env=environment, capture_output=True, check=True).stdout for _ in range(2)]
    assert [line.split() for line in compiled] == [[b"0", b"1"], [b"0", b"0"]]
    assert before == {file: file.read_bytes() for file in cache.rglob("*.nb*")}


def test_compiling_is_told_once_and_timed(tmp_path):
    code = inspect.cleandoc(
        """
        import logging, time
        from mahala.compiled.jit import kernel
        from mahala.support.limits import COMPILING
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        begin, clock = time.monotonic(), COMPILING.working_time()
        double = kernel(lambda x: 2 * x)
        triple = kernel(lambda x: 3 * x)
        assert not COMPILING.active and COMPILING.n_compiled == 0
        assert double(1.0) == 2.0 and triple(1.0) == 3.0 and double(2.0) == 4.0
        assert not COMPILING.active and COMPILING.n_compiled == 2
        passed, worked = time.monotonic() - begin, COMPILING.working_time() - clock
        assert 0.0 < COMPILING.seconds < passed
        assert abs(passed - worked - COMPILING.seconds) < 0.01
        """
    )
    (tmp_path / "program.py").write_text(code)  # there is a cache for functions in files only
    done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=True)
    assert done.stderr.count("compiling kernels, once per installation") == 1


def test_a_kernel_keeps_its_name_docstring_and_signature():
    assert late.__name__ == "late"
    assert late.__doc__.startswith("Apply")
    assert list(inspect.signature(late).parameters) == ["m", "shrinkage"]
    assert kernel(lambda x: x + 1)(1) == 2


def test_helpers_are_inlined(labelled):
    """Or a process that has just compiled a kernel would run other code than one that reads it from the cache."""
    mahala.AdaSORS(n_triplets=5, storage="dense", random_state=0).fit(*labelled)
    cached = lazy_dense.stream.dispatcher
    fresh = type(cached)(cached.py_func, targetoptions=cached.targetoptions)  # there is no assembly of what was cached
    fresh.compile(cached.signatures[0])
    [assembly] = fresh.inspect_asm().values()
    assert "6stream" in assembly
    assert not re.search(r"(\$|call).*(4read|5write)", assembly)


INTERRUPTED = """
import os, random, signal, sys, threading, time
from mahala.compiled.triplets.rows import late_sum  # an import that is interrupted is Python's affair

def counts():
    return late_sum(5.0, 2.0, 1.0)

pauses, done = random.Random(int(sys.argv[1])), threading.Event()

def interrupt():
    while not done.wait(pauses.uniform(0.01, 0.2)):
        os.kill(os.getpid(), signal.SIGINT)

thread = threading.Thread(target=interrupt)
thread.start()
interrupts = 0
end = time.monotonic() + 60.0
while time.monotonic() < end:
    try:
        first = counts()
        break
    except KeyboardInterrupt:
        interrupts += 1
while True:
    try:
        done.set()
        thread.join()
        break
    except KeyboardInterrupt:
        pass
again = counts()
assert first == again == 7.0
print(interrupts)
"""


def test_ctrl_c_while_a_function_is_compiled(tmp_path):
    """What was interrupted can be called again, in the same process with a cold cache."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(mahala.__file__).parents[1])}
    command = [sys.executable, "-c", INTERRUPTED, "0"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 0
