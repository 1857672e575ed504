"""Damaged files of every kind that a command reads, loaded and used: a documented error, or a result, in bounds.

A mutant may take one second of CPU and a small multiple of its size in memory; one that ends the process has failed.
Mutants that keep the format (other shapes, dtypes, index arrays, headers, words) get deeper than changed bytes do.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import resource
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from sklearn.base import clone

import mahala
import mahala_search
from contract.learners import ALL, REPRESENTATIVES
from mahala.cli.parts.models import load_model
from mahala.cli.parts.tables import open_input, read_items
from mahala.data.datasets import read_data
from mahala.online.online_learner import OnlineLearner
from mahala.stream.input import read_lines
from mahala.stream.stream import Stream
from mahala.support.model_files import read_model, write_model
from mahala.testing import draw
from mahala_search.commands.files import read_collection

from .runner import Failed
from .values import Rng, chance, pick

AMOUNT, SHORT = 100_000, 50
CPU_SECONDS = 1.0
MEMORY = 2**26  # beside sixteen times the file
D = 4

_HEADER = (None, -1, 0, 1, 3, 10**5, 2**28, 2**31, 2**63, 10**40, 1e308, -0.5, "", "x", "auto", [], {}, True, [1] * 50)
_WORDS = [
    *("nan", "inf", "-1", "1e999", "9e18", "2000000000", "100000000", "1_0", "-", "0x1", "1,5", "true", "null"),
    *('"', "'", "=1+1", "é", "1:1", "a:b", ":", "{}", "[[]]"),
    *("", "\x00", "\x1b[2J", "\t", "\n", '{"1": 1}', "[" * 3000, "9" * 5000, "1" * 200_000),
]
_INDICES = (-1, -(10**6), 10**9, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), D, 7)
_DTYPES = ("f4", "f8", "i1", "i4", "i8", "u1", "u8", "?", "f2")


class File(NamedTuple):
    """A whole file: its name, its bytes, the arrays that it consists of, if any, and who reads it."""

    name: str
    data: bytes
    use: Callable[[Path], object]
    parts: tuple[dict[str, Any], dict[str, Any]] | None = None  # header and arrays
    build: Callable[[Path, dict[str, Any], dict[str, Any]], object] | None = None


_FILES: list[File] = []


def n_cases(amount: int) -> int:
    return amount


def prepare(amount: int) -> None:
    """Write a file of every kind, and use each, so that kernels are loaded."""
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    X = rng.normal(size=(24, D)) + np.eye(3, D)[y]
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        for learner in ALL if amount > SHORT else REPRESENTATIVES:
            fitted = clone(learner).fit(X, y)
            _add_model(Path(folder, "model.safetensors"), fitted)
        for metric in (
            mahala.PCA().fit(X).metric_,
            mahala.OASIS(n_triplets=9, storage="sparse").fit(sp.csr_array(X), y).metric_,
            mahala.MahalanobisMetric(np.eye(5), preprocessor=mahala.data.TablePreprocessor().fit(_cells(X, y))),
        ):
            _add_model(Path(folder, "metric.safetensors"), metric)
        adapter = mahala_search.QueryAdapter(random_state=0)
        for at in range(9):
            adapter.learn_one(X[at], X[10:14], [0, 1, 0, 1], query_id=at % 3)
        _add_model(Path(folder, "adapter.safetensors"), adapter)
        stream = Stream(Path(folder, "stream.safetensors"), mahala.OASIS(record=False))
        list(stream.learn(_lines("triplet")))
        stream.save()
        _add_model(Path(folder, "stream.safetensors"), None)
    _add_tables(X, y)
    for file in _FILES:
        if file.name not in ("t.csv", "t.tsv", "t.csv.gz", "t.parquet"):  # which polars reads: see _parquet
            _run(file.use, file.name, file.data)


def _add_model(path: Path, owner: Any) -> None:
    if owner is not None:
        owner.save(path)
    header, arrays = read_model(path)
    content = "metric" if path.stem == "metric" else "learner"
    use = partial(_use_stream, _lines("triplet")) if owner is None else _use_model

    def build(to: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        write_model(to, content, arrays, header)

    _FILES.append(File(path.name, path.read_bytes(), use, (header, arrays), build))


def _add_tables(X: Any, y: Any) -> None:
    rows = [["f0", "f1", "f2", "colour", "y"]]
    rows += [
        [*map(str, row[:3].round(3)), pick(np.random.default_rng(at), ("red", "blue")), f"c{c}"]
        for at, (row, c) in enumerate(zip(X, y, strict=True))
    ]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    table = text.getvalue().encode()
    svm = "".join(
        f"{c} " + " ".join(f"{j + 1}:{value:.3f}" for j, value in enumerate(row) if j != c) + "\n"
        for row, c in zip(X, y, strict=True)
    )
    qrels = "query-id\tcorpus-id\tscore\n" + "".join(
        f"{i}\t{j}\t{(i + j) % 3}\n" for i in range(6) for j in range(0, 24, 5)
    )
    trec = "".join(f"{i} 0 {j} {(i + j) % 3}\n" for i in range(6) for j in range(0, 24, 5))
    sparse = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    csr = {"data": sparse.data, "indices": sparse.indices, "indptr": sparse.indptr, "shape": np.array(sparse.shape)}
    saved = csr | {"format": np.array(b"csr"), "y": y}
    csc = sparse.tocsc()
    saved_csc = {
        "data": csc.data,
        "indices": csc.indices,
        "indptr": csc.indptr,
        "shape": np.array(csc.shape),
        "format": np.array(b"csc"),
        "y": y,
    }
    for name, data in (("t.csv", table), ("t.tsv", table.replace(b",", b"\t")), ("t.csv.gz", gzip.compress(table))):
        _FILES.append(File(name, data, partial(_use_table, "y")))
    for name, data in (("t.svm", svm.encode()), ("t.svm.gz", gzip.compress(svm.encode()))):
        _FILES.append(File(name, data, partial(_use_table, None)))
    for name, data in (
        ("qrels.tsv", qrels.encode()),
        ("qrels.trec", trec.encode()),
        ("q.tsv.gz", gzip.compress(qrels.encode())),
    ):
        _FILES.append(File(name, data, partial(_use_qrels, X)))
    for kind in ("pair", "triplet"):
        for name, pack in (("lines.jsonl", bytes), ("lines.jsonl.gz", gzip.compress)):
            _FILES.append(File(name, pack(b"".join(_lines(kind))), partial(_use_lines, kind)))
    _FILES.append(File("t.parquet", _parquet({"f0": X[:, 0], "f1": X[:, 1], "y": y}), partial(_use_table, "y")))
    ids = np.array([str(at) for at in range(len(X))])
    for arrays, use in (
        ({"X": X, "y": y}, partial(_use_table, None)),
        (csr | {"y": y}, partial(_use_table, None)),
        (saved, partial(_use_table, None)),
        (saved_csc, partial(_use_table, None)),
        (csr, _use_items),
        (saved, _use_items),
        ({"X": X}, _use_items),
        ({"X": X, "id": ids}, _use_vectors),
        (csr, _use_vectors),
    ):
        data = io.BytesIO()
        np.savez(data, **arrays)
        _FILES.append(File("t.npz", data.getvalue(), use, ({}, arrays), _build_npz))
    for use in (_use_items, _use_vectors):
        data = io.BytesIO()
        np.save(data, X)
        _FILES.append(File("t.npy", data.getvalue(), use))


def _parquet(columns: dict[str, Any]) -> bytes:
    """Return a table in Parquet, written by a process of its own: polars has threads, which a fork would lose."""
    with tempfile.NamedTemporaryFile() as file:
        if (pid := os.fork()) == 0:
            pl.DataFrame(columns).write_parquet(file.name)
            os._exit(0)
        os.waitpid(pid, 0)
        return Path(file.name).read_bytes()


def _build_npz(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)


def _lines(kind: str) -> list[bytes]:
    rng, lines = np.random.default_rng(1), []
    for at in range(30):
        a, b, c = rng.normal(size=(3, D)).round(2).tolist()
        if at % 3 == 0 and at:
            a = {str(j): value for j, value in enumerate(a) if j % 2}
        line = {"x": a, "x2": b, "similar": at % 2 == 0}
        if kind == "triplet":
            line = {"query": a, "positive": b, "negative": c}
        lines.append(json.dumps(line | {"id": at}).encode() + b"\n")
    return lines


def _cells(X: Any, y: Any) -> Any:
    """Return a table with a number, a gap and text, which gives five features."""
    numbers = X[:, 0].astype(object)
    numbers[0] = None
    return np.column_stack([numbers, np.array(["a", "b", "c"], dtype=object)[y]])


def _use_model(path: Path) -> None:
    rng = np.random.default_rng(2)
    metric, learner = load_model(path)
    X = rng.normal(size=(9, metric.n_features_in))
    metric.embed(X)
    if metric.preprocessor is not None and metric.preprocessor.n_features_in_ == 2:
        metric.preprocessor.transform(_cells(X, np.arange(9) % 3))
    metric.rank(
        X[0], X if metric.n_item_features == metric.n_features_in else rng.normal(size=(3, metric.n_item_features))
    )
    metric.save(path.with_name("again"))
    if isinstance(learner, mahala_search.QueryAdapter):
        learner.learn_one(X[0], X[1:4], [0, 1, 0], query_id=1)
        learner.embed(X[0], query_id=1)
    elif learner is not None:
        learner.transform(X)
        if isinstance(learner, OnlineLearner) and getattr(learner, "storage", None) != "gram":
            learner.partial_fit(draw(learner, X, np.arange(9) % 3, 5))
    if learner is not None:
        learner.save(path.with_name("again"))


def _use_stream(lines: list[bytes], path: Path) -> None:
    stream = Stream(path)
    list(stream.learn([*lines, lines[1]]))
    stream.save()


def _use_table(label: str | None, path: Path) -> None:
    table = read_data(path, label=label)
    mahala.OASIS(n_triplets=9).fit(table.X, table.labels).transform(table.X[:3])
    known = read_data(path, label=label, n_features=table.X.shape[1])
    if table.X.shape[1] <= 64:
        mahala.MahalanobisMetric.euclidean(table.X.shape[1]).embed(known.X)


def _use_qrels(X: Any, path: Path) -> None:
    np.save(path.with_name("X.npy"), X)
    _, _, judgments, _ = read_collection(path.with_name("X.npy"), path.with_name("X.npy"), path)
    mahala_search.evaluate_ranking(X, X, judgments, n_resamples=20)


def _use_lines(kind: str, path: Path) -> None:
    learner = {"pair": mahala.PA(record=False), "triplet": mahala.OASIS(record=False)}[kind]
    stream = Stream(path.with_name("model"), learner)
    with open_input(path) as file:
        list(stream.learn(read_lines(file)))
    stream.save()


def _use_items(path: Path) -> None:
    stream = Stream(path.with_name("model"), mahala.OASIS(record=False), items=read_items(path))
    list(
        stream.learn(
            [b'{"query": 0, "positive": 1, "negative": 2}\n', b'{"query": 23, "positive": 3, "negative": 5}\n'] * 3
        )
    )
    stream.save()


def _use_vectors(path: Path) -> None:
    vectors, _ = mahala.data.read_vectors(path)
    n = vectors.shape[0]
    mahala_search.evaluate_ranking(vectors, vectors, [(i, (i + 1) % n, 1) for i in range(min(n, 9))], n_resamples=20)


def _bytes(rng: Rng, data: bytes) -> bytes:
    """Flip, overwrite, cut, delete, repeat or insert."""
    own = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, n = int(rng.integers(len(own) + 1)), int(rng.integers(1, 64))
        kind = int(rng.integers(6))
        if kind == 0 and at < len(own):
            own[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            own[at : at + n] = rng.bytes(len(own[at : at + n]))
        elif kind == 2:
            del own[at:]
        elif kind == 3:
            del own[at : at + n]
        elif kind == 4:
            own[at:at] = own[max(0, at - n) : at]
        else:
            own[at:at] = pick(rng, (b"\x00", b"\xff" * 8, b"\n", b"\r", b'"', b"9" * 30))
    return bytes(own)


def _text(rng: Rng, data: bytes) -> bytes:
    """Put hostile words in the place of some."""
    words = re.split(rb"([\w.+-]+)", data)
    for _ in range(int(rng.integers(1, 3))):
        words[int(rng.integers(len(words)))] = pick(rng, _WORDS).encode()
    return b"".join(words)


def _header(rng: Rng, header: Any) -> Any:
    """Change, drop or add one entry, however deep."""
    if isinstance(header, dict) and header and not chance(rng, 0.05):
        key = pick(rng, sorted(header))
        if chance(rng, 0.1):
            return {name: value for name, value in header.items() if name != key}
        return header | {key: _header(rng, header[key])}
    if isinstance(header, list) and header and chance(rng, 0.5):
        at = int(rng.integers(len(header)))
        return [*header[:at], _header(rng, header[at]), *header[at + 1 :]]
    if isinstance(header, int | float) and not isinstance(header, bool) and chance(rng, 0.3):
        return header + pick(rng, (-1, 1, 2**31, 0.5))
    return pick(rng, _HEADER)


def _array(rng: Rng, array: Any) -> Any:
    """Other values, another shape or another dtype."""
    array = np.array(array)
    kind = int(rng.integers(5))
    with np.errstate(all="ignore"):
        if kind == 0:
            return array.astype(pick(rng, _DTYPES)) if array.dtype.kind in "fiub" else np.zeros(3)
        if kind == 1 and array.ndim:
            shapes = (array[:-1], array[None], array.T, array[:0], np.resize(array, array.size + 1), array.ravel()[:1])
            return pick(rng, shapes)
    if not array.size or array.dtype.kind not in "fiu":
        return np.zeros(pick(rng, (0, 1, 5)))
    info: Any = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
    if array.dtype.kind in "iu":
        value: Any = min(max(pick(rng, _INDICES), int(info.min)), int(info.max))
    else:
        value = pick(rng, (np.nan, np.inf, -np.inf, info.max, info.min, info.tiny, 0.0, -1.0, 1e30))
    where = rng.random(array.shape) < 0.3
    if kind == 2:
        where[...] = True
    elif kind == 3:
        where[...] = False
        where.flat[int(rng.integers(array.size))] = True
    elif chance(rng, 0.3):
        return array.ravel()[::-1].reshape(array.shape)
    array[where] = value
    return array


def _mutant(rng: Rng, file: File, path: Path) -> None:
    """Write a damaged copy."""
    if file.parts is not None and file.build is not None and chance(rng, 0.7):
        header, arrays = file.parts
        if header and chance(rng, 0.5):
            header = _header(rng, header)
        else:
            name = pick(rng, sorted(arrays))
            arrays = dict(arrays)
            if chance(rng, 0.1):
                del arrays[name]
            else:
                arrays[name] = _array(rng, arrays[name])
        if isinstance(header, dict):
            file.build(path, header, arrays)
            return
    data, packed = file.data, file.name.endswith(".gz")
    if packed and chance(rng, 0.7):
        data, packed = gzip.decompress(data), False
    text = not packed and re.search(r"csv|tsv|svm|trec|jsonl", file.name) is not None
    data = _text(rng, data) if text and chance(rng, 0.6) else _bytes(rng, data)
    path.write_bytes(gzip.compress(data, 1) if file.name.endswith(".gz") and not packed else data)


def _run(use: Callable[[Path], object], name: str, data: bytes | Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, name)
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            data(path)
        use(path)


def _memory(key: str) -> int:
    return int(re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024  # type: ignore[index]


def run(case: int, seed: int, amount: int) -> int:
    rng = np.random.default_rng([seed, case])
    file = _FILES[case % len(_FILES)]
    allowed = MEMORY + 16 * len(file.data)
    pl.read_csv(b"a\n1\n")  # its threads begin before the limit, which their stacks would exceed on many cores
    Path("/proc/self/clear_refs").write_text("5")  # begins the peak of the memory anew
    before = _memory("VmRSS")
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + 8 * allowed, limit[1]))
    try:
        with np.errstate(all="ignore"):
            _run(file.use, file.name, lambda path: _mutant(rng, file, path))
    except (ValueError, OSError) as error:
        if "allocate" in str(error):
            raise Failed(f"{file.name}: memory was asked for before the file was checked: {error}") from error
    except BaseException as error:
        if isinstance(error, MemoryError) and "more than" in str(error):
            return 1  # refused before it was asked for
        raise Failed(f"{file.name}: {type(error).__name__} is no documented error: {error}") from error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    if _memory("VmHWM") > before + allowed:
        raise Failed(
            f"{file.name}: {len(file.data)} bytes took {(_memory('VmHWM') - before) / 2**20:.0f} MiB of memory"
        )
    return 1
