"""How many files of mahala a call passes through: few enough that one can follow it in an editor."""

from __future__ import annotations

import sys
from pathlib import Path

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


def test_fit_of_pa_passes_few_files(labelled):
    X, y = labelled
    files = files_passed(lambda: mahala.PA("I", random_state=0).fit(X, y))
    assert len(files) <= 11, files


def test_partial_fit_of_sors_passes_few_files(labelled):
    triplets = mahala.Triplets.from_labels(*labelled, n=200, random_state=0)
    stream = mahala.SORS(random_state=0).partial_fit(triplets)
    files = files_passed(lambda: stream.partial_fit(triplets))
    assert len(files) <= 10, files
