"""The model file of a stream: the learner, its position in an input, and the items that the input refers to."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from mahala.saved_estimator import load_learner
from mahala.stream.position import Position, digest_of_rows
from mahala.support.files import previous_of
from mahala.support.model_files import ModelFileError, count_value, header_value, is_model_file, read_model
from mahala.support.parameters import ParameterError

# Parameters in which a learner may differ from the saved one.
_FREE = ("record", "random_state")

KnownItems = dict[str, Any] | None


class Checkpoint(NamedTuple):
    """What a stream resumes from."""

    learner: Any
    position: Position
    items: KnownItems


def open_checkpoint(path: str, learner: Any) -> Checkpoint:
    """Read the model file, which must hold the learner unless that is None; without a file, start with the learner."""
    is_new = not os.path.exists(path)
    if is_new and learner is None:
        raise FileNotFoundError(f"there is no model file {path}: give a learner to start with")
    _check_previous(path)
    if is_new:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{path} cannot be written because there is no folder {folder}")
        return Checkpoint(learner, Position(), None)
    try:
        known = load_learner(path)
    except ModelFileError as error:
        previous = previous_of(path)
        if not previous.exists():
            raise
        raise ModelFileError(
            f"{error}; the checkpoint before it is {previous}: copy it to {path} to resume from there"
        ) from error
    header, _ = read_model(path, "learner")
    position, items = Position(), None
    if "stream" in header:
        try:
            saved = header_value(header, "stream", dict)
            position = Position.of(saved)
            items = header_value(saved, "items", dict, type(None)) if "items" in saved else None
        except ModelFileError as error:
            raise ModelFileError(f"{path} has a damaged position: {error}") from None
    if learner is not None:
        _check_same(path, known, learner)
    return Checkpoint(known, position, items)


def check_items(path: str, known: KnownItems, items: Any) -> dict[str, Any]:
    """Return by what the items are recognised; raise ValueError unless they are the known ones, or begin with them."""
    if known is not None:
        n_rows = count_value(known, "rows")
        if n_rows > items.shape[0] or digest_of_rows(items, n_rows) != known.get("digest"):
            raise ParameterError(
                f"items are not those from which {path} has learned, to which rows may only be appended; give "
                "these, or pass new_items=True if row numbers are to mean the rows of another file",
                "items",
                "new_items",
            )
    return {"rows": items.shape[0], "digest": digest_of_rows(items, items.shape[0])}


def _check_previous(path: str) -> None:
    """Raise FileExistsError if a file that is not of a stream has the name of the last checkpoint but one."""
    previous = previous_of(path)
    if not previous.exists():
        return
    try:
        ours = "stream" in read_model(previous, "learner")[0]
    except ModelFileError:
        ours = is_model_file(previous) and os.path.exists(path)  # one of ours that was damaged
    if not ours:
        raise FileExistsError(f"{previous} must be free for the last checkpoint but one, but it is not one: rename it")


def _check_same(path: str, known: Any, learner: Any) -> None:
    """Raise ValueError if the learner differs from the saved one."""
    ours, theirs = type(known).__name__, type(learner).__name__
    advice = f"use another file, or omit the learner to continue with the saved {ours}"
    if ours != theirs:
        raise ValueError(f"{path} holds a {ours}, not a {theirs}: {advice}")
    wanted = learner.get_params(deep=False)
    for name, value in known.get_params(deep=False).items():
        if name not in _FREE and value != wanted[name]:
            raise ValueError(f"{path} holds a {ours} with {name}={value!r}, not {wanted[name]!r}: {advice}")
