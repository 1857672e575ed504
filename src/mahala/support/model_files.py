"""Model files: arrays in the safetensors format with a JSON header. Reading a file never runs code."""

import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import safe_open
from safetensors.numpy import load, save

from mahala.support.arrays import Arrays
from mahala.support.files import check_readable, whole_file

FORMAT_VERSION = 1
# More steps than can be taken, and not too many for a number of 64 bits.
LARGEST_COUNT = 2**60

T = TypeVar("T")

_METADATA_KEY = "mahala"
_CHECKSUM_KEY = "crc32"
_CONTENTS = ("metric", "learner")
# JSON has neither infinities nor NaN: such a float is written as an object with this one key.
_FLOAT_KEY = "$float"
_NON_FINITE = ("inf", "-inf", "nan")


class ModelFileError(ValueError):
    """A model file is damaged, in another format, too new, or does not hold the kind of object to be read."""


def write_model(
    path: str | os.PathLike[str],
    content: str,
    arrays: Mapping[str, NDArray[Any]],
    header: Mapping[str, object],
    verify: Callable[[Path], object] | None = None,
    previous: bool = False,
) -> None:
    """Write arrays and a header to `path` in one step, so that a failure leaves an earlier file intact.

    `verify` reads what was written before it takes the place of an earlier file; if it raises, that file stays.
    With `previous`, the file that is replaced is kept under another name, `previous_of(path)`.

    The header holds None, booleans, numbers (infinities and NaN too), strings, and lists and string-keyed
    dicts of these; tuples are read back as lists.
    """
    with whole_file(path, previous) as temporary:
        # Not `save_file` of safetensors, which makes a temporary file of its own and loses the system's error codes.
        temporary.write_bytes(model_bytes(content, arrays, header))
        if verify is not None:
            verify(temporary)


def model_bytes(content: str, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, object]) -> bytes:
    """Return what `write_model` writes to a file."""
    if content not in _CONTENTS:
        raise ValueError(f"content must be one of {sorted(_CONTENTS)}, got {content!r}")
    document = {"version": FORMAT_VERSION, "content": content, "header": _encode(header, "header")}
    text = json.dumps(document, allow_nan=False)
    stored: Arrays = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            raise TypeError(f"array {name!r} must hold booleans or numbers of up to 64 bits, got dtype {array.dtype}")
        # Its memory is written as it is.
        stored[name] = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    # An array, because safetensors writes several entries of metadata in random order.
    stored[_CHECKSUM_KEY] = np.array(_checksum(text, stored), dtype="<u4")
    return save(stored, {_METADATA_KEY: text})


def read_model(path: str | os.PathLike[str], content: str | None = None) -> tuple[dict[str, object], Arrays]:
    """Return the header and the arrays of a model file, which must hold `content` unless that is None.

    Raise ModelFileError if the file cannot be used, or if a bit of it is not as it was written. A missing file is a
    FileNotFoundError. The arrays are the caller's own.
    """
    path = os.fspath(path)
    try:
        check_readable(path)
    except ValueError as error:
        raise ModelFileError(str(error)) from None
    with _errors_of_damage(path):
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
            header = _read_header(path, metadata, content)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        _take_checksum(path, metadata, arrays)
        return header, arrays


def read_model_bytes(data: bytes, content: str) -> tuple[dict[str, object], Arrays]:
    """Return the header and the arrays, the caller's own, of what `model_bytes` returned."""
    with _errors_of_damage("the model"):
        arrays = load(data)
        length = int.from_bytes(data[:8], "little")  # of the layout, which `load` has checked
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__")
        header = _read_header("the model", metadata, content)
        _take_checksum("the model", metadata, arrays)
        return header, arrays


@contextmanager
def _errors_of_damage(name: str) -> Iterator[None]:
    """Raise ModelFileError for every error: hostile bytes cause those of many types, of parser, NumPy and memory."""
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        problem = f"it is damaged, truncated or in another format ({error})"
        raise ModelFileError(f"{name} is not a readable model file; {problem}") from error


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Return whether mahala wrote a file, by its header alone."""
    try:
        with safe_open(path, framework="numpy") as file:
            return _METADATA_KEY in (file.metadata() or {})
    except Exception:  # of many types, see `_errors_of_damage`
        return False


def header_value(header: Mapping[str, object], key: str, *kinds: type[T]) -> T:
    """Return the entry `key` of a header that was read; raise ModelFileError unless it has one of the types `kinds`."""
    value = header.get(key)
    if key not in header or not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        found = repr(value)[:40] if key in header else "nothing"
        wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise ModelFileError(f"header entry {key!r} should be {wanted}, found {found}")
    return value


def array_value(arrays: Arrays, key: str, dtype: DTypeLike, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return the array `key`; raise ModelFileError unless it has this dtype and shape, in which None is any length."""
    if key not in arrays:
        raise ModelFileError(f"array {key!r} is missing")
    array = arrays[key]
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits:
        wanted = "×".join("any" if length is None else str(length) for length in shape)
        found = f"{array.dtype} of shape {'×'.join(map(str, array.shape))}"
        raise ModelFileError(f"array {key!r} should be {np.dtype(dtype)} of shape {wanted}, found {found}")
    return array


