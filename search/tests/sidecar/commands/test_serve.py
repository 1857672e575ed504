"""`mahala serve` as people start it: a process, its address, its processes and its keys."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from mahala.cli.main import app
from mahala_search import Client
from mahala_search.sidecar.client import ServiceError
from mahala_search.sidecar.commands import serve
from mahala_search.sidecar.demo import run
from mahala_search.sidecar.demo.dishes import ENCODER, WIDTH
from mahala_search.sidecar.records import Settings
from mahala_search.sidecar.store.store import Store
from processes import COMMAND, Program

QUERY = {"vector": [1.0, 0.0]}


class Process(Program):
    """A sidecar that was started by the command line."""

    def __init__(self, folder, *arguments):
        super().__init__(COMMAND, "serve", *arguments, "--port", "0", folder=folder)
        self.address = self.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.stderr.read()

    def end(self, number):
        self.send(number)
        self.stdout.read(), self.stderr.read()
        return self.wait()


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def mahala_serve(*arguments, code=0):
    result = CliRunner().invoke(app, ["serve", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def children_of(pid):
    """Return the commands of the processes that a process has started, by their numbers."""
    return {
        int(number): Path(f"/proc/{number}/cmdline").read_text()
        for task in Path(f"/proc/{pid}/task").iterdir()
        for number in (task / "children").read_text().split()
    }


def workers_of(process):
    return {number for number, command in children_of(process._process.pid).items() if "spawn_main" in command}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_processes_share_the_port_and_are_started_again(tmp_path):
    with Process(tmp_path, "--workers", "2") as process, httpx.Client(base_url=process.address, timeout=60.0) as http:
        assert http.put("/v1/spaces/s", json={"width": 2}).status_code == 200
        before = workers_of(process)
        assert len(before) == 2
        os.kill(min(before), signal.SIGKILL)

        def embedded():
            with httpx.Client(base_url=process.address, timeout=60.0) as fresh:  # of any of the processes
                answer = fresh.post("/v1/spaces/s/embed", json={"queries": [QUERY]})
            assert answer.status_code == 200
            return answer.json()["results"][0]["search_id"] is not None  # unless the machine is busy

        wait_for(lambda: sum(embedded() for _ in range(5)) > 2)
        wait_for(lambda: len(after := workers_of(process)) == 2 and after != before)
        wait_for(embedded)
        assert 'mahala_served_version{space="s"} 0.0' in http.get("/metrics").text
        after = workers_of(process)
        assert process.end(signal.SIGTERM) == 0
        assert not any(Path(f"/proc/{number}").exists() for number in after)


def test_keys_are_needed_beyond_loopback_and_are_those_of_spaces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "admin\n" in mahala_serve("--host", "0.0.0.0", code=2)
    assert "admin --database y.db" in mahala_serve("--keys", "--database", "y.db", code=2)
    for command in (["report"], ["keys", "list"], ["keys", "revoke", "0000"]):
        assert "there is no file typo.db" in mahala_serve(*command, "--database", "typo.db", code=1)
    assert not Path("typo.db").exists()
    admin = mahala_serve("keys", "create", "--role", "admin").strip()
    assert "--space must be one of none so far" in mahala_serve(
        "keys", "create", "--role", "read", "--space", "s", code=2
    )
    with Process(tmp_path, "--keys") as process:
        headers = {"Authorization": f"Bearer {admin}"}
        with httpx.Client(base_url=process.address) as http:
            assert http.put("/v1/spaces/s", json={"width": 2}).status_code == 401
            assert http.put("/v1/spaces/s", json={"width": 2}, headers=headers).status_code == 200
        write = mahala_serve("keys", "create", "--role", "write", "--space", "s").strip()
        with Client(process.address, "s", key=write) as client:
            search = client.embed([1.0, 0.0], "tent")
            client.shown(search, ["d0", "d1"])
            assert client.flush()
            assert client.dropped == 0
        assert process.end(signal.SIGINT) in (0, 130, -signal.SIGINT)
    listed = mahala_serve("keys", "list")
    assert [line.split()[1] for line in listed.splitlines()] == ["admin", "write"]
    assert listed.splitlines()[1].endswith(" s")
    mahala_serve("keys", "revoke", listed.split()[0])
    assert "there is no key" in mahala_serve("keys", "revoke", "0000", code=2)


def test_the_demo_ends_with_its_sentence(tmp_path):
    with closing(Store(tmp_path / "search.db")) as store:
        space = store.create("dishes", Settings(WIDTH, encoder=ENCODER))
        with Process(tmp_path, "--demo", "--no-learn", "--database", "search.db") as process:
            wait_for(lambda: store.progress(space.id)["logged"] > 0)
            process.send(signal.SIGINT)
            said, problems = process.stdout.read(), process.stderr.read()
            assert process.wait() == 0
    assert said.startswith("Too early to tell: 0 people had learned search")
    assert (said.count("\n"), problems) == (1, "")


def test_a_demo_in_which_nobody_can_search_ends_and_says_why(monkeypatch):
    @contextmanager
    def demo(address):
        raise ServiceError(409, "width of a space cannot be changed")
        yield

    monkeypatch.setattr(run, "demo", demo)
    with (
        pytest.raises(ValueError, match=r"--demo: nobody can search in search\.db: width of a space cannot be changed"),
        serve._people("http://127.0.0.1:1", "search.db"),
    ):
        time.sleep(60.0)


HEAVY = {"numba", "scipy", "sklearn", "fastapi", "pandas", "polars", "matplotlib", "faiss"}


def test_serving_starts_without_what_learns():
    code = "import sys, mahala_search.sidecar.http.app, mahala_search.sidecar.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_an_empty_sidecar_needs_little_memory(tmp_path):
    command = [sys.executable, "-m", "mahala", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().strip()
        wait_for(lambda: httpx.get(f"{address}/ready", timeout=60.0).status_code == 200)
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.terminate()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    assert int(line.split()[1]) < 120 * 1024
