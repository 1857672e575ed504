from __future__ import annotations

import json
import math
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from mahala.support import model_files as files
from mahala.support.model_files import (
    FORMAT_VERSION,
    ModelFileError,
    array_value,
    header_value,
    model_bytes,
    read_model,
    read_model_bytes,
    write_model,
)

HEADER = {
    "none": None,
    "flag": True,
    "count": 2**70,
    "name": "Größe \ud800 \x00",
    "tiny": 5e-324,
    "third": 1 / 3,
    "nested": {"list": [1, 2.5, None, {"deep": []}]},
}
ARRAYS = {
    "matrix": np.arange(6.0).reshape(2, 3),
    "numbers": np.array([3, -1], dtype=np.int64),
    "empty": np.zeros((0, 4)),
    "flags": np.array([True, False]),
    "scalar": np.array(2.5),
}


def write_raw(path, document, arrays=ARRAYS):
    """A safetensors file whose mahala header is this text, or this document as JSON."""
    text = document if isinstance(document, str) else json.dumps(document)
    save_file(arrays, path, metadata={"mahala": text})


def test_bytes_are_those_of_the_file_and_are_checked(tmp_path):
    write_model(tmp_path / "model", "metric", ARRAYS, HEADER)
    data = model_bytes("metric", ARRAYS, HEADER)
    assert data == (tmp_path / "model").read_bytes()
    header, arrays = read_model_bytes(data, "metric")
    assert header == HEADER
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)
    arrays["matrix"][0] = 1.0  # the caller's own
    with pytest.raises(ModelFileError, match="holds a metric, not a learner"):
        read_model_bytes(data, "learner")
    for damaged in (b"", data[:40], data[:-1], data[:-1] + bytes([data[-1] ^ 1]), data.replace(b"third", b"thord")):
        with pytest.raises(ModelFileError):
            read_model_bytes(damaged, "metric")


def test_roundtrip_is_exact(tmp_path):
    path = tmp_path / "model"
    write_model(path, "metric", ARRAYS, HEADER)
    header, arrays = read_model(path, "metric")
    assert header == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        np.testing.assert_array_equal(arrays[name], array)
    assert read_model(path)[0] == HEADER  # either content will do


def test_arrays_are_read_as_they_look_not_as_they_lie(tmp_path):
    base = np.arange(24.0).reshape(4, 6)
    arrays = {
        "transposed": base.T,
        "strided": base[::2, ::-1],
        "big": base.astype(">f8"),
        "fortran": np.asfortranarray(base),
    }
    write_model(tmp_path / "m", "metric", arrays, {})
    _, read = read_model(tmp_path / "m")
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text().filter(lambda key: key != "$float"), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(header=st.dictionaries(st.text().filter(lambda key: key != "$float"), json_values, max_size=5))
def test_headers_roundtrip_with_infinities_and_nan(header, tmp_path_factory):
    path = tmp_path_factory.mktemp("header") / "model"
    write_model(path, "learner", {}, header)
    # repr tells -0.0 from 0.0 and holds NaN equal to itself
    assert repr(read_model(path, "learner")[0]) == repr(header)


def test_header_is_plain_json_with_numpy_scalars_as_numbers(tmp_path):
    write_model(tmp_path / "m", "metric", {}, {"C": math.inf, "n": np.int32(3), "x": np.float32(0.5), "t": (1, 2)})
    data = (tmp_path / "m").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    document = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["mahala"], parse_constant=refuse)
    assert document["version"] == FORMAT_VERSION
    assert document["header"] == {"C": {"$float": "inf"}, "n": 3, "x": 0.5, "t": [1, 2]}


@pytest.mark.parametrize(
    ("header", "match"),
    [
        ({"a": {"b": [object()]}}, r"header\['a'\]\['b'\]\[0\].*object"),
        ({"a": {1: 2}}, "string keys"),
        ({"$float": 1}, "string keys other"),
        ({"a": 1j}, "complex"),
    ],
)
def test_writing_refuses_what_json_cannot_hold(tmp_path, header, match):
    with pytest.raises(TypeError, match=match):
        write_model(tmp_path / "m", "metric", {}, header)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("array", [np.array([None]), np.array(["a"]), np.array([1j]), np.zeros(2, dtype=np.longdouble)])
