"""What a known stream of triplets can touch of a sparse M, and room for all of it ahead."""

from __future__ import annotations

import numpy as np
from numba import njit

from mahala.compiled.block_store import (
    BASE_BITS,
    ENTRIES,
    ONE,
    PAYLOAD,
    SIZE_OF,
    SIZES,
    ZERO,
    Store,
    Words,
    count_bits,
    open_row,
    place_of_new,
    table_log,
)
from mahala.compiled.triplets import Ints, Rows


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def mark_row(
    row: int, by_column: Rows, by_anchor: tuple[Ints, Ints, Ints], masks: tuple[Ints, Ints, Words], marked: Words
) -> tuple[int, int, int]:
    """Mark the columns of a row of M that a stream can touch; returns the blocks, entries and rooms that they take.

    `by_column` lists the rows x with a value in each column, `by_anchor` the positive and negative of the triplets of
    each row x, `masks` the blocks that each item has columns in, with a word that says which.
    """
    marked[:] = ZERO
    first_mask, mask_blocks, mask_words = masks
    for place in range(by_column[0][row], by_column[0][row + 1]):
        x = by_column[1][place]
        for t in range(by_anchor[0][x], by_anchor[0][x + 1]):
            for item in (by_anchor[1][t], by_anchor[2][t]):
                for k in range(first_mask[item], first_mask[item + 1]):
                    marked[mask_blocks[k]] |= mask_words[k]
    n_blocks = n_entries = n_rooms = 0
    for block in range(len(marked)):
        if marked[block] != ZERO:
            n = count_bits(marked[block])
            n_blocks += 1
            n_entries += n
            n_rooms += SIZES[SIZE_OF[n]]
    return n_blocks, n_entries, n_rooms


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def count_pattern(
    by_column: Rows, by_anchor: tuple[Ints, Ints, Ints], masks: tuple[Ints, Ints, Words], n_words: int
) -> tuple[int, int]:
    """Rooms in the payload and slots in the table that everything takes that a stream can touch."""
    marked = np.empty(n_words, dtype=np.uint64)
    rooms = slots = 0
    for row in range(len(by_column[0]) - 1):
        n_blocks, _, n_rooms = mark_row(row, by_column, by_anchor, masks, marked)
        if n_blocks:
            rooms += n_rooms
            slots += np.int64(1) << table_log(n_blocks)
    return rooms, slots


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def reserve(
    by_column: Rows,
    by_anchor: tuple[Ints, Ints, Ints],
    masks: tuple[Ints, Ints, Words],
    n_words: int,
    store: Store,
    width: int,
    virgin: tuple[float, float],
) -> None:
    """Store everything that a stream can touch, row by row and in the order of the columns: what is read together then
    lies together. The store is empty and has the room that `count_pattern` says."""
    marked = np.empty(n_words, dtype=np.uint64)
    for row in range(len(by_column[0]) - 1):
        n_blocks, n_entries, _ = mark_row(row, by_column, by_anchor, masks, marked)
        if n_blocks == 0:
            continue
        open_row(store, row, n_blocks)
        store.used[row] = n_blocks
        store.tails[ENTRIES] += n_entries
        for block in range(n_words):
            if marked[block] == ZERO:
                continue
            slot, base = place_of_new(store, row, block), store.tails[PAYLOAD]
            store.tails[PAYLOAD] += SIZES[SIZE_OF[count_bits(marked[block])]]
            store.table[2 * slot] = marked[block]
            store.table[2 * slot + 1] = (np.uint64(block) << BASE_BITS) | np.uint64(base)
            for k in range(base * width, store.tails[PAYLOAD] * width):
                store.payload[k] = 0.0
            bit = ONE << np.uint64(row & 63)
            if row >> 6 == block and marked[block] & bit != ZERO:
                at = (base + count_bits(marked[block] & (bit - ONE))) * width
                store.payload[at] = virgin[0]
                if width > 2:
                    store.payload[at + width - 1] = virgin[1]
