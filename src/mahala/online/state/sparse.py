"""A bilinear form of which only what was ever changed is stored: memory grows with that, whatever the dimension."""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mahala.compiled.jit import Steps
from mahala.compiled.triplets import block_store, pattern
from mahala.compiled.triplets import lazy_sparse as kernels
from mahala.compiled.triplets.block_store import ENTRIES, PAYLOAD, PAYLOAD_IS_FULL, Store
from mahala.compiled.triplets.rows import CSR
from mahala.online.state.similarity import SimilarityRule, SimilarityState, TripletChunk, tidy
from mahala.support.arrays import Arrays, BoolArray, IntArray, RealArray, Rows, check_room, memory_limit, slices
from mahala.support.model_files import ModelFileError, array_value
from mahala.support.states import Array, Group
from mahala.support.validation import check_index_arrays

# Room at first, in numbers and in slots: little of it is touched before it is needed.
FIRST_PAYLOAD = 2**20
FIRST_TABLE = 2**18
GROWTH = 1.5
# Entries that are brought to the present at a time.
PART = 2**16


class Entries(NamedTuple):
    """Where the entries of each row begin, the column of each entry, and its numbers."""

    indptr: IntArray
    columns: NDArray[np.int32]
    payload: RealArray


class SparseState(SimilarityState):
    """Features get numbers as they appear, frequent ones first, so that what is read together lies together."""

    FIELDS: ClassVar = (
        Array("features", dtype=np.int64, shape=(None,)),
        Group(
            "entries",
            Array("indptr", dtype=np.int64, shape=(None,)),
            Array("columns", dtype=np.int32, shape=(None,)),
            Array("payload", shape=(None,)),
        ),
    )
    storage = "sparse"

    def __init__(self, shape: tuple[int, int], start: float, rule: SimilarityRule, dtype: DTypeLike) -> None:
        super().__init__(shape, start, rule, dtype)
        self.droppable = rule.late and not rule.adaptive and not rule.average
        what = f"the numbers of {max(shape):,} features", "hash them to fewer"
        check_room(8.0 * max(shape), None, *what)
        try:
            self.numbers = np.full(max(shape), -1, dtype=np.int64)  # of a feature, -1 where it has none yet
        except MemoryError:
            raise MemoryError(f"{what[0]} take more than can be allocated; {what[1]}") from None
        self.features = np.empty(0, dtype=np.int64)  # of a number
        self.has_covariance = rule.r > 0.0
        limit = memory_limit(rule.max_memory) / 8.0  # for each of the two, before it is known which of them grows
        payload, table = limit / self.dtype.itemsize, limit / 16.0
        self.store = self._empty_store(0, int(min(FIRST_PAYLOAD, payload)), int(min(FIRST_TABLE, table)))

    def _empty_store(self, n_rows: int, n_payload: int, n_slots: int) -> Store:
        self._check_links(n_payload)
        payload = np.empty(max(n_payload, 64), dtype=self.dtype)
        payload[: self.layout[0]] = 0.0  # entry 0 stands for all that is not stored
        return Store(
            start=np.zeros(n_rows, dtype=np.int64),
            log=np.full(n_rows, -1, dtype=np.int64),
            used=np.zeros(n_rows, dtype=np.int64),
            table=np.empty(2 * n_slots, dtype=np.uint64),
            payload=payload,
            links=payload.view(np.int32 if self.dtype == np.float32 else np.int64),
            free=np.full(block_store.N_SIZES + 64, -1, dtype=np.int64),
            tails=np.array([1, 0, 0], dtype=np.int64),
        )

    def translate(self, X: Rows) -> CSR:
        rows = tidy(X)
        columns = rows.indices.astype(np.int64)
        new, counts = np.unique(columns[self.numbers[columns] < 0], return_counts=True)
        if len(new):
            self._number(new[np.argsort(-counts, kind="stable")])
        rows.indices = self.numbers[columns].astype(rows.indptr.dtype)  # SciPy 1.13 sorts no other
        rows.has_sorted_indices = False
        rows.sort_indices()
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data

    def _number(self, features: IntArray) -> None:
        """Give numbers to features that have none yet."""
        first, store = len(self.features), self.store
        self.numbers[features] = np.arange(first, first + len(features))
        self.features = np.append(self.features, features)
        # Rows are added by doubling, so that features that come one by one cost O(1) each.
        if len(self.features) > len(store.log):
            extra = max(len(self.features), 2 * len(store.log)) - len(store.log)
            self.store = store._replace(
                start=np.append(store.start, np.zeros(extra, dtype=np.int64)),
                log=np.append(store.log, np.full(extra, -1, dtype=np.int64)),
                used=np.append(store.used, np.zeros(extra, dtype=np.int64)),
            )
            if self.has_covariance:
                self.left, self.right = (np.append(side, np.ones(extra)) for side in (self.left, self.right))

    def reserve(self, chunk: TripletChunk) -> None:
        if self.store.tails[ENTRIES]:  # it starts from a metric, whose entries are laid out
            return
        rows, items, (anchor, positive, negative), _ = chunk
        order = np.argsort(anchor, kind="stable")
        n_rows = len(rows[0]) - 1
        by_anchor = np.searchsorted(anchor[order], np.arange(n_rows + 1)), positive[order], negative[order]
        D = len(self.store.log)
        csc = sp.csr_matrix((rows[2], rows[1], rows[0]), shape=(n_rows, D)).tocsc()
        by_column = csc.indptr.astype(np.int64), csc.indices, csc.data
        rooms, slots = pattern.count_pattern(by_column, by_anchor, items)
        n_payload = (rooms + 1) * self.layout[0]
        what = f"what {len(anchor)} triplets can touch of a matrix of {self.shape[0]} × {self.shape[1]} features"
        less = "raise max_memory, use dtype='float32', fewer triplets or fewer features"
        advice = f"{less}, or feed the triplets through partial_fit, which stores only what changes"
        check_room(n_payload * self.dtype.itemsize + 16.0 * slots, self.max_memory, what, advice)
        self.store = self._empty_store(D, n_payload, slots)
        pattern.reserve(by_column, by_anchor, items, self.store, self.layout[0], self.initial)

    def _stream(self, chunk: TripletChunk, rule: SimilarityRule, steps: Steps) -> tuple[int, int]:
        step, penalty, eta, shrinkage = self.settings(rule)
        stored = self.store, self.layout, self.initial, self.clock
        arguments: Any = *stored, step, penalty, eta, (self.left, self.right), shrinkage, steps
        return kernels.stream(*chunk[:3], *arguments)

    def _settle(self) -> None:
        entries = self._dump()
        for _, numbers, diagonal in self._parts(entries):
            self.bring_to_present(numbers, diagonal)
        self._load(*entries)

    def _parts(self, entries: Entries) -> Iterator[tuple[slice, RealArray, BoolArray]]:
        """Yield parts of the entries, with their numbers by kind, and which of them are on the diagonal."""
        numbers = entries.payload.reshape(-1, self.layout[0]).T
        for part in slices(len(entries.columns), PART):
            rows = np.searchsorted(entries.indptr, np.arange(part.start, part.stop), side="right") - 1
            yield part, numbers[:, part], rows == entries.columns[part]

    def _make_room(self, stuck: int) -> None:
        payload, table = len(self.store.payload), len(self.store.table)
        size, limit = self.dtype.itemsize, memory_limit(self.max_memory)
        if stuck == PAYLOAD_IS_FULL:
            least = payload + 64 * self.layout[0]
            payload = max(least, int(min(GROWTH * payload, (limit - 8.0 * table) / size)))
        else:
            least = table + 8 * int(np.max(self.store.used, initial=1))
            table = max(least, int(min(GROWTH * table, (limit - float(size) * payload) / 8.0)) // 2 * 2)
        needed = float(payload) * size + 8.0 * table
        if needed > limit and self.droppable and self._drop_zeros():
            return
        what = f"the {self.store.tails[ENTRIES]} entries changed so far and more"
        check_room(needed, self.max_memory, what, "raise max_memory, use dtype='float32' or fewer features")
        self._check_links(payload)
        store = self.store
        # In place, where the system can: no second copy of what may be half of the memory.
        for array, length in ((store.payload, payload), (store.table, table)):
            if len(array) != length:
                array.resize(length, refcheck=False)
        self.store = store._replace(links=store.payload.view(store.links.dtype))

    def _check_links(self, n_payload: int) -> None:
        """Free room is linked by numbers as long as those of the payload."""
        if self.dtype == np.float32 and n_payload // self.layout[0] >= 2**31:
            raise MemoryError(f"{n_payload // self.layout[0]} entries are too many for dtype='float32'; use 'float64'")

    def _drop_zeros(self) -> bool:
        """Forget entries that are zero, as what is not stored; returns whether much was gained."""
        before = int(self.store.tails[PAYLOAD])
        self.settle()
        self._load(*self._dump(keep_zeros=False))
        return int(self.store.tails[PAYLOAD]) < 0.8 * before

    def _dump(self, *, keep_zeros: bool = True) -> Entries:
        width, n = self.layout[0], int(self.store.tails[ENTRIES])
        indptr = np.zeros(len(self.store.log) + 1, dtype=np.int64)
        columns, payload = np.empty(n, dtype=np.int32), np.empty(n * width, dtype=self.dtype)
        block_store.dump(self.store, width, keep_zeros, indptr, columns, payload)
        return Entries(indptr, columns[: indptr[-1]], payload[: indptr[-1] * width])

    def _load(
        self, indptr: IntArray, columns: NDArray[np.int32], payload: RealArray, max_memory: float | None = None
    ) -> None:
        """Put entries, row by row, into a new store; what was held before is held again, whatever `max_memory`."""
        width = self.layout[0]
        rooms, slots = block_store.count_rooms(indptr, columns)
        needed = float(rooms + 1) * width * self.dtype.itemsize + 16.0 * slots
        what = f"a matrix with {len(columns)} entries"
        check_room(needed, max_memory, what, "raise max_memory or use dtype='float32'")
        store = self._empty_store(len(indptr) - 1, (rooms + 1) * width, slots)
        if not block_store.load(store, width, indptr, columns, payload):
            raise ValueError("columns must come row by row, and in a row by blocks of 64")
        self.store = store

    def matrix(self) -> Any:
        entries = self._dump()
        values, missing = np.empty(len(entries.columns), dtype=self.dtype), np.ones(min(self.shape), dtype=self.dtype)
        for part, numbers, diagonal in self._parts(entries):
            values[part] = self.present(numbers, diagonal, self.n_averaged)
            missing[self.features[entries.columns[part][diagonal]]] = 0.0
        # A last, empty row stands for the features without a number, which is -1.
        indptr, n_rows = np.append(entries.indptr, len(values)), len(entries.indptr)
        columns = self.features[entries.columns].astype(np.int32)
        M = sp.csr_array((values, columns, indptr), shape=(n_rows, self.shape[1]))[self.numbers[: self.shape[0]]]
        M.eliminate_zeros()
        M.sort_indices()
        untouched = float(self.present(self.untouched(), True, self.n_averaged))
        if not untouched or not missing.any():
            return M
        return sp.csr_array(M + sp.diags_array(untouched * missing, shape=self.shape, format="csr", dtype=self.dtype))

    def add(self, change: Rows, total: Rows) -> None:
        # As the parts of complex numbers the two have one pattern, wherever either has a value.
        both = sp.csr_matrix(change) + 1j * sp.csr_matrix(total) if self.layout[2] else sp.csr_matrix(change)
        counts = np.bincount(both.indices, minlength=len(self.numbers))
        counts[: self.shape[0]] += np.diff(both.indptr)
        used = np.flatnonzero(counts)
        self._number(used[np.argsort(-counts[used], kind="stable")])
        rows = self.features < self.shape[0]
        lengths = np.zeros(len(self.store.log), dtype=np.int64)
        part = both[self.features[rows]]
        lengths[: len(rows)][rows] = np.diff(part.indptr)
        part.indices = self.numbers[part.indices].astype(np.int32)
        part.has_sorted_indices = False
        part.sort_indices()
        diagonal = np.repeat(np.flatnonzero(rows), np.diff(part.indptr)) == part.indices
        payload = np.zeros((part.nnz, self.layout[0]), dtype=self.dtype)
        payload[:, 0] = part.data.real + self.initial[0] * diagonal
        if self.layout[2]:
            payload[:, -1] = part.data.imag + self.initial[1] * diagonal
        self._load(np.append(0, np.cumsum(lengths)), part.indices, payload.ravel(), self.max_memory)

    @property
    def entries(self) -> Entries:
        """What is stored, row by row."""
        return self._dump()

    @entries.setter
    def entries(self, entries: Entries) -> None:
        indptr, columns, payload = entries
        n, width = len(self.features), self.layout[0]
        if len(indptr) - 1 < n or indptr[n] != indptr[-1]:
            raise ModelFileError("array 'indptr' should say where the entries of each row begin")
        check_index_arrays(indptr, columns, len(columns), n)
        if len(payload) != len(columns) * width:
            raise ModelFileError(f"array 'payload' should have {width} numbers for each of {len(columns)} entries")
        used = self.features[np.flatnonzero(np.diff(indptr))]
        if used.max(initial=0) >= self.shape[0] or self.features[columns].max(initial=0) >= self.shape[1]:
            raise ModelFileError(f"there should be no entries outside of a matrix of {self.shape} features")
        self._check_entries(payload.reshape(-1, width).T)
        self._load(*entries)

    def set_state(self, header: dict[str, object], arrays: Arrays) -> None:
        features = array_value(arrays, "features", np.int64, (None,))
        differ = len(np.unique(features)) == len(features)
        if not differ or (len(features) and not 0 <= features.min() <= features.max() < len(self.numbers)):
            raise ModelFileError("array 'features' should hold different features of the model")
        if self.has_covariance:
            self.left, self.right = np.ones((2, max(len(array_value(arrays, "indptr", np.int64, (None,))) - 1, 0)))
        self.numbers[features] = np.arange(len(features))
        super().set_state(header, arrays)

    def __getstate__(self) -> dict[str, object]:
        # The store's arrays are larger than what is in them, and may come back read-only.
        state = self.__dict__.copy()
        state["store"] = self.entries
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        dumped = state.pop("store")
        self.__dict__.update(state)
        self.make_writable("numbers", "left", "right")
        self._load(*dumped)