def test_writing_refuses_what_safetensors_cannot_hold(tmp_path, array):
    with pytest.raises(TypeError, match="array 'bad'"):
        write_model(tmp_path / "m", "metric", {"bad": array}, {})


def test_writing_refuses_unknown_content(tmp_path):
    with pytest.raises(ValueError, match="content must be one of"):
        write_model(tmp_path / "m", "table", {}, {})


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_write_leaves_the_old_file_whole(tmp_path, monkeypatch, step):
    path = tmp_path / "model"
    write_model(path, "metric", ARRAYS, {"old": True})

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(KeyboardInterrupt):
        write_model(path, "metric", ARRAYS, {"old": False})
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["model"]
    assert read_model(path)[0] == {"old": True}


def test_writing_replaces_follows_links_and_respects_the_umask(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "model", tmp_path / "link"
    link.symlink_to(target)
    for number in (1, 2):
        write_model(link, "metric", {}, {"number": number})
    assert link.is_symlink()
    assert read_model(target)[0] == {"number": 2}
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask
    assert os.listdir(tmp_path / "real") == ["model"]


def test_missing_files_and_folders_keep_their_own_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        write_model(tmp_path / "none" / "model", "metric", {}, {})
    with pytest.raises(IsADirectoryError):
        read_model(tmp_path)


@pytest.mark.parametrize(("written", "asked"), [("metric", "learner"), ("learner", "metric")])
def test_other_content_is_named_with_its_reader(tmp_path, written, asked):
    write_model(tmp_path / "m", written, {}, {})
    with pytest.raises(ModelFileError, match=f"holds a {written}, not a {asked}: read it with mahala.load"):
        read_model(tmp_path / "m", asked)


GOOD = {"version": 1, "content": "metric", "header": {}}


@pytest.mark.parametrize(
    ("document", "match"),
    [
        (GOOD | {"version": FORMAT_VERSION + 1, "content": 7}, "upgrade mahala"),
        (GOOD | {"version": "1"}, "'version' should be int, found '1'"),
        (GOOD | {"version": True}, "'version' should be int"),
        (GOOD | {"content": ["metric"]}, "'content' should be str"),
        (GOOD | {"content": "table"}, "neither a metric nor a learner"),
        (GOOD | {"header": None}, "'header' should be dict, found None"),
        ({"version": 1, "content": "metric"}, "'header' should be dict, found nothing"),
        ({}, "'version' should be int, found nothing"),
        ([], "not a JSON object"),
        ("", "damaged header"),
        ("{", "damaged header"),
        ("[" * 100_000, "damaged header"),
        ('{"version": ' + "9" * 5000 + "}", "damaged header"),
        ('{"version": NaN}', "NaN is not JSON"),
        (GOOD | {"header": {"C": {"$float": "2"}}}, "float"),
        (GOOD | {"header": {"C": {"$float": ["inf"]}}}, "float"),
        (GOOD | {"header": {"C": {"$float": "inf", "x": 1}}}, "float"),
    ],
)
def test_damaged_headers_are_named_with_their_file(tmp_path, document, match):
    write_raw(tmp_path / "m", document)
    with pytest.raises(ModelFileError, match=match) as caught:
        read_model(tmp_path / "m", "metric")
    assert str(tmp_path / "m") in str(caught.value)


def raw_safetensors(header, data=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


MARK = {"__metadata__": {"mahala": json.dumps(GOOD)}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"abc",
        b"\x00" * 100,
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2**40) + b"{}",
        pickle.dumps({"matrix": np.eye(2)}),
        save({"matrix": np.eye(2)}),
        save({"matrix": np.eye(2)}, {"format": "pt"}),
        raw_safetensors({"__metadata__": {"mahala": 3}}),
        raw_safetensors(MARK | {"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}, b"ab"),
        raw_safetensors(MARK | {"a": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}, b"ab"),
        raw_safetensors(MARK | {"a": {"dtype": "F64", "shape": [0, 2**62], "data_offsets": [0, 0]}}),
        raw_safetensors(MARK | {"a": {"dtype": "F64", "shape": [2**62], "data_offsets": [0, 8]}}, b"\x00" * 8),
        raw_safetensors(MARK | {"a": {"dtype": "F64", "shape": [1] * 100, "data_offsets": [0, 8]}}, b"\x00" * 8),
    ],
)
def test_foreign_and_hostile_files_are_refused(tmp_path, data):
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match="m is "):
        read_model(tmp_path / "m")


def test_nothing_in_a_pickle_runs(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    (tmp_path / "m").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError):
        read_model(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "model"
    write_model(path, "metric", ARRAYS, HEADER)
    return path, path.read_bytes()


def test_every_truncation_is_refused(valid):
    path, data = valid
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="model"):
            read_model(path)


@given(
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4),
    inserted=st.binary(max_size=8),
    place=st.integers(0, 10**6),
)
def test_damaged_bytes_are_refused_or_read(valid, flips, inserted, place):
    path, data = valid
    damaged = bytearray(data)
    for position, change in flips:
        damaged[position % len(damaged)] ^= change
    damaged[place % len(damaged) : place % len(damaged)] = inserted
    path.write_bytes(damaged)
    try:
        header, arrays = read_model(path, "metric")
    except ModelFileError as error:
        message = str(error)
    else:
        assert isinstance(header, dict)
        assert all(isinstance(array, np.ndarray) for array in arrays.values())
        message = str(path)
    assert str(path) in message


