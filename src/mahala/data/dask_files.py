"""Read folders of files as tables whose rows are of Dask, so that they need not fit into memory."""

from collections.abc import Sequence
from contextlib import suppress
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np

from mahala.data.tables import Table
from mahala.engine.inputs import as_rows


def read_in_chunks(sources: Sequence[str], *, label: str | None = None, drop: Sequence[str] = ()) -> Table:
    """Return the rows, as an array in chunks, and the labels of files or folders of one kind.

    Parquet files have named columns, all of numbers but the label. A Zarr group holds the arrays X and y, or another
    one that `label` names. A folder of .npy files holds parts of X and of y: X*.npy and y*.npy, in the order of their
    names.
    """
    paths = _paths(sources)
    kinds = {path.suffix.lower() for path in paths}
    if kinds == {".parquet"}:
        return _read_parquet(paths, label, drop)
    if drop:
        raise ValueError(f"drop names columns, which {sources[0]} does not have")
    if kinds == {".zarr"} and len(paths) == 1:
        return _read_zarr(paths[0], label or "y")
    if kinds == {".npy"} and label is None:
        return _read_npy(paths)
    files = f"{sources[0]}{' and others' if len(sources) > 1 else ''}"
    kinds_read = "Parquet files, a .zarr group, or a folder of X*.npy and y*.npy without --label"
    raise ValueError(f"the data must be {kinds_read}, got {files}")


def _paths(sources: Sequence[str]) -> list[Path]:
    paths: list[Path] = []
    for source in sources:
        path = Path(source)
        if has_magic(source) and not path.exists():
            paths += sorted(map(Path, glob(source)))
        elif path.is_dir() and path.suffix.lower() != ".zarr":
            paths += sorted(path.glob("*.parquet")) or sorted(path.glob("*.npy"))
        elif path.exists():
            paths.append(path)
    if not paths:
        raise FileNotFoundError(f"there are no Parquet, Zarr or .npy files at {', '.join(sources)}")
    return paths


def _read_parquet(paths: list[Path], label: str | None, drop: Sequence[str]) -> Table:
    import dask.dataframe as dd

    frame = dd.read_parquet([str(path) for path in paths])
    not_used = [*drop, *([] if label is None else [label])]
    for name in not_used:
        if name not in frame.columns:
            raise ValueError(f"{paths[0]} has no column {name!r}; it has {', '.join(map(str, frame.columns))}")
    rows = frame.drop(columns=not_used)
    text = [str(name) for name, kind in rows.dtypes.items() if getattr(kind, "kind", "O") not in "fiub"]
    if text:
        raise ValueError(f"{paths[0]} has columns that are not numbers: {', '.join(text)}; leave them out with --drop")
    labels = None if label is None else np.asarray(frame[label].compute())
    kind = np.float32 if all(dtype == np.float32 for dtype in rows.dtypes) else np.float64
    return Table(as_rows(rows.astype(kind)), labels, tuple(map(str, rows.columns)))


def _read_zarr(path: Path, label: str) -> Table:
    import dask.array as da

    arrays: dict[str, Any] = {}
    for name in ("X", label):
        with suppress(KeyError, FileNotFoundError):
            arrays[name] = da.from_zarr(str(path), component=name)
    if "X" not in arrays:
        raise ValueError(f"{path} must hold an array X")
    return Table(arrays["X"], np.asarray(arrays[label].compute()) if label in arrays else None, None)


def _read_npy(paths: list[Path]) -> Table:
    from dask import array, delayed

    parts = [path for path in paths if path.name.startswith("X")]
    labels = [np.load(path) for path in paths if path.name.startswith("y")]
    if not parts:
        raise ValueError(f"{paths[0].parent} must hold parts of the rows, X*.npy, and of the labels, y*.npy")
    read = delayed(np.load)
    mapped = [np.load(path, mmap_mode="r") for path in parts]
    rows = [array.from_delayed(read(path), part.shape, part.dtype) for path, part in zip(parts, mapped, strict=True)]
    return Table(array.concatenate(rows), np.concatenate(labels) if labels else None, None)
