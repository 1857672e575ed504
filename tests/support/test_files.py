"""Files are replaced as a whole or not at all."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from mahala.support.files import only_writer, whole_file


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


HOLD = """
import sys
from mahala.support.files import only_writer
with only_writer(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_write_one_file(tmp_path):
    path = str(tmp_path / "model.safetensors")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD, path], **pipes) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError, match=rf"in use by another process \({holder.pid}\)"), only_writer(path):
            pass
        holder.kill()
    with only_writer(path):  # a lock of a process that was killed is not in the way
        assert (tmp_path / "model.safetensors.lock").exists()
    assert not (tmp_path / "model.safetensors.lock").exists()
    with only_writer(tmp_path / "no folder" / "model.safetensors"):
        pass
