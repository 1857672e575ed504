"""`mahala serve` as people start it: a process, its address, its files and its keys."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import mahala_search
from mahala.cli.main import app
from processes import COMMAND, Program

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'mahala-search'")

from mahala_search.serve.searches import feedback_entry
from mahala_search.serve.service import Service


class Process(Program):
    """A service that was started by the command line."""

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


def test_the_demo_learns(tmp_path):
    with Process(tmp_path, "--demo") as service, mahala_search.serve.Client(service.address) as client:
        query = {"text": "spicy noodle soup"}
        found = client.search(k=10, **query)
        assert "Laksa" in found.ids
        assert found.results[0].payload.keys() == {"title", "text", "country", "cuisine", "kind", "diet"}
        wanted = found.ids[-1]
        told = {"shown": found.ids, "clicked": [wanted], "version": found.version, "user": "ann", **query}
        last = [client.impression(**told) for _ in range(5)][-1]
        assert client.wait(last, 60.0)["logged"] == 5
        after = client.search(k=10, plain=True, user="ann", **query)
        assert after.ids.index(wanted) < 3
        assert [result.id for result in after.plain] == found.ids
        assert client.search(text="zzzz", plain=True).results == []
        assert service.end(signal.SIGTERM) in (0, -signal.SIGTERM)


def workers_of(service):
    """Return the numbers of the processes that answer requests."""
    main = service._process.pid
    commands = {
        int(number): Path(f"/proc/{number}/cmdline").read_text()
        for task in Path(f"/proc/{main}/task").iterdir()
        for number in (task / "children").read_text().split()
    }
    return {number for number, command in commands.items() if "spawn_main" in command}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_processes_share_the_port_and_are_started_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.eye(3, dtype=np.float32))
    Path("x.jsonl").write_text("".join(f'{{"id": "{id}"}}\n' for id in "abc"))
    with Process(tmp_path, "x.npy", "x.jsonl", "--workers", "2") as service:
        with mahala_search.serve.Client(service.address, "x", timeout=60.0, attempts=5) as client:
            assert len(client.search(item="a").ids) == 2
            before = workers_of(service)
            assert len(before) == 2
            os.kill(min(before), signal.SIGKILL)
            assert len({client.impression(item="a", shown=["b", "c"], clicked=["c"]) for _ in range(5)}) == 5
            wait_for(lambda: len(after := workers_of(service)) == 2 and after != before)
            assert client.wait(5, 60.0)["learned"] == 5  # one process learns for all
            wait_for(lambda: "mahala_learns 1.0" in client._http.get("/metrics").text)
            count = 'route="/v1/collections/{name}/impressions",status="201"} 5.0'
            wait_for(lambda: count in client._http.get("/metrics").text)  # of both
        after = workers_of(service)
        assert service.end(signal.SIGTERM) == 0
        assert not any(Path(f"/proc/{number}").exists() for number in after)


def test_items_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    table = {"id": list("abcde"), "title": list("vwxyz"), "year": [1, 2, 3, 4, None], "embedding": vectors.tolist()}
    pl.DataFrame(table).write_parquet("My films.parquet")
    np.save("v.npy", vectors)
    (tmp_path / "v.jsonl").write_text("".join(json.dumps({"name": name}) + "\n" for name in "vwxyz"))
    run = []
    monkeypatch.setattr(
        "mahala_search.serve.commands.serve._run",
        lambda service, *_: run.append(
            service.search(
                service.names()[0], {"item": service.served(service.names()[0]).index.items(0, 1)[0].id}, k=9
            )[1]
        ),
    )
    mahala_serve("My films.parquet", "--vectors", "embedding", "--text", "title", "--database", "a.db")
    assert sorted(one.id for one in run[0]) == list("bcde")
    assert next(one.payload for one in run[0] if one.id == "c") == {"title": "x", "id": "c", "year": 3}
    assert next(one.payload for one in run[0] if one.id == "e") == {"title": "z", "id": "e"}
    mahala_serve("v.npy", "v.jsonl", "--text", "name", "--database", "b.db")
    assert [sorted(one.id for one in found) for found in run[1:]] == [list("1234")]
    assert "--update" in mahala_serve("v.npy", "v.jsonl", "--database", "b.db")


def test_a_folder_of_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "My photos").mkdir()
    for name in ("b.png", "a.JPG", "notes.txt"):
        (tmp_path / "My photos" / name).write_bytes(b"")
    np.save("v.npy", np.eye(2, dtype=np.float32))
    np.save("w.npy", np.eye(3, dtype=np.float32))
    run = []
    monkeypatch.setattr(
        "mahala_search.serve.commands.serve._run", lambda service, *_: run.append((service.images, service))
    )
    for _ in range(2):  # the folder is served again when the items are there
        mahala_serve("My photos", "--vectors", "v.npy")
        images, service = run.pop()
        assert images == {"my-photos": Path("My photos")}
        found = service.served("my-photos").index.items(0, 9)
        assert [(one.id, one.payload) for one in found] == [
            ("a.JPG", {"image": "a.JPG"}),
            ("b.png", {"image": "b.png"}),
        ]
    assert "a row for each of the 2 images" in mahala_serve("My photos", "--vectors", "w.npy", "--update", code=2)
    assert "--vectors must name the .npy file" in mahala_serve("My photos", "--update", code=2)
    (tmp_path / "x.jsonl").write_text('{"image": "b.png"}\n{"image": "a.JPG"}\n')
    mahala_serve("v.npy", "x.jsonl", "--images", "My photos", "--collection", "films")
    assert run.pop()[0] == {"films": Path("My photos")}


def test_wrong_options_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "has no collections" in mahala_serve(code=2)
    assert "either ITEMS or --demo" in mahala_serve("x.parquet", "--demo", code=2)
    assert "must be a .parquet file, an" in mahala_serve("x.csv", code=2)
    assert "needs API keys" in mahala_serve("--host", "0.0.0.0", code=2)
    assert "role must be one of" in mahala_serve("key", "create", "--role", "king", code=2)
    assert "no key nobody" in mahala_serve("key", "revoke", "nobody", code=2)
    assert "--demo" in mahala_serve("--help")


def test_keys_and_transfer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    token = mahala_serve("key", "create", "--role", "feedback", "--one-user").strip()
    listed = mahala_serve("key", "list")
    assert listed.split()[:2] == [token.split("_")[1], "feedback"]
    assert "one user" in listed
    assert token.split("_", 2)[2] not in listed
    mahala_serve("key", "revoke", token.split("_")[1])
    assert mahala_serve("key", "list") == ""
    from mahala_search.serve.service import Service

    with Service("mahala-data/mahala.db", learn=False) as service:
        service.create("c", width=2)
        service.put_items("c", [{"id": "a", "vector": [1, 0]}, {"id": "b", "vector": [0, 1]}])
        entry = feedback_entry(service, "c", "impression", service.resolve("c", {"item": "a"}), ["a", "b"], [0.0, 1.0])
        asyncio.run(service.writer.append("c", [entry]))
    assert "1 entries" in mahala_serve("export", "c", "folder")
    assert "1 entries" in mahala_serve("import", "copy", "folder")
    streamed = ["stream", "--learner", "adapter", "--model", "m.safetensors", "--input", "folder/log.jsonl"]
    assert CliRunner().invoke(app, [*streamed, "--items", "folder/items.npy"]).exit_code == 0


def test_a_history_of_events_is_imported_once_with_its_own_times(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from mahala_search.serve.service import Service

    with Service("mahala-data/mahala.db", learn=False) as service:
        service.create("c", width=2)
        service.put_items("c", [{"id": id, "vector": [1, at]} for at, id in enumerate("ab")])
    ranking = {"event": "ranking", "items": [{"id": "a"}, {"id": "gone"}, {"id": "b"}], "user": "u", "timestamp": 1000}
    click = {"event": "interaction", "id": "e", "type": "click", "item": "b"}
    lines = [click | {"ranking": "s", "timestamp": 2000}, click | {"ranking": "t", "timestamp": 1500}]
    for id in "stx":
        lines.append(ranking | {"id": id, "fields": [{"name": "query", "value": f"query {id}"}]})
    text = "\n".join(map(json.dumps, [*lines, click | {"ranking": "x", "timestamp": "then"}]))
    Path("e.jsonl").write_text(text, encoding="utf-8")
    np.savez("q.npz", X=[[1, 2], [3, 4]], ids=["query s", "query t"])
    options = ("import", "c", "e.jsonl", "--format", "metarank", "--queries", "q.npz")
    told = mahala_serve(*options, code=3)
    assert "line 6: timestamp must be" in told
    assert "Wrote 2 impressions to the log of c; 0 were there before" in told
    assert "Wrote 0 impressions to the log of c; 2 were there before" in mahala_serve(*options, code=3)
    with Service("mahala-data/mahala.db", learn=False) as service:
        first, second = service.store.read_log("c")
    assert (first.query_id, first.vector.tolist(), first.at, first.user) == ("query t", [3.0, 4.0], 1500.0, "u")
    assert (second.query_id, second.shown, second.clicked, second.at) == ("query s", [0, 1], [0.0, 1.0], 2000.0)
    told = mahala_serve("import", "c", "e.jsonl", code=2)
    assert "query.text needs an encoder" in told
    assert "need --encoder or --queries" in told
    assert "--format goes with a file of events" in mahala_serve("import", "c", ".", "--format", "ubi", code=2)


def test_the_report_says_what_learning_is_worth(tmp_path, monkeypatch):
    database = tmp_path / "mahala.db"
    assert "has no collections" in mahala_serve("report", "--database", database, code=2)
    with Service(database, learn=False) as service:
        service.create("films", width=2)
        service.create("books", width=2)
    monkeypatch.setattr("mahala_search.serve.commands.serve._run", lambda *_: None)
    mahala_serve("--control", "0.2", "--collection", "films", "--database", database)
    output = mahala_serve("report", "--database", database)
    assert "books: The gain is not measured on the people who search." in output
    assert "films: Too early to say: 0 searches with learning and 0 searches without so far." in output
    assert "-1.000 to +1.000" in output
    facts = json.loads(mahala_serve("report", "films", "--database", database, "--json"))["films"]
    assert (facts["share"], facts["mode"], facts["arms"]["plain"]["searches"]) == (0.2, "plain", 0)
    mahala_serve("--control", "0.1", "--interleave", "--database", database)
    facts = json.loads(mahala_serve("report", "--database", database, "--json"))
    assert [(one["share"], one["mode"]) for one in facts.values()] == [(0.1, "interleave")] * 2
    assert "--interleave needs --control" in mahala_serve("--interleave", "--database", database, code=2)