@given(data=st.binary(max_size=300), lead=st.booleans())
def test_random_bytes_are_refused(valid, data, lead):
    path, _ = valid
    path.write_bytes(struct.pack("<Q", len(data)) + data if lead else data)
    with pytest.raises(ModelFileError, match="model"):
        read_model(path)


def test_header_and_array_values_are_checked():
    assert header_value({"a": 1}, "a", int) == 1
    assert header_value({"a": None}, "a", float, type(None)) is None
    with pytest.raises(ModelFileError, match="'a' should be float or null, found 'x'"):
        header_value({"a": "x"}, "a", float, type(None))
    with pytest.raises(ModelFileError, match="found nothing"):
        header_value({}, "a", type(None))
    with pytest.raises(ModelFileError, match="'a' should be int, found True"):
        header_value({"a": True}, "a", int)

    arrays = {"a": np.zeros((2, 3))}
    assert array_value(arrays, "a", np.float64, (2, None)) is arrays["a"]
    for dtype, shape in [(np.float32, (2, 3)), (np.float64, (3, 3)), (np.float64, (2,)), (np.float64, (2, 3, None))]:
        with pytest.raises(ModelFileError, match=r"'a' should be float.. of shape .* found float64 of shape 2×3"):
            array_value(arrays, "a", dtype, shape)
    with pytest.raises(ModelFileError, match="'b' is missing"):
        array_value(arrays, "b", np.float64, ())


def test_a_flipped_bit_is_refused_wherever_it_is(tmp_path):
    path = tmp_path / "model"
    write_model(path, "metric", ARRAYS, {"threshold": 1.5})
    whole = path.read_bytes()
    for place in range(8, len(whole)):
        data = bytearray(whole)
        data[place] ^= 1
        path.write_bytes(data)
        try:
            header, arrays = read_model(path)
        except ModelFileError:
            continue
        # Nothing depends on the header's spaces and the checksum's own name.
        assert header == {"threshold": 1.5}
        assert all(np.array_equal(arrays[name], array) for name, array in ARRAYS.items())
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 16]))
    with pytest.raises(ModelFileError, match="is damaged: its checksum"):
        read_model(path)


def test_a_file_without_a_checksum_is_read(tmp_path):
    write_raw(tmp_path / "m", {"version": 1, "content": "metric", "header": {"old": True}})
    header, arrays = read_model(tmp_path / "m")
    assert header == {"old": True}
    np.testing.assert_array_equal(arrays["matrix"], ARRAYS["matrix"])


def test_the_same_model_has_the_same_bytes():
    assert len({model_bytes("metric", dict(sorted(ARRAYS.items(), reverse=i > 4)), HEADER) for i in range(10)}) == 1
