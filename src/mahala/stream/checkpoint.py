"""The model file of a stream: the learner and its position in an input."""

import os
from typing import Any

from mahala.saved_estimator import SavedEstimator, restored
from mahala.stream.input import Position
from mahala.support.files import previous_of
from mahala.support.model_files import ModelFileError, count_value, header_value, is_model_file, read_model

# Parameters in which a learner may differ from the saved one.
_FREE = ("record", "random_state")


def open_checkpoint(path: str, learner: Any) -> tuple[Any, Position, bool]:
    """Return the learner of the model file, its position, and whether it has learned from rows of items.

    The file must hold the given learner unless that is None; without a file, start with the learner.
    """
    previous = previous_of(path)
    if previous.exists() and not is_model_file(previous):
        raise FileExistsError(f"{previous} must be free for the last checkpoint but one, but it is not one: rename it")
    if not os.path.exists(path):
        if learner is None:
            raise FileNotFoundError(f"there is no model file {path}: give a learner to start with")
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{path} cannot be written because there is no folder {folder}")
        return learner, Position(), False
    try:
        header, arrays = read_model(path, "learner")
        saved = restored(path, header, arrays)
    except ModelFileError as error:
        if not previous.exists():
            raise
        raise ModelFileError(
            f"{error}; the checkpoint before it is {previous}: copy it to {path} to resume from there"
        ) from error
    if learner is not None:
        _check_same(path, saved, learner)
    if "stream" not in header:
        return saved, Position(), False
    try:
        entry = header_value(header, "stream", dict)
        position = Position(count_value(entry, "lines"), header_value(entry, "digest", str))
        return saved, position, header_value(entry, "items", bool)
    except ModelFileError as error:
        raise ModelFileError(f"{path} has a damaged position: {error}") from None


def _check_same(path: str, saved: SavedEstimator, learner: SavedEstimator) -> None:
    """Raise ValueError if a learner is not of the kind of the saved one, or has other parameters."""
    kind, name = type(saved).__name__, type(learner).__name__
    advice = f"use another file, or omit the learner to continue with the saved {kind}"
    if kind != name:
        raise ValueError(f"{path} holds a {kind}, not a {name}: {advice}")
    params = learner.get_params(deep=False)
    for key, value in saved.get_params(deep=False).items():
        if key not in _FREE and value != params[key]:
            raise ValueError(f"{path} holds a {kind} with {key}={value!r}, not {params[key]!r}: {advice}")
