"""How many files of mahala a call passes through: few enough that one can follow it in an editor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import mahala

SOURCES = Path(mahala.__file__).parent


def files_passed(call):
    """The files of mahala with a function that a call runs, compiled ones included."""
    names = set()

    def note(frame, event, arg):
        if event == "call":
            names.add(frame.f_code.co_filename)

    call()  # imports and compiles
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(str(Path(name).relative_to(SOURCES)) for name in names if Path(name).is_relative_to(SOURCES))


@pytest.mark.parametrize("name", ["PA", "OASIS"])
def test_fit_passes_few_files(labelled, name):
    X, y = labelled
    files = files_passed(lambda: getattr(mahala, name)(random_state=0).fit(X, y))
    shared = [file for file in files if file.startswith("support/")]
    assert len(files) - len(shared) <= 9, files
    # The checks, the reading of labels, the locks, the signals and the limits that all estimators share.
    assert len(shared) <= 7, shared