def finite_array(arrays: Arrays, key: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the array `key`; raise ModelFileError unless it holds finite float64 numbers in this shape."""
    return finite(array_value(arrays, key, np.float64, shape), key)


def finite(array: NDArray[Any], key: str) -> NDArray[Any]:
    """Return the array; raise ModelFileError if it holds NaN or infinity."""
    if not np.isfinite(array).all():
        raise ModelFileError(f"array {key!r} holds NaN or infinity")
    return array


def check_matrix_shape(arrays: Arrays, shape: tuple[int, int]) -> None:
    """Raise ModelFileError unless the matrix of a model is there and has this shape, before room for it is made."""
    matrix = arrays.get("model.planes", arrays.get("model.M"))
    shown = "none" if matrix is None else f"{matrix.shape[0]} × {matrix.shape[-1]}" if matrix.ndim > 1 else "a vector"
    if shown != f"{shape[0]} × {shape[1]}":
        raise ModelFileError(f"its model should be a matrix of {shape[0]} × {shape[1]} features, found {shown}")


def number_value(header: Mapping[str, object], key: str, least: float = -math.inf) -> float:
    """Return the entry `key`; raise ModelFileError unless it is a finite number of at least `least`."""
    value = float(header_value(header, key, int, float))
    if not math.isfinite(value) or value < least:
        raise ModelFileError(f"header entry {key!r} should be a finite number of at least {least:g}, found {value}")
    return value


def count_value(header: Mapping[str, object], key: str) -> int:
    """Return the entry `key`; raise ModelFileError unless it is an integer from 0 to the largest that is counted."""
    value = header_value(header, key, int)
    if not 0 <= value <= LARGEST_COUNT:
        raise ModelFileError(f"header entry {key!r} should be an integer from 0 to {LARGEST_COUNT}, found {value}")
    return value


def _read_header(path: str, metadata: dict[str, str] | None, content: str | None) -> dict[str, object]:
    if metadata is None or _METADATA_KEY not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not one that mahala wrote")
    try:
        document = json.loads(metadata[_METADATA_KEY], object_hook=_decode, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} has a damaged header ({error})") from error
    if not isinstance(document, dict):
        raise ModelFileError(f"{path} has a damaged header (it is not a JSON object)")
    try:
        version = header_value(document, "version", int)
        if version > FORMAT_VERSION:
            raise ModelFileError(f"its format version {version} is newer than {FORMAT_VERSION}: upgrade mahala")
        kind = header_value(document, "content", str)
        header: dict[str, object] = header_value(document, "header", dict)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be read: {error}") from None
    if kind not in _CONTENTS:
        raise ModelFileError(f"{path} holds {kind[:40]!r}, which is neither a metric nor a learner")
    if content not in (None, kind):
        raise ModelFileError(f"{path} holds a {kind}, not a {content}: read it with mahala.load")
    return header


def _checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> int:
    """Return the checksum of a header and of arrays, with their names, types and shapes."""
    number = zlib.crc32(text.encode())
    for name, array in sorted(arrays.items()):
        number = zlib.crc32(array.data, zlib.crc32(f"{name} {array.dtype.str}{array.shape}".encode(), number))
    return number


def _take_checksum(name: str, metadata: Mapping[str, str], arrays: Arrays) -> None:
    """Remove the checksum from the arrays of a file; raise ModelFileError if it is not theirs."""
    checksum = arrays.pop(_CHECKSUM_KEY, None)
    if checksum is not None and checksum != _checksum(metadata[_METADATA_KEY], arrays):
        raise ModelFileError(f"{name} is damaged: its checksum is not that of its content")


def _encode(value: object, where: str) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_FLOAT_KEY: repr(value)}
    if isinstance(value, list | tuple):
        return [_encode(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == _FLOAT_KEY:
                raise TypeError(f"{where} must have string keys other than {_FLOAT_KEY!r}, got {key!r}")
        return {key: _encode(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise TypeError(f"{where} must be None, a boolean, number, string, list or dict, got {type(value).__name__}")


def _decode(document: dict[str, Any]) -> dict[str, Any] | float:
    if _FLOAT_KEY not in document:
        return document
    text = document[_FLOAT_KEY]
    if len(document) > 1 or text not in _NON_FINITE:
        raise ValueError(f"{_FLOAT_KEY!r} stands for one of {_NON_FINITE} only")
    return float(text)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
