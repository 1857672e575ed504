"""Files are replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from mahala.cli.parts.options import check_output
from mahala.support import files
from mahala.support.files import previous_of, remove_abandoned, replaceable, whole_file
from mahala.support.model_files import write_model


def fail_halfway(path):
    path.write_text("half")
    raise ZeroDivisionError


def test_files_appear_whole_or_not_at_all(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("before")
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    with pytest.raises(ZeroDivisionError), whole_file(link) as temporary:
        fail_halfway(temporary)
    assert path.read_text() == "before"
    with whole_file(link) as temporary:
        temporary.write_text("after")
        assert temporary.suffix == ".csv"
    assert path.read_text() == "after"
    assert link.is_symlink()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.csv", "t.csv"]


def test_a_file_keeps_its_mode(tmp_path):
    path = tmp_path / "model.txt"
    path.write_text("old")
    path.chmod(0o640)
    with whole_file(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_error_without_a_name_gets_that_of_the_file(tmp_path):
    with pytest.raises(OSError, match=r"model\.txt") as error, whole_file(tmp_path / "model.txt"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert error.value.filename.endswith("model.txt")


WRITE = """
import sys
from mahala.support.files import whole_file
with whole_file(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_writer_left_is_removed_by_the_next_one_and_a_living_one_is_let_be(tmp_path):
    path = tmp_path / "model.txt"
    (tmp_path / "model.tmp.txt").write_text("of the user")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITE, str(path)], **pipes) as writer:
        assert writer.stdout.readline() == b"writing\n"
        with whole_file(path) as temporary:
            temporary.write_text("new")
            with whole_file(path) as another:  # of this process
                another.write_text("newer")
        assert len(list(tmp_path.iterdir())) == 3
        writer.kill()
    remove_abandoned(path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model.tmp.txt", "model.txt"]


def test_temporary_files_of_another_machine_are_removed_after_a_day(tmp_path, monkeypatch):
    path = tmp_path / "model.txt"
    monkeypatch.setattr(files, "_machine", lambda: "0" * 8)
    left = files._temporary(path)
    left.write_text("half")
    monkeypatch.undo()
    with whole_file(path) as temporary:
        temporary.write_text("new")
    assert left.exists()
    os.utime(left, (0, left.stat().st_mtime - 100_000))
    with whole_file(path) as temporary:
        temporary.write_text("new")
    assert not left.exists()


@pytest.mark.parametrize("links", [True, False])
def test_the_replaced_file_is_kept_and_the_name_is_never_without_a_file(tmp_path, monkeypatch, links):
    path = tmp_path / "model.txt"
    replace = os.replace

    def watched(source, destination):
        assert path.exists() == path_was_there
        replace(source, destination)

    monkeypatch.setattr(os, "replace", watched)
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError()))
    for text, there in (("1", False), ("2", True), ("3", True)):
        path_was_there = there
        with whole_file(path, previous=True) as temporary:
            temporary.write_text(text)
    assert (path.read_text(), previous_of(path).read_text()) == ("3", "2")
    assert previous_of(path).name == "model.previous.txt"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("permitted", [True, False])
def test_a_file_keeps_its_owner_where_the_system_permits(tmp_path, monkeypatch, permitted):
    path = tmp_path / "model.txt"
    path.write_text("old")
    if permitted:
        if os.geteuid():
            pytest.skip("only the superuser may give a file to another user")
        os.chown(path, 12345, 12345)
    else:
        owner = os.stat_result((0o100640, 0, 0, 0, 12345, 12345, 0, 0, 0, 0))
        monkeypatch.setattr(files.Path, "stat", lambda self, **_: owner if self == path else os.stat(self))
        monkeypatch.setattr(os, "chown", lambda *_: (_ for _ in ()).throw(PermissionError()))
    with whole_file(path) as temporary:
        temporary.write_text("new")
    monkeypatch.undo()
    assert path.read_text() == "new"
    assert (path.stat().st_uid == 12345) == permitted


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names here")
def test_a_pipe_or_device_is_refused_at_once(tmp_path):
    """To open a pipe would wait for ever, and /dev/zero has no end."""
    from mahala import data, load

    for name in ("model.safetensors", "rows.npy", "rows.npz", "rows.parquet", "rows.xlsx", "rows.svm", "rows.csv"):
        os.mkfifo(tmp_path / name)
        read = load if name.startswith("model") else data.read_table
        with pytest.raises(ValueError, match=r"must be a file, but it is a pipe"):
            read(tmp_path / name)
    with pytest.raises(ValueError, match="must be a file, but it is a pipe"):
        data.read_vectors(tmp_path / "rows.npy")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="must be a file, but it is a device"):
        data.read_table(tmp_path / "zero.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names here")
def test_only_files_and_new_names_are_replaced(tmp_path):
    """The superuser, who runs containers, could turn /dev/null into a file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "loop")
    names = sorted(tmp_path.iterdir())
    for name, error, kind in (
        ("pipe", ValueError, "must be a file or a new name, but it is a pipe"),
        ("null", ValueError, "must be a file or a new name, but it is a device"),
        ("loop", OSError, "Too many levels of symbolic links"),
        (".", IsADirectoryError, "must be a file or a new name, but it is a folder"),
    ):
        with pytest.raises(error, match=kind):
            write_model(tmp_path / name, "metric", {}, {})
        with pytest.raises(error, match=kind):
            replaceable(tmp_path / name)
        with pytest.raises(ValueError, match=f"--output cannot be written: .*{kind}"):
            check_output(tmp_path / name, force=True)
    assert sorted(tmp_path.iterdir()) == names
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to("new")
    write_model(tmp_path / "link", "metric", {}, {})
    assert (tmp_path / "new").is_file()
