"""Streams over triplets where only the entries of M that were ever changed are stored.

A row of M is a small hash table of blocks of 64 columns. A block is a word that says which of its columns are stored
and where their values begin; within a block the values lie packed in column order, so that a value is found by
counting bits. What is not stored is as it was in the beginning: 0, or on the diagonal the `virgin` value.

Of each stored entry the payload holds, in this order: its value m and, where the layout has them, the step `last` at
which it was written, the AdaGrad sum H, and the sum S of the entry over all models so far. Between two touches the
threshold of an entry is constant, so the soft thresholding is applied late, when the entry is next read, and is exact:
before step t it is soft(m, (t - last) θ / σ), with σ = δ + H under AdaGrad, else 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mahala.kernels.triplets import Penalty, Rows, difference, late, late_sum, step_length

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Layout = tuple[int, bool, bool]  # numbers an entry, whether H is one of them, whether S is

# Numbers of values that a block has room for.
SIZES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
N_SIZES = len(SIZES)
_CLASS = np.searchsorted(SIZES, np.arange(65)).astype(np.int64)  # of a number of values
# A row's hash table has 2^k slots; it is doubled when three quarters are taken.
SMALLEST_TABLE = 2
_HASH = 0x9E3779B1  # odd, so that blocks below the size of a table never share a slot
_BASE_BITS = np.uint64(40)
_BASE_MASK = np.uint64(2**40 - 1)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)

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
        if table[2 * slot] == _ZERO:
            return -1
        if np.int64(table[2 * slot + 1] >> _BASE_BITS) == block:
            return int(slot)
        place = (place + 1) & last


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def place_of_new(store: Store, row: int, block: int) -> int:
    """An empty slot for a block that the row does not have yet."""
    log = store.log[row]
    start = store.start[row]
    last = (np.int64(1) << log) - 1
    place = (block * _HASH) & last
    while store.table[2 * (start + place)] != _ZERO:
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
        table[2 * slot] = _ZERO
    old_start = store.start[row]
    store.start[row], store.log[row] = start, new_log
    if log >= 0:
        for slot in range(old_start, old_start + (np.int64(1) << log)):
            if table[2 * slot] != _ZERO:
                new = place_of_new(store, row, np.int64(table[2 * slot + 1] >> _BASE_BITS))
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
    bits = store.table[2 * slot] if slot >= 0 else _ZERO
    all_bits = bits | wanted
    if all_bits == bits:
        return int(slot)
    n_old, n_new = count_bits(bits), count_bits(all_bits)
    size = _CLASS[n_new]
    old_base = np.int64(store.table[2 * slot + 1] & _BASE_MASK) if slot >= 0 else -1
    base = old_base
    if n_old == 0 or _CLASS[n_old] != size:
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
    while new != _ZERO:
        bit = new & (~new + _ONE)
        new ^= bit
        rank = count_bits(bits & (bit - _ONE))
        first = (base + rank) * width
        for k in range((base + n) * width - 1, first - 1, -1):
            payload[k + width] = payload[k]
        for k in range(first, first + width):
            payload[k] = 0.0
        if 64 * block + count_bits(bit - _ONE) == row:
            payload[first] = virgin[0]
            if width > 2:  # harmless where the last number is H: then the virgin sum is 0
                payload[first + width - 1] = virgin[1]
        bits |= bit
        n += 1
    if n_old > 0 and base != old_base:
        give_room(store, _CLASS[n_old], width, old_base)
    store.table[2 * slot] = all_bits
    store.table[2 * slot + 1] = (np.uint64(block) << _BASE_BITS) | np.uint64(base)
    store.tails[ENTRIES] += n_new - n_old
    return int(slot)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def search(columns: Ints, n: int, column: int) -> int:
    """Where a column is among the first n, which are sorted, or -1."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low if low < n and columns[low] == column else -1


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def read(
    payload: Floats,
    layout: Layout,
    penalty: Penalty,
    row: int,
    now: int,
    n: int,
    columns: Ints,
    values: NDArray[np.float64],
    places: Ints,
    column_bits: Words,
    bits: Words,
    bases: Ints,
) -> float:
    """Σ_j M_row,j q_j over the stored entries, without branches, which could not be predicted."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    exempt = row if exempt_diagonal else -1
    inner = 0.0
    if width == 1:
        for j in range(n):
            k = places[j]
            at = bases[k] + count_bits(bits[k] & (column_bits[j] - _ONE))
            # Entry 0 is never given away: it is zero.
            inner += values[j] * payload[at if bits[k] & column_bits[j] != _ZERO else 0]
    elif not adaptive:
        for j in range(n):
            k = places[j]
            at = bases[k] + count_bits(bits[k] & (column_bits[j] - _ONE))
            at = width * (at if bits[k] & column_bits[j] != _ZERO else 0)
            own = 0.0 if columns[j] == exempt else theta
            inner += values[j] * late(payload[at], (now - payload[at + 1]) * own)
    else:
        for j in range(n):
            k = places[j]
            at = bases[k] + count_bits(bits[k] & (column_bits[j] - _ONE))
            at = width * (at if bits[k] & column_bits[j] != _ZERO else 0)
            own = 0.0 if columns[j] == exempt else theta
            inner += values[j] * late(payload[at], (now - payload[at + 1]) * own / (delta + payload[at + 2]))
    return inner


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def stream(
    rows: Rows,
    items: Rows,
    anchors: Ints,
    positives: Ints,
    negatives: Ints,
    store: Store,
    layout: Layout,
    virgin: tuple[float, float],
    clock: int,
    rule: tuple[float, float, float],
    penalty: Penalty,
    eta: float,
    left: Floats,
    right: Floats,
    shrinkage: tuple[float, float],
    p: Floats,
    tau: Floats,
    predicted: NDArray[np.int8],
) -> tuple[int, int]:
    """One step for each triplet; returns the number of steps taken and what made it stop.

    `rule` is (scale, slack, upper) of the step length τ = min(upper, l / (scale s + slack)), s = (xᵀΛx)(qᵀΓq), with the
    diagonals Λ = `left` and Γ = `right`, both I where they are empty. After an update these shrink: Λ⁻¹ grows by
    `shrinkage[0]` (qᵀΓq) x∘x, Γ⁻¹ by `shrinkage[1]` (xᵀΛx) q∘q. `clock` is the number of the first step, and `virgin`
    holds m and S of a diagonal entry that no step has changed, written at step 0.
    """
    width, adaptive, average = layout
    theta, exempt_diagonal, delta = penalty
    indptr, columns, values = rows
    payload, table, starts, logs = store.payload, store.table, store.start, store.log
    n_room, n_blocks_room = 0, 0
    q_columns = q_places = np.empty(0, dtype=np.int64)
    q_values, q_bits = np.empty(0), np.empty(0, dtype=np.uint64)
    blocks = np.empty(0, dtype=np.int64)
    wanted = np.empty(0, dtype=np.uint64)
    found_bits, found_bases = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    for t in range(len(anchors)):
        now = clock + t
        first, stop = indptr[anchors[t]], indptr[anchors[t] + 1]
        room = items[0][positives[t] + 1] - items[0][positives[t]] + items[0][negatives[t] + 1] - items[0][negatives[t]]
        if room > n_room:
            n_room = 2 * room
            q_columns, q_values = np.empty(n_room, dtype=np.int64), np.empty(n_room)
            q_places, q_bits = np.empty(n_room, dtype=np.int64), np.empty(n_room, dtype=np.uint64)
            blocks, wanted = np.empty(n_room, dtype=np.int64), np.empty(n_room, dtype=np.uint64)
        n_q = difference(items, positives[t], negatives[t], q_columns, q_values)
        n_blocks = 0
        for j in range(n_q):
            block = q_columns[j] >> 6
            if n_blocks == 0 or blocks[n_blocks - 1] != block:
                blocks[n_blocks], wanted[n_blocks] = block, _ZERO
                n_blocks += 1
            q_places[j] = n_blocks - 1
            q_bits[j] = _ONE << np.uint64(q_columns[j] & 63)
            wanted[n_blocks - 1] |= q_bits[j]
        if (stop - first) * n_blocks > n_blocks_room:
            n_blocks_room = 2 * (stop - first) * n_blocks
            found_bits = np.empty(n_blocks_room, dtype=np.uint64)
            found_bases = np.empty(n_blocks_room, dtype=np.int64)
        x_norm = q_norm = 0.0
        for i in range(first, stop):
            x_norm += values[i] * values[i] * (left[columns[i]] if len(left) else 1.0)
        for j in range(n_q):
            q_norm += q_values[j] * q_values[j] * (right[q_columns[j]] if len(right) else 1.0)

        score = 0.0
        for i in range(first, stop):
            row = columns[i]
            own_bits = found_bits[(i - first) * n_blocks : (i - first + 1) * n_blocks]
            own_bases = found_bases[(i - first) * n_blocks : (i - first + 1) * n_blocks]
            for k in range(n_blocks):
                slot = find(table, starts, logs, row, blocks[k])
                own_bits[k] = table[2 * slot] if slot >= 0 else _ZERO
                own_bases[k] = np.int64(table[2 * slot + 1] & _BASE_MASK) if slot >= 0 else 0
            inner = read(
                payload, layout, penalty, row, now, n_q, q_columns, q_values, q_places, q_bits, own_bits, own_bases
            )
            j = search(q_columns, n_q, row)
            if j >= 0 and own_bits[q_places[j]] & q_bits[j] == _ZERO:
                inner += q_values[j] * (virgin[0] if exempt_diagonal else late(virgin[0], now * theta / delta))
            score += values[i] * inner

        predicted[t] = 1 if score > 0.0 else -1
        p[t] = 1.0 - score
        tau[t] = step_length(p[t], x_norm * q_norm, rule)
        if tau[t] == 0.0:
            continue
        # Room first: where it is lacking, the step has not been taken.
        for i in range(first, stop):
            for k in range(n_blocks):
                place = (i - first) * n_blocks + k
                if wanted[k] & ~found_bits[place] != _ZERO:
                    slot = insert(store, columns[i], blocks[k], wanted[k], width, virgin)
                    if slot < 0:
                        return t, -1 - slot
                    found_bits[place] = table[2 * slot]
                    found_bases[place] = np.int64(table[2 * slot + 1] & _BASE_MASK)
        for i in range(first, stop):
            row = columns[i]
            own_bits = found_bits[(i - first) * n_blocks : (i - first + 1) * n_blocks]
            own_bases = found_bases[(i - first) * n_blocks : (i - first + 1) * n_blocks]
            exempt = row if exempt_diagonal else -1
            weight = tau[t] * values[i] * (left[row] if len(left) else 1.0)
            for j in range(n_q):
                column, k = q_columns[j], q_places[j]
                at = (own_bases[k] + count_bits(own_bits[k] & (q_bits[j] - _ONE))) * width
                m = np.float64(payload[at])
                change = weight * q_values[j] * (right[column] if len(right) else 1.0)
                if width > 1:
                    steps = now - payload[at + 1]
                    own = 0.0 if column == exempt else theta / (delta + payload[at + 2] if adaptive else 1.0)
                    if average:
                        payload[at + width - 1] += late_sum(m, steps, own)
                    m = late(m, steps * own)
                    payload[at + 1] = now
                    if adaptive:
                        gradient = values[i] * q_values[j]
                        H = np.sqrt(payload[at + 2] * payload[at + 2] + gradient * gradient)
                        payload[at + 2] = H
                        change = eta * gradient / (delta + H)
                payload[at] = m + change
        if len(left):
            for i in range(first, stop):
                row = columns[i]
                left[row] /= 1.0 + shrinkage[0] * q_norm * values[i] * values[i] * left[row]
            for j in range(n_q):
                column = q_columns[j]
                right[column] /= 1.0 + shrinkage[1] * x_norm * q_values[j] * q_values[j] * right[column]
    return len(anchors), DONE


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def mark_row(
    row: int, by_column: Rows, by_anchor: tuple[Ints, Ints, Ints], masks: tuple[Ints, Ints, Words], marked: Words
) -> tuple[int, int, int]:
    """Mark the columns of a row of M that a stream can touch; returns the blocks, entries and rooms that they take.

    `by_column` lists the rows x with a value in each column, `by_anchor` the positive and negative of the triplets of
    each row x, `masks` the blocks that each item has columns in, with a word that says which.
    """
    marked[:] = _ZERO
    first_mask, mask_blocks, mask_words = masks
    for place in range(by_column[0][row], by_column[0][row + 1]):
        x = by_column[1][place]
        for t in range(by_anchor[0][x], by_anchor[0][x + 1]):
            for item in (by_anchor[1][t], by_anchor[2][t]):
                for k in range(first_mask[item], first_mask[item + 1]):
                    marked[mask_blocks[k]] |= mask_words[k]
    n_blocks = n_entries = n_rooms = 0
    for block in range(len(marked)):
        if marked[block] != _ZERO:
            n = count_bits(marked[block])
            n_blocks += 1
            n_entries += n
            n_rooms += SIZES[_CLASS[n]]
    return n_blocks, n_entries, n_rooms


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def table_log(n_blocks: int) -> int:
    """The size that the table of a row with so many blocks has grown to."""
    log = SMALLEST_TABLE
    while 4 * n_blocks > 3 * (np.int64(1) << log):
        log += 1
    return log


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
        log = table_log(n_blocks)
        store.start[row], store.log[row], store.used[row] = store.tails[TABLE], log, n_blocks
        store.tails[TABLE] += np.int64(1) << log
        store.tails[ENTRIES] += n_entries
        for slot in range(store.start[row], store.tails[TABLE]):
            store.table[2 * slot] = _ZERO
        for block in range(n_words):
            if marked[block] == _ZERO:
                continue
            slot, base = place_of_new(store, row, block), store.tails[PAYLOAD]
            store.tails[PAYLOAD] += SIZES[_CLASS[count_bits(marked[block])]]
            store.table[2 * slot] = marked[block]
            store.table[2 * slot + 1] = (np.uint64(block) << _BASE_BITS) | np.uint64(base)
            for k in range(base * width, store.tails[PAYLOAD] * width):
                store.payload[k] = 0.0
            bit = _ONE << np.uint64(row & 63)
            if row >> 6 == block and marked[block] & bit != _ZERO:
                at = (base + count_bits(marked[block] & (bit - _ONE))) * width
                store.payload[at] = virgin[0]
                if width > 2:
                    store.payload[at + width - 1] = virgin[1]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def settle(store: Store, layout: Layout, penalty: Penalty, clock: int) -> None:
    """Bring every entry to where it is before step `clock`, which becomes step 0."""
    width, adaptive, average = layout
    theta, exempt_diagonal, delta = penalty
    payload = store.payload
    for row in range(len(store.log)):
        n_slots = 0 if store.log[row] < 0 else np.int64(1) << store.log[row]
        for slot in range(store.start[row], store.start[row] + n_slots):
            bits, word = store.table[2 * slot], store.table[2 * slot + 1]
            at = np.int64(word & _BASE_MASK) * width
            while bits != _ZERO:
                bit = bits & (~bits + _ONE)
                bits ^= bit
                own = theta / (delta + payload[at + 2] if adaptive else 1.0)
                if exempt_diagonal and np.int64(word >> _BASE_BITS) * 64 + count_bits(bit - _ONE) == row:
                    own = 0.0
                steps = clock - payload[at + 1]
                if average:
                    payload[at + width - 1] += late_sum(payload[at], steps, own)
                payload[at] = late(payload[at], steps * own)
                payload[at + 1] = 0.0
                at += width


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
            at = np.int64(word & _BASE_MASK) * width
            while bits != _ZERO:
                bit = bits & (~bits + _ONE)
                bits ^= bit
                column = np.int64(word >> _BASE_BITS) * 64 + count_bits(bit - _ONE)
                if keep_zeros or store.payload[at] != 0.0 or column == row:
                    if not count_only:
                        columns[n] = column
                        for k in range(width):
                            payload[n * width + k] = store.payload[at + k]
                    n += 1
                at += width
        indptr[row + 1] = n


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def load(
    store: Store, width: int, row: int, done: int, indptr: Ints, columns: NDArray[np.int32], payload: Floats
) -> tuple[int, int, int]:
    """Store entries as `dump` gives them, from entry `done` of `row` on; returns how far it came and what is full."""
    while row < len(indptr) - 1:
        done = max(done, indptr[row])
        while done < indptr[row + 1]:
            # Columns of one block that follow each other come in at once.
            block, wanted, stop = columns[done] >> 6, _ZERO, done
            while stop < indptr[row + 1] and columns[stop] >> 6 == block:
                wanted |= _ONE << np.uint64(columns[stop] & 63)
                stop += 1
            slot = insert(store, row, block, wanted, width, (0.0, 0.0))
            if slot < 0:
                return row, done, -1 - slot
            bits, base = store.table[2 * slot], np.int64(store.table[2 * slot + 1] & _BASE_MASK)
            for entry in range(done, stop):
                bit = _ONE << np.uint64(columns[entry] & 63)
                at = (base + count_bits(bits & (bit - _ONE))) * width
                for k in range(width):
                    store.payload[at + k] = payload[entry * width + k]
            done = stop
        row += 1
    return row, done, DONE


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def export(
    store: Store,
    layout: Layout,
    penalty: Penalty,
    virgin: tuple[float, float],
    clock: int,
    n_averaged: int,
    numbers: Ints,
    features: Ints,
    indptr: Ints,
    indices: NDArray[np.int32],
    data: Floats,
) -> None:
    """M before step `clock` as CSR in the features' own order: with empty `indices` only `indptr`, else all of it.

    With n_averaged > 0 it is the mean of the models so far, so many. `numbers` says which row of the store a feature
    has, or -1, and `features` which feature a row is.
    """
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    n_columns = len(numbers)
    here, there = np.empty(n_columns), np.zeros((n_columns + 63) >> 6, dtype=np.uint64)
    count_only = len(indices) == 0
    diagonal = 0.0 if exempt_diagonal else theta / delta
    untouched = late(virgin[0], clock * diagonal)
    if n_averaged:
        untouched = (virgin[1] + late_sum(virgin[0], clock - 1.0, diagonal)) / n_averaged
    n = 0
    for feature in range(len(indptr) - 1):
        row = numbers[feature]
        if untouched != 0.0:
            here[feature] = untouched
            there[feature >> 6] |= _ONE << np.uint64(feature & 63)
        n_slots = 0 if row < 0 or store.log[row] < 0 else np.int64(1) << store.log[row]
        for slot in range(store.start[row], store.start[row] + n_slots):
            bits, word = store.table[2 * slot], store.table[2 * slot + 1]
            at = np.int64(word & _BASE_MASK) * width
            while bits != _ZERO:
                bit = bits & (~bits + _ONE)
                bits ^= bit
                column = np.int64(word >> _BASE_BITS) * 64 + count_bits(bit - _ONE)
                m = np.float64(store.payload[at])
                if width > 1:
                    own = theta / (delta + store.payload[at + 2] if adaptive else 1.0)
                    if exempt_diagonal and column == row:
                        own = 0.0
                    steps = clock - store.payload[at + 1]
                    if n_averaged:
                        m = (store.payload[at + width - 1] + late_sum(m, steps - 1.0, own)) / n_averaged
                    else:
                        m = late(m, steps * own)
                target = features[column]
                mark = _ONE << np.uint64(target & 63)
                if m != 0.0:
                    here[target] = m
                    there[target >> 6] |= mark
                else:
                    there[target >> 6] &= ~mark
                at += width
        # Words are read in order, so the columns come out sorted.
        for k in range(len(there)):
            bits = there[k]
            if count_only:
                n += count_bits(bits)
            else:
                while bits != _ZERO:
                    bit = bits & (~bits + _ONE)
                    bits ^= bit
                    column = 64 * k + count_bits(bit - _ONE)
                    indices[n], data[n] = column, here[column]
                    n += 1
            there[k] = _ZERO
        indptr[feature + 1] = n
