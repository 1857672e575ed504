"""Streams over triplets in which only the entries of M that were ever changed are stored.

An entry that is not stored has its initial value: 0, or on the diagonal the `initial` value. The payload of a stored
entry holds, in this order: its value m and, if the layout has them, the step `last` at which it was written, the
AdaGrad sum H, in float32 the rest of S, and the sum S of the entry over all models so far. Between two updates the
threshold of an entry is constant, so soft thresholding is deferred until the entry is next read, and is exact: before
step t the entry is soft(m, (t - last) θ / σ), with σ = δ + H under AdaGrad, else 1.
"""

import numpy as np

from mahala.compiled.jit import Steps, kernel
from mahala.compiled.triplets.block_store import DONE, ONE, ZERO, Store, Words, base_of, count_bits, find, insert
from mahala.compiled.triplets.rows import (
    CSR,
    Layout,
    Numbers,
    Penalty,
    StepRule,
    add_to_sum,
    difference,
    late,
    late_sum,
    put,
    rounding,
    shrink,
    step_length,
)
from mahala.support.arrays import FloatArray, IntArray, RealArray


@kernel
def search(columns: IntArray, n: int, column: int) -> int:
    """Return the index of a column among the first n, which are sorted, or -1."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low if low < n and columns[low] == column else -1


@kernel
def read(
    payload: RealArray,
    layout: Layout,
    penalty: Penalty,
    row: int,
    now: int,
    n: int,
    columns: IntArray,
    values: FloatArray,
    places: IntArray,
    column_bits: Words,
    bits: Words,
    bases: IntArray,
) -> float:
    """Return Σ_j M_row,j q_j over the stored entries, without branches, which could not be predicted."""
    width, adaptive, _ = layout
    theta, exempt_diagonal, delta = penalty
    exempt = row if exempt_diagonal else -1
    inner = 0.0
    for j in range(n):
        k = places[j]
        at = bases[k] + count_bits(bits[k] & (column_bits[j] - ONE))
        # Entry 0 belongs to no block and is zero.
        at = width * (at if bits[k] & column_bits[j] != ZERO else 0)
        value = float(payload[at])
        if width > 1:
            threshold = 0.0 if columns[j] == exempt else theta
            if adaptive:
                threshold /= delta + payload[at + 2]
            value = late(value, (now - payload[at + 1]) * threshold)
        inner += values[j] * value
    return inner


@kernel
def stream(
    rows: CSR,
    items: CSR,
    triplets: Numbers,
    store: Store,
    layout: Layout,
    initial: tuple[float, float],
    clock: int,
    rule: StepRule,
    penalty: Penalty,
    eta: float,
    variances: tuple[RealArray, RealArray],
    shrinkage: tuple[float, float],
    steps: Steps,
) -> tuple[int, int]:
    """Take one step for each triplet; return the number of steps taken and the reason to stop.

    `rule` begins with (scale, slack, upper) of the step length τ = min(upper, l / (scale s + slack)), s =
    (xᵀΛx)(qᵀΓq), with the `variances` as the diagonals of Λ and Γ, both I if they are empty. After an update these
    shrink: Λ⁻¹ grows by `shrinkage[0]` (qᵀΓq) x∘x, Γ⁻¹ by `shrinkage[1]` (xᵀΛx) q∘q. `clock` is the number of the first
    step, and `initial` holds m and S of a diagonal entry that no step has changed, written at step 0.
    """
    width, adaptive, average = layout
    theta, exempt_diagonal, delta = penalty
    (indptr, columns, values), (anchors, positives, negatives) = rows, triplets
    (left, right), (p, tau, predicted) = variances, steps
    payload, table, starts, logs = store.payload, store.table, store.start, store.log
    n_room, n_blocks_room = 0, 0
    q_columns = q_places = np.empty(0, dtype=np.int64)
    q_values, q_bits = np.empty(0), np.empty(0, dtype=np.uint64)
    blocks = np.empty(0, dtype=np.int64)
    wanted = np.empty(0, dtype=np.uint64)
    all_bits, all_bases = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
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
                blocks[n_blocks], wanted[n_blocks] = block, ZERO
                n_blocks += 1
            q_places[j] = n_blocks - 1
            q_bits[j] = ONE << np.uint64(q_columns[j] & 63)
            wanted[n_blocks - 1] |= q_bits[j]
        if (stop - first) * n_blocks > n_blocks_room:
            n_blocks_room = 2 * (stop - first) * n_blocks
            all_bits = np.empty(n_blocks_room, dtype=np.uint64)
            all_bases = np.empty(n_blocks_room, dtype=np.int64)
        x_norm = q_norm = 0.0
        for i in range(first, stop):
            x_norm += values[i] * values[i] * (left[columns[i]] if len(left) else 1.0)
        for j in range(n_q):
            q_norm += q_values[j] * q_values[j] * (right[q_columns[j]] if len(right) else 1.0)

        score = 0.0
        for i in range(first, stop):
            row = columns[i]
            row_bits = all_bits[(i - first) * n_blocks : (i - first + 1) * n_blocks]
            row_bases = all_bases[(i - first) * n_blocks : (i - first + 1) * n_blocks]
            for k in range(n_blocks):
                slot = find(table, starts, logs, row, blocks[k])
                row_bits[k] = table[2 * slot] if slot >= 0 else ZERO
                row_bases[k] = base_of(table[2 * slot + 1]) if slot >= 0 else 0
            inner = read(
                payload, layout, penalty, row, now, n_q, q_columns, q_values, q_places, q_bits, row_bits, row_bases
            )
            j = search(q_columns, n_q, row)
            if j >= 0 and row_bits[q_places[j]] & q_bits[j] == ZERO:
                inner += q_values[j] * (initial[0] if exempt_diagonal else late(initial[0], now * theta / delta))
            score += values[i] * inner

        predicted[t] = 1 if score > 0.0 else -1
        p[t] = rule[4] - score
        tau[t] = step_length(p[t], x_norm * q_norm, rule)
        if tau[t] == 0.0:
            continue
        # Make room first: if there is none, the step has not been taken.
        for i in range(first, stop):
            for k in range(n_blocks):
                place = (i - first) * n_blocks + k
                if wanted[k] & ~all_bits[place] != ZERO:
                    slot = insert(store, columns[i], blocks[k], wanted[k], width, initial)
                    if slot < 0:
                        return t, -1 - slot
                    all_bits[place] = table[2 * slot]
                    all_bases[place] = base_of(table[2 * slot + 1])
        noise = rounding(now)
        for i in range(first, stop):
            row = columns[i]
            row_bits = all_bits[(i - first) * n_blocks : (i - first + 1) * n_blocks]
            row_bases = all_bases[(i - first) * n_blocks : (i - first + 1) * n_blocks]
            exempt = row if exempt_diagonal else -1
            weight = tau[t] * values[i] * (left[row] if len(left) else 1.0)
            for j in range(n_q):
                column, k = q_columns[j], q_places[j]
                at = (row_bases[k] + count_bits(row_bits[k] & (q_bits[j] - ONE))) * width
                m: float = np.float64(payload[at])
                change = weight * q_values[j] * (right[column] if len(right) else 1.0)
                if width > 1:
                    late_steps = now - payload[at + 1]
                    threshold = 0.0 if column == exempt else theta / (delta + payload[at + 2] if adaptive else 1.0)
                    if average:
                        add_to_sum(payload, at + width - 1, payload, at + width - 2, late_sum(m, late_steps, threshold))
                    m = late(m, late_steps * threshold)
                    payload[at + 1] = now
                    if adaptive:
                        gradient = values[i] * q_values[j]
                        H = np.sqrt(np.float64(payload[at + 2]) * payload[at + 2] + gradient * gradient)
                        put(payload, at + 2, H, noise)
                        change = eta * gradient / (delta + H)
                if len(left):
                    put(payload, at, m + change, noise)
                else:
                    payload[at] = m + change
        if len(left):
            shrink(columns, values, first, stop, left, shrinkage[0] * q_norm)
            shrink(q_columns, q_values, 0, n_q, right, shrinkage[1] * x_norm)
    return len(anchors), DONE
