"""Errors before memory runs out."""

from __future__ import annotations

import math
import os
from unittest.mock import Mock

import pytest

from mahala.support.memory import check_room, memory_limit


def test_the_limit_is_given_or_that_of_the_machine(monkeypatch):
    assert memory_limit(1000) == 1000.0
    assert 2**20 < memory_limit(None) < math.inf
    monkeypatch.setattr("resource.getrlimit", lambda _: (2**20, -1))
    monkeypatch.setattr("mahala.support.memory.Path.read_text", lambda _: "3 2 1\n")
    assert memory_limit(None) == 2**20 - 3 * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr("mahala.support.memory.Path.read_text", Mock(side_effect=FileNotFoundError))
    assert memory_limit(None) == 2**20
    monkeypatch.setattr("resource.getrlimit", lambda _: (-1, -1))
    monkeypatch.delattr(os, "sysconf")
    assert memory_limit(None) == math.inf


def test_what_fits_passes_and_what_does_not_says_so():
    check_room(2**30, 2**30, "M", "use fewer features")
    with pytest.raises(MemoryError) as caught:
        check_room(3 * 2**30, 2**30, "M", "use fewer features")
    assert str(caught.value) == "M takes 3 GiB, more than max_memory = 1 GiB; use fewer features"
    with pytest.raises(MemoryError, match=r"X takes .* GiB, more than this machine's .* GiB; wait"):
        check_room(1e30, None, "X", "wait")
