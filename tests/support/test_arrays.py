"""Blocks of rows, and errors before memory runs out."""

from __future__ import annotations

import math
import os
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.support.arrays import (
    BLOCK_BYTES,
    block_size,
    check_room,
    control_group_limit,
    memory_limit,
    row_blocks,
    slices,
)


def test_the_limit_is_given_or_that_of_the_machine(monkeypatch):
    assert memory_limit(1000) == 1000.0
    assert 2**20 < memory_limit(None) < math.inf
    resource = pytest.importorskip("resource", reason="there are no such limits here")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**20, resource.RLIM_INFINITY))
    monkeypatch.setattr("mahala.support.arrays.Path.read_text", lambda _: "3 2 1\n")
    assert memory_limit(None) == 2**20 - 3 * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr("mahala.support.arrays.Path.read_text", Mock(side_effect=FileNotFoundError))
    assert memory_limit(None) == 2**20
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr("mahala.support.arrays.control_group_limit", lambda: math.inf)
    assert memory_limit(None) == math.inf


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/", {"memory.max": "4096"}, 4096.0),
        ("0::/a/b", {"memory.max": "max", "a/memory.max": "3000", "a/b/memory.max": "max"}, 3000.0),
        ("4:memory:/a\n2:cpu:/x\n0::/", {"memory/a/memory.limit_in_bytes": "2000", "memory.max": "max"}, 2000.0),
        ("0::/", {"memory.max": "max"}, math.inf),
        ("none", {"memory.max": "1"}, math.inf),
    ],
)
def test_limits_of_control_groups(groups, files, limit, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "groups").write_text(groups)
    assert control_group_limit(tmp_path, tmp_path / "groups") == limit


def test_what_fits_passes_and_what_does_not_says_so():
    check_room(2**30, 2**30, "M", "use fewer features")
    with pytest.raises(MemoryError) as caught:
        check_room(3 * 2**30, 2**30, "M", "use fewer features")
    assert str(caught.value) == "M takes 3 GiB, more than max_memory = 1 GiB; use fewer features"
    with pytest.raises(MemoryError, match=r"X takes .* GiB, more than this machine's .* GiB; wait"):
        check_room(1e30, None, "X", "wait")


@given(n_rows=st.integers(0, 300), width=st.integers(0, 50), most_bytes=st.integers(0, 5000))
def test_blocks_cover_the_rows_in_order_and_fit(n_rows, width, most_bytes):
    blocks = list(row_blocks(n_rows, width, most_bytes))
    assert [i for block in blocks for i in range(n_rows)[block]] == list(range(n_rows))
    for block in blocks:
        rows = block.stop - block.start
        assert rows == 1 or 8 * rows * width <= most_bytes
    assert all(block.stop - block.start == block_size(width, most_bytes) for block in blocks[:-1])


def test_sizes():
    assert block_size(4) == BLOCK_BYTES // 32
    assert block_size(10**12) == 1
    assert block_size(10**12, least=5) == 5
    assert list(slices(0, 3)) == []
    assert list(slices(4, 3)) == [slice(0, 3), slice(3, 4)]
