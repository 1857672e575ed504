"""A sparse matrix that grows: a few numbers for each entry that was ever stored, whatever the dimension.

A row is a small hash table of blocks of 64 columns. A block has a word that says which of its columns are stored, and
where their payload begins; within a block entries lie packed in the order of their columns, so that one is found by
counting bits. Entry 0 of the payload belongs to nobody and is zero: it stands for all that is not stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

# Numbers of values that a block has room for.
SIZES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
N_SIZES = len(SIZES)
SIZE_OF = np.searchsorted(SIZES, np.arange(65)).astype(np.int64)  # of a number of values
# A row's hash table has 2^k slots; it is doubled when three quarters are taken.
SMALLEST_TABLE = 2
_HASH = 0x9E3779B1  # odd, so that blocks below the size of a table never share a slot
BASE_BITS = np.uint64(40)
BASE_MASK = np.uint64(2**40 - 1)
ONE = np.uint64(1)
ZERO = np.uint64(0)

# Places in `Store.tails`.
PAYLOAD, TABLE, ENTRIES = 0, 1, 2
# What a stream stops for.
DONE, PAYLOAD_IS_FULL, TABLE_IS_FULL = 0, 1, 2


class Store(NamedTuple):
    start: Ints  # of each row's table, in slots
    log: Ints  # of the number of slots of each row's table, -1 for none
    used: Ints  # blocks in each row
    table: Words  # two words a slot: which columns are stored; block number and where its values begin
    payload: Floats  # `width` numbers an entry
    links: NDArray[Any]  # the payload's memory as integers: free room is a linked list for each size
    free: Ints  # where each such list begins, then the same for tables by the log of their size; -1 for nowhere
    tails: Ints  # what of payload (entries) and table (slots) was ever taken, and the number of entries stored


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def count_bits(word: np.uint64) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def find(table: Words, starts: Ints, logs: Ints, row: int, block: int) -> int:
    """The slot of a block of a row, or -1."""
    log = logs[row]
    if log < 0:
        return -1
    start = starts[row]
    last = (np.int64(1) << log) - 1
    place = (block * _HASH) & last
    while True:
        slot = start + place
        if table[2 * slot] == ZERO:
            return -1
        if np.int64(table[2 * slot + 1] >> BASE_BITS) == block:
            return int(slot)
        place = (place + 1) & last


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def place_of_new(store: Store, row: int, block: int) -> int:
    """An empty slot for a block that the row does not have yet."""
    log = store.log[row]
    start = store.start[row]
    last = (np.int64(1) << log) - 1
    place = (block * _HASH) & last
    while store.table[2 * (start + place)] != ZERO:
        place = (place + 1) & last
    return int(start + place)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def make_room_in_row(store: Store, row: int) -> bool:
    """Room for one more block; False where the table is full."""
    log = store.log[row]
    if log >= 0 and 4 * (store.used[row] + 1) <= 3 * (np.int64(1) << log):
        return True
    new_log = SMALLEST_TABLE if log < 0 else log + 1
    size = np.int64(1) << new_log
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
        for slot in range(old_start, old_start + (np.int64(1) << log)):
            if table[2 * slot] != ZERO:
                new = place_of_new(store, row, np.int64(table[2 * slot + 1] >> BASE_BITS))
                table[2 * new], table[2 * new + 1] = table[2 * slot], table[2 * slot + 1]
        table[2 * old_start] = np.uint64(store.free[N_SIZES + log] + 1)
        store.free[N_SIZES + log] = old_start
    return True


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def take_room(store: Store, size: int, width: int) -> int:
    """Where room for SIZES[size] entries begins, or -1 where the payload is full."""
    head = store.free[size]
    if head >= 0:
        store.free[size] = np.int64(store.links[head * width])
        return int(head)
    head = store.tails[PAYLOAD]
    if (head + SIZES[size]) * width > len(store.payload):
        return -1
    store.tails[PAYLOAD] += SIZES[size]
    return int(head)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def give_room(store: Store, size: int, width: int, base: int) -> None:
    store.links[base * width] = store.free[size]
    store.free[size] = base


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def insert(store: Store, row: int, block: int, wanted: np.uint64, width: int, virgin: tuple[float, float]) -> int:
    """Store the `wanted` columns of a block, as they were in the beginning where they are new.

    Returns its slot, or minus one minus what is full: then nothing has changed.
    """
    slot = find(store.table, store.start, store.log, row, block)
    bits = store.table[2 * slot] if slot >= 0 else ZERO
    all_bits = bits | wanted
    if all_bits == bits:
        return int(slot)
    n_old, n_new = count_bits(bits), count_bits(all_bits)
    size = SIZE_OF[n_new]
    old_base = np.int64(store.table[2 * slot + 1] & BASE_MASK) if slot >= 0 else -1
    base = old_base
    if n_old == 0 or SIZE_OF[n_old] != size:
        if n_old == 0 and not make_room_in_row(store, row):
            return -1 - TABLE_IS_FULL
        base = take_room(store, size, width)
        if base < 0:
            return -1 - PAYLOAD_IS_FULL
        if n_old == 0:
            slot = place_of_new(store, row, block)
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
            payload[first] = virgin[0]
            if width > 2:  # harmless where the last number is H: then the virgin sum is 0
                payload[first + width - 1] = virgin[1]
        bits |= bit
        n += 1
    if n_old > 0 and base != old_base:
        give_room(store, SIZE_OF[n_old], width, old_base)
    store.table[2 * slot] = all_bits
    store.table[2 * slot + 1] = (np.uint64(block) << BASE_BITS) | np.uint64(base)
    store.tails[ENTRIES] += n_new - n_old
    return int(slot)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def dump(store: Store, width: int, keep_zeros: bool, indptr: Ints, columns: NDArray[np.int32], payload: Floats) -> None:
    """The stored entries row by row: with empty `columns` only their number, as `indptr`, else all of them.

    Without `keep_zeros` those off the diagonal whose value is zero are left out.
    """
    count_only = len(columns) == 0
    n = 0
    for row in range(len(store.log)):
        n_slots = 0 if store.log[row] < 0 else np.int64(1) << store.log[row]
        for slot in range(store.start[row], store.start[row] + n_slots):
            bits, word = store.table[2 * slot], store.table[2 * slot + 1]
            at = np.int64(word & BASE_MASK) * width
            while bits != ZERO:
                bit = bits & (~bits + ONE)
                bits ^= bit
                column = np.int64(word >> BASE_BITS) * 64 + count_bits(bit - ONE)
                if keep_zeros or store.payload[at] != 0.0 or column == row:
                    if not count_only:
                        columns[n] = column
                        for k in range(width):
                            payload[n * width + k] = store.payload[at + k]
                    n += 1
                at += width
        indptr[row + 1] = n


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def table_log(n_blocks: int) -> int:
    """The size that the table of a row with so many blocks has grown to."""
    log = SMALLEST_TABLE
    while 4 * n_blocks > 3 * (np.int64(1) << log):
        log += 1
    return log


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def count_rooms(indptr: Ints, columns: NDArray[np.int32]) -> tuple[int, int]:
    """Rooms in the payload and slots in the table that entries as `dump` gives them take."""
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
            slots += np.int64(1) << table_log(n_blocks)
    return rooms, slots


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def open_row(store: Store, row: int, n_blocks: int) -> bool:
    """Give a row without a table one for so many blocks; False where there is no room for it."""
    size = np.int64(1) << table_log(n_blocks)
    start = store.tails[TABLE]
    if 2 * (start + size) > len(store.table):
        return False
    store.start[row], store.log[row] = start, table_log(n_blocks)
    store.tails[TABLE] += size
    for slot in range(start, start + size):
        store.table[2 * slot] = ZERO
    return True


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def load(store: Store, width: int, indptr: Ints, columns: NDArray[np.int32], payload: Floats) -> bool:
    """Store entries as `dump` gives them: row by row, and in a row block by block. False where they are not so, and the
    room that `count_rooms` says does not suffice."""
    for row in range(len(indptr) - 1):
        done = indptr[row]
        n_blocks = 0
        for entry in range(done, indptr[row + 1]):
            n_blocks += entry == done or columns[entry] >> 6 != columns[entry - 1] >> 6
        if n_blocks and not open_row(store, row, n_blocks):
            return False
        while done < indptr[row + 1]:
            # Columns of one block come in at once.
            block, wanted, stop = columns[done] >> 6, ZERO, done
            while stop < indptr[row + 1] and columns[stop] >> 6 == block:
                wanted |= ONE << np.uint64(columns[stop] & 63)
                stop += 1
            slot = insert(store, row, block, wanted, width, (0.0, 0.0))
            if slot < 0:
                return False
            bits, base = store.table[2 * slot], np.int64(store.table[2 * slot + 1] & BASE_MASK)
            for entry in range(done, stop):
                bit = ONE << np.uint64(columns[entry] & 63)
                at = (base + count_bits(bits & (bit - ONE))) * width
                for k in range(width):
                    store.payload[at + k] = payload[entry * width + k]
            done = stop
    return True
