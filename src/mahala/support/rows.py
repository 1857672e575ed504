"""Blocks of rows, which bound the memory that a computation over many rows takes."""

from __future__ import annotations

from collections.abc import Iterator

# Bytes of the float64 rows that are in work at a time.
BLOCK_BYTES = 2**25


def block_size(width: int, most_bytes: int = BLOCK_BYTES, least: int = 1) -> int:
    """The number of float64 rows of this width that fit into `most_bytes`, and `least` at the least."""
    return max(least, most_bytes // (8 * max(width, 1)))


def row_blocks(n_rows: int, width: int, most_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Slices that cover 0..n_rows-1 in order, each of as many rows as `block_size` allows.

    >>> list(row_blocks(5, width=2, most_bytes=32))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return slices(n_rows, block_size(width, most_bytes))


def slices(n: int, size: int) -> Iterator[slice]:
    """Slices of `size` that cover 0..n-1 in order; the last one may be shorter."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
