"""Draw arguments, kind and unkind: rows, labels, vectors, comparisons, numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

Rng = np.random.Generator

TAME = (1.0, 1.0, 1.0, 1e-3, 1e3)
SCALES = (1e-5, 1e5, 1e-20, 1e20, 1e-80, 1e30, 1e-155, 1e-160, 1e44, 1e46, 1e61, 1e-300, 1e150, 1e155, 1e-308, 1e307)
NUMBERS = (np.nan, np.inf, -np.inf, -0.0, 5e-324, 2.2e-308, 1.7e308, -1e300, 1e60, 3.4e38, 1e39, 1e-46)
DTYPES = ("f4", "f4", "f2", "g", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "?", ">f8", "O", "c16", "U8", "S8", "M8[D]")
SPARSE = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
ODD = (
    None,
    "X",
    "",
    b"x",
    0,
    1,
    -1,
    2.5,
    np.nan,
    np.inf,
    True,
    (),
    [],
    {},
    [[]],
    [None],
    object,
    np.float64(3),
    {1, 2},
)


def pick(rng: Rng, options: Any) -> Any:
    """One of the options, as it is."""
    return options[int(rng.integers(len(options)))]


def chance(rng: Rng, p: float) -> bool:
    return bool(rng.random() < p)


def array(rng: Rng, *shape: int, wild: float) -> np.ndarray:
    """Numbers in float64; `wild` is the share of arrays with a scale or with values out of the ordinary."""
    kind = int(rng.integers(8))
    X = rng.normal(size=shape)
    if kind == 0:
        X = rng.integers(-1, 2, size=shape).astype(float)
    elif kind == 1 and shape[0]:
        X = X[rng.integers(0, max(1, shape[0] // 3), size=shape[0])]
    elif kind == 2 and len(shape) == 2 and X.size:
        X = X[:, :1] @ X[:1]
    elif kind == 3:
        X[..., :1] = pick(rng, (0.0, 3.0))
    elif kind == 4:
        X[...] = pick(rng, (0.0, 1.0))
    X *= pick(rng, TAME)
    with np.errstate(all="ignore"):
        if chance(rng, wild):
            X *= pick(rng, SCALES)
        if chance(rng, wild / 2) and len(shape) == 2:
            X *= [pick(rng, SCALES + TAME) for _ in range(shape[1])]
        if X.size and chance(rng, wild / 3):
            X.flat[int(rng.integers(X.size))] = pick(rng, NUMBERS)
    return X


def laid_out(rng: Rng, X: np.ndarray) -> np.ndarray:
    """The same values in another memory layout."""
    kind = int(rng.integers(8))
    if kind == 0:
        return np.asfortranarray(X)
    if kind == 1:
        return np.repeat(X, 2, axis=-1)[..., ::2]
    if kind == 2:
        return X[::-1].copy()[::-1]
    if kind == 3:
        X = X.copy()
        X.flags.writeable = False
    elif kind == 4 and X.dtype != object:  # not aligned
        buffer = np.frombuffer(bytearray(b" " + X.tobytes()), dtype=np.uint8)[1:]
        return buffer.view(X.dtype).reshape(X.shape) if X.size else X
    elif kind == 5 and X.shape[0] > 1 and X.ndim > 1:
        return np.broadcast_to(X[:1], X.shape)
    return X


def sparse(rng: Rng, X: np.ndarray, wild: float) -> Any:
    """X, mostly zeros, in one of SciPy's forms; sometimes with duplicates, in no order, or with impossible indices."""
    X = np.where(rng.random(X.shape) < 0.5, X, 0)
    if X.ndim != 2 or X.dtype.kind not in "fiu" or X.dtype.str[1:] in ("f2", "f16") or not X.dtype.isnative:
        X = np.nan_to_num(np.zeros(X.shape[:2]) if X.ndim != 2 or X.dtype.kind not in "fiu" else X.astype(float))
    matrix = sp.csr_array(X)
    kind = int(rng.integers(6))
    if kind == 0 and X.size:
        rows, columns = rng.integers(0, X.shape[0], 6), rng.integers(0, X.shape[1], 6)
        matrix = sp.coo_array((np.resize(X.ravel(), 6), (rows, columns)), shape=X.shape)
        if chance(rng, 0.5):
            order = np.argsort(rows, kind="stable")
            indptr = np.searchsorted(rows[order], np.arange(X.shape[0] + 1))
            return sp.csr_array((matrix.data[order], columns[order], indptr), shape=X.shape)
        return matrix
    if kind == 1:
        matrix = sp.csr_array(
            (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)), shape=X.shape
        )
    if chance(rng, wild / 2) and matrix.nnz:
        bad = pick(rng, (-1, -(10**6), X.shape[1], 10**9, 2**31 - 1))
        part = pick(rng, (matrix.indices, matrix.indptr))
        part[int(rng.integers(len(part)))] = bad
        return matrix
    form = pick(rng, SPARSE)
    return getattr(sp, f"{form}_{pick(rng, ('array', 'matrix'))}")(matrix)


