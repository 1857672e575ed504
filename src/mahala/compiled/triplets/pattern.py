"""Room in a sparse M for every entry that a known stream of triplets can change, reserved in advance."""

import numpy as np

from mahala.compiled.jit import kernel
from mahala.compiled.triplets.block_store import (
    ENTRIES,
    ONE,
    PAYLOAD,
    SIZE_OF,
    SIZES,
    ZERO,
    Store,
    Words,
    count_bits,
    find,
    make_room_in_row,
    table_log,
    word_of,
)
from mahala.compiled.triplets.rows import CSR
from mahala.support.arrays import IntArray

ByAnchor = tuple[IntArray, IntArray, IntArray]  # indptr by row x; positive and negative of the triplets of each row


@kernel
def mark_row(row: int, by_column: CSR, by_anchor: ByAnchor, items: CSR, marked: Words) -> tuple[int, int]:
    """Mark the columns of a row of M that a stream can change, as bits; return the numbers of blocks and of rooms.

    `by_column` lists the rows x with a value in each column.
    """
    marked[:] = ZERO
    indptr, columns, _ = items
    for place in range(by_column[0][row], by_column[0][row + 1]):
        x = by_column[1][place]
        for t in range(by_anchor[0][x], by_anchor[0][x + 1]):
            for item in (by_anchor[1][t], by_anchor[2][t]):
                for k in range(indptr[item], indptr[item + 1]):
                    marked[columns[k] >> 6] |= ONE << np.uint64(columns[k] & 63)
    n_blocks = n_rooms = 0
    for word in marked:
        if word != ZERO:
            n_blocks += 1
            n_rooms += SIZES[SIZE_OF[count_bits(word)]]
    return n_blocks, n_rooms


@kernel
def count_pattern(by_column: CSR, by_anchor: ByAnchor, items: CSR) -> tuple[int, int]:
    """Count the payload entries and table slots needed for everything that a stream can change."""
    marked = np.empty((len(by_column[0]) + 62) // 64, dtype=np.uint64)  # a bit for each column
    rooms = slots = 0
    for row in range(len(by_column[0]) - 1):
        n_blocks, n_rooms = mark_row(row, by_column, by_anchor, items, marked)
        if n_blocks:
            rooms += n_rooms
            slots += 1 << table_log(n_blocks)
    return rooms, slots


@kernel
def reserve(
    by_column: CSR, by_anchor: ByAnchor, items: CSR, store: Store, width: int, initial: tuple[float, float]
) -> None:
    """Store everything that a stream can change, row by row and in the order of the columns.

    Entries that are read together are then close in memory. The store is empty and has room for what `count_pattern`
    counts.
    """
    marked = np.empty((len(by_column[0]) + 62) // 64, dtype=np.uint64)  # a bit for each column
    for row in range(len(by_column[0]) - 1):
        n_blocks, _ = mark_row(row, by_column, by_anchor, items, marked)
        if n_blocks:
            make_room_in_row(store, row, n_blocks)
            store.used[row] = n_blocks
        # Row by row in bulk: insertion takes a tenth of the time of a whole fit longer.
        for block in range(len(marked)):
            if marked[block] == ZERO:
                continue
            slot, base = find(store.table, store.start, store.log, row, block), store.tails[PAYLOAD]
            n_entries = count_bits(marked[block])
            store.tails[ENTRIES] += n_entries
            store.tails[PAYLOAD] += SIZES[SIZE_OF[n_entries]]
            store.table[2 * slot] = marked[block]
            store.table[2 * slot + 1] = word_of(block, base)
            for k in range(base * width, store.tails[PAYLOAD] * width):
                store.payload[k] = 0.0
            bit = ONE << np.uint64(row & 63)
            if row >> 6 == block and marked[block] & bit != ZERO:
                at = (base + count_bits(marked[block] & (bit - ONE))) * width
                store.payload[at] = initial[0]
                if width > 2:
                    store.payload[at + width - 1] = initial[1]
