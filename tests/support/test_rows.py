"""Blocks of rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mahala.support.rows import BLOCK_BYTES, block_size, row_blocks, slices


@given(n_rows=st.integers(0, 300), width=st.integers(0, 50), most_bytes=st.integers(0, 5000))
def test_blocks_cover_the_rows_in_order_and_fit(n_rows, width, most_bytes):
    blocks = list(row_blocks(n_rows, width, most_bytes))
    assert [i for block in blocks for i in range(n_rows)[block]] == list(range(n_rows))
    for block in blocks:
        rows = block.stop - block.start
        assert rows == 1 or 8 * rows * width <= most_bytes
    assert all(block.stop - block.start == block_size(width, most_bytes) for block in blocks[:-1])


def test_sizes():
    assert block_size(4) == BLOCK_BYTES // 32
    assert block_size(10**12) == 1
    assert block_size(10**12, least=5) == 5
    assert list(slices(0, 3)) == []
    assert list(slices(4, 3)) == [slice(0, 3), slice(3, 4)]