def framed(rng: Rng, X: np.ndarray, wild: float) -> Any:
    """X as a data frame of pandas or polars, sometimes with columns that are no plain numbers."""
    n, d = X.shape
    names: list[Any] = [f"f{j}" for j in range(d)]
    columns = {name: X[:, j] for j, name in enumerate(names)}
    odd = pick(rng, names) if d and chance(rng, wild) else None
    if chance(rng, 0.6):
        if odd is not None:
            words = [pick(rng, ("1", "2.5", "inf", "a")) for _ in range(n)]
            columns[odd] = pick(
                rng,
                (
                    lambda: pd.Categorical(words),
                    lambda: pd.array([None, *range(n)][:n], dtype="Int64"),
                    lambda: pd.array([True, None, *[False] * n][:n], dtype="boolean"),
                    lambda: np.array(words, dtype=object),
                    lambda: pd.array(words, dtype="string"),
                    lambda: pd.date_range("2020-01-01", periods=n),
                    lambda: pd.arrays.SparseArray(X[:, 0]),
                    lambda: np.array([None, *X[:, 0]][:n], dtype=object),
                ),
            )()
        frame = pd.DataFrame(columns)
        if chance(rng, wild / 4):
            frame.columns = pick(rng, (range(d), ["a"] * d, [*names[:-1], 7][:d]))
        return frame
    values: dict[str, Any] = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    if odd is not None:
        values[odd] = pick(rng, ([None, *[1.0] * n][:n], ["a"] * n, [True] * n, [[1.0]] * n))
    return pl.DataFrame(values)


def rows(rng: Rng, n: int, d: int, wild: float) -> Any:
    """A table of n rows, in any form in which a caller may have it."""
    if chance(rng, wild / 10):
        return pick(rng, ODD)
    if chance(rng, wild / 6):
        n, d = int(rng.integers(0, 4)), int(rng.integers(0, 4))
    X = array(rng, n, d, wild=wild)
    form = rng.random()
    if form < 0.35:
        return laid_out(rng, X) if form < 0.2 else X
    if form < 0.5:
        with np.errstate(all="ignore"):
            dtype = pick(rng, DTYPES if chance(rng, wild) else DTYPES[:2])
            X = (np.nan_to_num(X) if dtype[0] in "iuM" else X).astype("i8" if dtype[0] == "M" else dtype).astype(dtype)
        if dtype == "O" and X.size and chance(rng, 0.5):
            X.flat[int(rng.integers(X.size))] = pick(rng, (None, "1", "x", 10**400, 1j, pd.NA))
        return laid_out(rng, X)
    if form < 0.7:
        return sparse(rng, X.astype(np.float32) if chance(rng, 0.2) and np.abs(X).max(initial=0) < 1e38 else X, wild)
    if form < 0.8:
        return framed(rng, X, wild)
    if form < 0.95:
        values: Any = X.tolist()
        if n and d and chance(rng, wild):
            odd = pick(rng, (None, "a", [], "1.5", 10**400, True, 1j))
            values[int(rng.integers(n))][int(rng.integers(d))] = odd
        if n and chance(rng, wild / 3):
            values[0] = pick(rng, (values[0][:-1], None, 3.0, []))
        return tuple(map(tuple, values)) if chance(rng, 0.1) and all(isinstance(v, list) for v in values) else values
    other = pick(rng, ("1-d", "3-d", "0-d", "masked", "matrix", "series"))
    if not chance(rng, wild):
        return X
    if other == "masked":
        return np.ma.masked_array(X, mask=rng.random(X.shape) < 0.2)
    if other == "matrix":
        return np.asmatrix(X)
    if other == "series":
        return pd.Series(X.ravel())
    return X.ravel() if other == "1-d" else X[None] if other == "3-d" else np.array(1.0)


