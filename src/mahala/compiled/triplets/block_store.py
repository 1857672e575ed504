"""A growing sparse matrix whose memory depends on the number of stored entries, not on the dimension.

A row is a small hash table of blocks of 64 columns. Each block has a word whose bits are the columns stored and another
one that says where their payload begins; the entries of a block are packed in the order of their columns, so that one
is found by counting bits. Entry 0 of the payload belongs to no block and is zero: it stands for all that is not stored.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.compiled.jit import kernel
from mahala.support.arrays import IntArray, RealArray

Words = NDArray[np.uint64]

# Numbers of entries that a block can have room for.
SIZES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
N_SIZES = len(SIZES)
SIZE_OF = np.searchsorted(SIZES, np.arange(65)).astype(np.int64)  # of a number of entries: the index in SIZES
# A row's hash table has 2^k slots; it is doubled when three quarters are taken. This is the smallest k.
SMALLEST_TABLE = 2
_HASH = 0x9E3779B1  # odd, so that the blocks with numbers below the size of a table never share a slot
BASE_BITS = np.uint64(40)
BASE_MASK = np.uint64(2**40 - 1)
ONE = np.uint64(1)
ZERO = np.uint64(0)

# Indices of `Store.tails`.
PAYLOAD, TABLE, ENTRIES = 0, 1, 2
# Reasons why a stream stops.
DONE, PAYLOAD_IS_FULL, TABLE_IS_FULL = 0, 1, 2


class Store(NamedTuple):
    """The arrays of a sparse matrix."""

    start: IntArray  # first slot of each row's table
    log: IntArray  # log2 of the number of slots of each row's table, -1 for none
    used: IntArray  # number of blocks in each row
    table: Words  # two words per slot: the columns stored; the block number and where its payload begins
    payload: RealArray  # `width` numbers per entry
    links: NDArray[Any]  # the payload's memory as integers: free room is a linked list for each size
    free: IntArray  # heads of these lists, then heads of the lists of free tables by the log of their size; -1 for none
    tails: IntArray  # payload (entries) and table (slots) ever taken, and the number of entries stored


@kernel
def block_of(word: np.uint64) -> int:
    """The block number in the second word of a slot."""
    return int(np.int64(word >> BASE_BITS))


@kernel
def base_of(word: np.uint64) -> int:
    """The entry of the payload where a block begins, from the second word of its slot."""
    return int(np.int64(word & BASE_MASK))


@kernel
def word_of(block: int, base: int) -> np.uint64:
    """The second word of a slot."""
    return (np.uint64(block) << BASE_BITS) | np.uint64(base)


@kernel
def count_bits(word: np.uint64) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def find(table: Words, starts: IntArray, logs: IntArray, row: int, block: int) -> int:
    """Return the slot of a block of a row, or the empty one where it would be; -1 if the row has no table."""
    log = logs[row]
    if log < 0:
        return -1
    start = starts[row]
    last = (1 << log) - 1
    place = (block * _HASH) & last
    while table[2 * (start + place)] != ZERO and block_of(table[2 * (start + place) + 1]) != block:
        place = (place + 1) & last
    return int(start + place)


@kernel
def table_log(n_blocks: int) -> int:
    """Return log2 of the number of slots in the table of a row with `n_blocks` blocks."""
    log = SMALLEST_TABLE
    while 4 * n_blocks > 3 * (1 << log):
        log += 1
    return log


@kernel
def make_room_in_row(store: Store, row: int, n_blocks: int) -> bool:
    """Make room for so many blocks in the row's table; return False if the table of all rows is full."""
    log, new_log = store.log[row], table_log(n_blocks)
    if log >= new_log:
        return True
    size = 1 << new_log
    table, head = store.table, N_SIZES + new_log
    if store.free[head] >= 0:
        start = store.free[head]
        store.free[head] = np.int64(table[2 * start]) - 1
    elif 2 * (store.tails[TABLE] + size) <= len(table):
        start = store.tails[TABLE]
        store.tails[TABLE] += size
    else:
        return False
    for slot in range(start, start + size):
        table[2 * slot] = ZERO
    old_start = store.start[row]
    store.start[row], store.log[row] = start, new_log
    if log >= 0:
        for slot in range(old_start, old_start + (1 << log)):
            if table[2 * slot] != ZERO:
                new = find(table, store.start, store.log, row, block_of(table[2 * slot + 1]))
                table[2 * new], table[2 * new + 1] = table[2 * slot], table[2 * slot + 1]
        table[2 * old_start] = np.uint64(store.free[N_SIZES + log] + 1)
        store.free[N_SIZES + log] = old_start
    return True


@kernel
def take_room(store: Store, size: int, width: int) -> int:
    """Return where room for SIZES[size] entries begins, or -1 if the payload is full."""
    head = store.free[size]
    if head >= 0:
        store.free[size] = np.int64(store.links[head * width])
        return int(head)
    head = store.tails[PAYLOAD]
    if (head + SIZES[size]) * width > len(store.payload):
        return -1
    store.tails[PAYLOAD] += SIZES[size]
    return int(head)


@kernel
def give_room(store: Store, size: int, width: int, base: int) -> None:
    """Put room for SIZES[size] entries into the list of free room."""
    store.links[base * width] = store.free[size]
    store.free[size] = base


