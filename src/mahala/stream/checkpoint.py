"""The model file of a stream: the learner, its position in an input, and the items that the input refers to."""

import hashlib
import os
from typing import Any

import numpy as np

from mahala.saved_estimator import SavedEstimator
from mahala.stream.input import Position
from mahala.support.files import previous_of
from mahala.support.model_files import ModelFileError, count_value, header_value, is_model_file, read_model
from mahala.support.parameters import ParameterError
from mahala.support.validation import is_sparse

# Parameters in which a learner may differ from the saved one.
_FREE = ("record", "random_state")
# Rows, and bytes of them, by which items are recognised.
_SAMPLED_ROWS, _SAMPLED_BYTES = 256, 2**24


def open_checkpoint(path: str, learner: Any) -> tuple[Any, Position, dict[str, Any] | None]:
    """Return the learner of the model file, its position, and the number of rows and the digest of its items, if any.

    The file must hold the given learner unless that is None; without a file, start with the learner.
    """
    is_new = not os.path.exists(path)
    if is_new and learner is None:
        raise FileNotFoundError(f"there is no model file {path}: give a learner to start with")
    _check_previous(path)
    if is_new:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{path} cannot be written because there is no folder {folder}")
        return learner, Position(), None
    try:
        saved = SavedEstimator.load(path)
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
            entry = header_value(header, "stream", dict)
            position = Position.of(entry)
            items = header_value({"items": None} | entry, "items", dict, type(None))
        except ModelFileError as error:
            raise ModelFileError(f"{path} has a damaged position: {error}") from None
    if learner is not None:
        kind, given = type(saved).__name__, type(learner).__name__
        advice = f"use another file, or omit the learner to continue with the saved {kind}"
        if kind != given:
            raise ValueError(f"{path} holds a {kind}, not a {given}: {advice}")
        params = learner.get_params(deep=False)
        for name, value in saved.get_params(deep=False).items():
            if name not in _FREE and value != params[name]:
                raise ValueError(f"{path} holds a {kind} with {name}={value!r}, not {params[name]!r}: {advice}")
    return saved, position, items


def check_items(path: str, saved: dict[str, Any] | None, items: Any) -> dict[str, Any]:
    """Return by what the items are recognised; raise ValueError unless they are the saved ones, or begin with them."""
    if saved is not None:
        n_rows = count_value(saved, "rows")
        if n_rows > items.shape[0] or _digest(items, n_rows) != saved.get("digest"):
            raise ParameterError(
                f"items are not those from which {path} has learned, to which rows may only be appended; give "
                "these, or pass new_items=True if row numbers are to mean the rows of another file",
                "items",
                "new_items",
            )
    return {"rows": items.shape[0], "digest": _digest(items, items.shape[0])}


def _digest(items: Any, n_rows: int) -> str:
    """Return a digest of some of the first `n_rows` rows, the same ones for the same number."""
    digest = hashlib.sha256(f"{items.dtype.str} {items.shape[1]}".encode())
    most = max(1, min(_SAMPLED_ROWS, _SAMPLED_BYTES // max(1, items.shape[1] * items.dtype.itemsize)))
    for row in np.unique(np.linspace(0, n_rows - 1, most).astype(np.intp)) if n_rows else ():
        part = items[[row]]
        for array in (part.indices.astype(np.int64), part.data) if is_sparse(items) else (np.ascontiguousarray(part),):
            digest.update(array.tobytes())
    return digest.hexdigest()


def _check_previous(path: str) -> None:
    """Raise FileExistsError if a file that is not of a stream has the name of the last checkpoint but one."""
    previous = previous_of(path)
    if not previous.exists():
        return
    try:
        is_checkpoint = "stream" in read_model(previous, "learner")[0]
    except ModelFileError:
        is_checkpoint = is_model_file(previous) and os.path.exists(path)  # a damaged one
    if not is_checkpoint:
        raise FileExistsError(f"{previous} must be free for the last checkpoint but one, but it is not one: rename it")
