from __future__ import annotations

import numpy as np

from compiled.kernel_inputs import store
from mahala.compiled.triplets.block_store import (
    ENTRIES,
    ONE,
    PAYLOAD_IS_FULL,
    TABLE_IS_FULL,
    base_of,
    block_of,
    count_bits,
    count_rooms,
    dump,
    find,
    insert,
    load,
    word_of,
)

INITIAL = (1.0, 0.0)


def dumped(full, width):
    indptr, n = np.zeros(len(full.log) + 1, dtype=np.int64), full.tails[ENTRIES]
    columns, payload = np.empty(n, dtype=np.int32), np.empty(n * width)
    dump(full, width, True, indptr, columns, payload)
    return indptr, columns, payload


def test_words():
    assert count_bits(np.uint64(0)) == 0
    assert count_bits(np.uint64(2**64 - 1)) == 64
    assert count_bits(np.uint64(0b1011 << 60)) == 3
    assert (block_of(word_of(123, 2**39)), base_of(word_of(123, 2**39))) == (123, 2**39)


def test_entries_are_found_where_they_were_put():
    """Random columns in random order against a dictionary; then the same after a dump and a load."""
    rng = np.random.default_rng(0)
    width, n_rows, sparse, entries = 2, 9, store(9), {}
    for value in range(1, 400):
        row, column = int(rng.integers(n_rows)), int(rng.integers(600))
        slot = insert(sparse, row, column >> 6, ONE << np.uint64(column & 63), width, INITIAL)
        assert slot == find(sparse.table, sparse.start, sparse.log, row, column >> 6) >= 0
        bits, base = sparse.table[2 * slot], base_of(sparse.table[2 * slot + 1])
        at = (base + count_bits(bits & ((ONE << np.uint64(column & 63)) - ONE))) * width
        new = (1.0 if column == row else 0.0, 0.0)
        assert tuple(sparse.payload[at : at + width]) == entries.get((row, column), new)
        sparse.payload[at : at + width] = entries[row, column] = (float(value), -float(value))
    assert sparse.tails[ENTRIES] == len(entries)
    indptr, columns, payload = dumped(sparse, width)
    rows = np.repeat(np.arange(n_rows), np.diff(indptr))
    places = zip(rows.tolist(), columns.tolist(), strict=True)
    stored = dict(zip(places, payload.reshape(-1, 2).tolist(), strict=True))
    assert {key: tuple(value) for key, value in stored.items()} == entries

    rooms, slots = count_rooms(indptr, columns)
    again = store(n_rows, (rooms + 1) * width, slots)
    assert load(again, width, indptr, columns, payload)
    for one, other in zip(dumped(again, width), (indptr, columns, payload), strict=True):
        np.testing.assert_array_equal(np.sort(one), np.sort(other))


def test_a_full_store_says_what_is_full_and_is_unchanged():
    wanted = np.uint64(2**40 - 1)
    assert insert(store(2, 16), 0, 0, wanted, 2, INITIAL) == -1 - PAYLOAD_IS_FULL
    tight = store(2, n_slots=2)
    assert insert(tight, 0, 0, wanted, 2, INITIAL) == -1 - TABLE_IS_FULL
    assert tight.tails[ENTRIES] == 0
    assert find(tight.table, tight.start, tight.log, 0, 0) == -1