@kernel
def insert(store: Store, row: int, block: int, wanted: np.uint64, width: int, initial: tuple[float, float]) -> int:
    """Store the `wanted` columns of a block; new entries are zero, or on the diagonal the `initial` values.

    Return the slot of the block, or, with nothing changed, -1 minus the reason: TABLE_IS_FULL or PAYLOAD_IS_FULL.
    """
    slot = find(store.table, store.start, store.log, row, block)
    bits = store.table[2 * slot] if slot >= 0 else ZERO
    all_bits = bits | wanted
    if all_bits == bits:
        return slot
    n_old, n_new = count_bits(bits), count_bits(all_bits)
    size = SIZE_OF[n_new]
    old_base = base_of(store.table[2 * slot + 1]) if n_old else -1
    base = old_base
    if n_old == 0 or SIZE_OF[n_old] != size:
        if n_old == 0 and not make_room_in_row(store, row, store.used[row] + 1):
            return -1 - TABLE_IS_FULL
        base = take_room(store, size, width)
        if base < 0:
            return -1 - PAYLOAD_IS_FULL
        if n_old == 0:
            slot = find(store.table, store.start, store.log, row, block)
            store.used[row] += 1
    payload = store.payload
    if base != old_base:
        for k in range(n_old * width):
            payload[base * width + k] = payload[old_base * width + k]
    new = all_bits & ~bits
    n = n_old
    while new != ZERO:
        bit = new & (~new + ONE)
        new ^= bit
        rank = count_bits(bits & (bit - ONE))
        first = (base + rank) * width
        for k in range((base + n) * width - 1, first - 1, -1):
            payload[k + width] = payload[k]
        for k in range(first, first + width):
            payload[k] = 0.0
        if 64 * block + count_bits(bit - ONE) == row:
            payload[first] = initial[0]
            if width > 2:  # if the last number is H rather than S, the initial sum is 0
                payload[first + width - 1] = initial[1]
        bits |= bit
        n += 1
    if n_old > 0 and base != old_base:
        give_room(store, SIZE_OF[n_old], width, old_base)
    store.table[2 * slot] = all_bits
    store.table[2 * slot + 1] = word_of(block, base)
    store.tails[ENTRIES] += n_new - n_old
    return slot


@kernel
def dump(
    store: Store, width: int, keep_zeros: bool, indptr: IntArray, columns: NDArray[np.int32], payload: RealArray
) -> None:
    """Write the stored entries row by row in the order of their columns.

    Without `keep_zeros`, entries off the diagonal whose value is zero are skipped.
    """
    n = 0
    for row in range(len(store.log)):
        n_slots = 0 if store.log[row] < 0 else 1 << store.log[row]
        first, n_used = store.start[row], 0
        keys = np.empty(n_slots, dtype=np.int64)
        for k in range(n_slots):
            if store.table[2 * (first + k)] != ZERO:
                keys[n_used] = block_of(store.table[2 * (first + k) + 1]) * n_slots + k
                n_used += 1
        keys[:n_used].sort()  # where a block lies depends on when it came
        for key in keys[:n_used]:
            slot = first + key % n_slots
            bits, word = store.table[2 * slot], store.table[2 * slot + 1]
            at = base_of(word) * width
            while bits != ZERO:
                bit = bits & (~bits + ONE)
                bits ^= bit
                column = block_of(word) * 64 + count_bits(bit - ONE)
                if keep_zeros or store.payload[at] != 0.0 or column == row:
                    columns[n] = column
                    for k in range(width):
                        payload[n * width + k] = store.payload[at + k]
                    n += 1
                at += width
        indptr[row + 1] = n


@kernel
def count_rooms(indptr: IntArray, columns: NDArray[np.int32]) -> tuple[int, int]:
    """Count the payload entries and table slots that `load` needs for entries written by `dump`."""
    rooms = slots = 0
    for row in range(len(indptr) - 1):
        n_blocks = n = 0
        for entry in range(indptr[row], indptr[row + 1]):
            if n == 0 or columns[entry] >> 6 != columns[entry - 1] >> 6:
                rooms += SIZES[SIZE_OF[min(n, 64)]] if n else 0
                n_blocks += 1
                n = 0
            n += 1
        rooms += SIZES[SIZE_OF[min(n, 64)]] if n else 0
        if n_blocks:
            slots += 1 << table_log(n_blocks)
    return rooms, slots


@kernel
def load(store: Store, width: int, indptr: IntArray, columns: NDArray[np.int32], payload: RealArray) -> bool:
    """Store entries written by `dump`, row by row and within a row block by block.

    Return False if they come in another order and need more room than `count_rooms` says.
    """
    for row in range(len(indptr) - 1):
        done = indptr[row]
        n_blocks = 0
        for entry in range(done, indptr[row + 1]):
            n_blocks += entry == done or columns[entry] >> 6 != columns[entry - 1] >> 6
        if n_blocks and not make_room_in_row(store, row, n_blocks):
            return False
        while done < indptr[row + 1]:
            # Columns of one block are stored together.
            block, wanted, stop = columns[done] >> 6, ZERO, done
            while stop < indptr[row + 1] and columns[stop] >> 6 == block:
                wanted |= ONE << np.uint64(columns[stop] & 63)
                stop += 1
            slot = insert(store, row, block, wanted, width, (0.0, 0.0))
            if slot < 0:
                return False
            bits, base = store.table[2 * slot], base_of(store.table[2 * slot + 1])
            for entry in range(done, stop):
                bit = ONE << np.uint64(columns[entry] & 63)
                at = (base + count_bits(bits & (bit - ONE))) * width
                for k in range(width):
                    store.payload[at + k] = payload[entry * width + k]
            done = stop
    return True