def vector(rng: Rng, d: int, wild: float) -> Any:
    """One row."""
    if chance(rng, wild / 8):
        return pick(rng, ODD)
    x = array(rng, 1, d if not chance(rng, wild / 8) else int(rng.integers(0, 5)), wild=wild)
    form = rng.random()
    if form < 0.4:
        return x[0]
    if form < 0.55:
        return x[0].tolist()
    if form < 0.65:
        return sp.csr_array(np.where(rng.random(x.shape) < 0.5, x, 0.0))
    if form < 0.75:
        with np.errstate(all="ignore"):
            return x[0].astype(np.float32)
    if form < 0.9:
        return laid_out(rng, x)[0]
    return (
        pick(rng, (x[0], x, pd.Series(x[0]), pl.Series(x[0]), [*x[0].tolist()[:-1], None]))
        if chance(rng, wild)
        else x[0]
    )


def classes(rng: Rng, n: int, wild: float) -> Any:
    """Class labels of n rows."""
    if chance(rng, wild / 8):
        return pick(rng, ODD)
    codes = rng.integers(
        0, pick(rng, (2, 2, 3, 4)), size=max(0, n + (pick(rng, (-1, 1)) if chance(rng, wild / 8) else 0))
    )
    if len(codes) > 1 and not chance(rng, wild / 4):
        codes[:2] = 0, 1
    words = np.array(["ash", "elm", "fir", "oak"])[codes]
    kind = int(rng.integers(12))
    if kind < 6:
        return (codes, codes.tolist(), words, words.tolist(), codes == 1, codes.astype(np.float64))[kind]
    if kind == 6:
        return pick(rng, (pd.Series(words), pd.Series(codes, index=codes), pd.Categorical(words), pl.Series(words)))
    if kind == 7:
        return words.astype(object)
    if kind == 8:
        return codes.astype(pick(rng, ("i1", "u8", "f4", "S2", "O", ">i4", "f2", "U3")))
    if not chance(rng, wild):
        return codes - 10
    return pick(
        rng,
        (
            codes + 0.5,
            np.where(codes == 0, np.nan, codes),
            [None, *words[1:].tolist()],
            [float("nan"), *words[1:].tolist()],
            [1, "a", *codes[2:].tolist()],
            codes[:, None],
            np.eye(4, dtype=int)[codes],
            codes * 2**62,
            codes.astype(complex),
            codes.astype("M8[D]"),
            pd.Series(codes, dtype="Int64").where(codes != 0),
            np.ma.masked_array(codes, mask=codes == 0),
            [(1, 2)] * n,
            sp.csr_array(codes[None]),
            [10**30] * n,
            range(n),
        ),
    )


def signs(rng: Rng, n: int, wild: float) -> Any:
    """Labels of n pairs."""
    y = rng.choice([-1, 1], size=n)
    kind = int(rng.integers(6))
    if kind < 5:
        return (y, y.tolist(), y == 1, y.astype(float), y.astype(np.int8))[kind]
    return (
        pick(rng, (None, (y + 1) // 2, y[1:], y * np.nan, y.astype(str), [None] * n, y[:, None]))
        if chance(rng, wild)
        else y
    )


def numbers(rng: Rng, n: int, top: int, wild: float) -> Any:
    """Row numbers below `top`."""
    given = rng.integers(0, max(1, top), size=n)
    if chance(rng, wild):
        return pick(
            rng,
            (
                given - 1,
                given + 1,
                given.astype(float),
                given[:, None],
                given[1:],
                [None] * n,
                given == 1,
                2**63,
                given * 10**9,
            ),
        )
    return given if chance(rng, 0.5) else given.tolist()


def count(rng: Rng, top: int, wild: float) -> Any:
    """A number from 1 to `top`."""
    return (
        pick(rng, (0, -1, top + 1, 2.0, None, "2", True, [1, top], range(1, 3)))
        if chance(rng, wild)
        else int(rng.integers(1, top + 1))
    )
