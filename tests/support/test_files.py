"""Files are replaced as a whole or not at all."""

from __future__ import annotations

import pytest

from mahala.support.files import whole_file


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
