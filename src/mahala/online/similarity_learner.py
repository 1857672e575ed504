"""What the online learners of a bilinear similarity share: which storage serves, feeding triplets, state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from mahala.comparisons import Triplets
from mahala.compiled.triplets import LARGEST_CHANGE
from mahala.learner import CHUNK_ELEMENTS, Arrays
from mahala.metric import BilinearMetric, Metric
from mahala.online.online_learner import OnlineLearner
from mahala.online.storage.dense_model import DenseModel, dense_bytes
from mahala.online.storage.gram import fit_gram, gram_is_cheaper
from mahala.online.storage.similarity_model import Rule, SimilarityModel, Steps
from mahala.online.storage.sparse_model import SparseModel
from mahala.support.memory import memory_limit
from mahala.support.model_files import ModelFileError, header_value
from mahala.support.params import is_number
from mahala.support.signals import uninterrupted
from mahala.support.validation import check_row, check_rows, is_sparse
from mahala.triplet_learner import TripletLearner

Storage = Literal["auto", "dense", "sparse", "gram"]

# Up to this many bytes a full matrix is held where nothing is known of the stream; beyond them touched entries only.
SMALL_MATRIX = 2**28
LARGE_MATRIX = 2**31
# Entries of M read or written between two looks for Ctrl-C: about a second.
CHUNK_TOUCHES = 2**25
# From this share of zeros on, a full M that is not small is given out as a sparse matrix, which takes less memory.
SPARSE_SHARE = 2 / 3
SMALL = 2**16
# Longer steps than this are no steps but mistakes.
LONGEST_STEP = 1e20
# What cannot change while a stream runs.
FIXED = ("init", "average", "storage", "dtype", "penalty", "covariance")


class SimilarityLearner(TripletLearner, OnlineLearner):
    """A learner of M in S(x, x') = xᵀ M x' that takes triplets as they come."""

    init: Any
    average: bool
    storage: Storage
    dtype: Literal["float64", "float32"]
    max_memory: float | None

    _model: SimilarityModel

    @abstractmethod
    def _rule(self) -> Rule: ...

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from labelled rows (X 2-D, y class labels) or from triplets (Triplets, or X 3-D)."""
        self._check_params()
        with self._all_or_nothing():
            triplets, _ = self._comparisons(X, y, reset=True)
            storage = self._storage_for(triplets)
            if storage != "gram":
                self._start_in(storage)
                self._feed(triplets, known=True)
                return self
            self._start_in(self._final_storage(triplets))
            rule, start = self._rule(), self._model.virgin[0]
            sparse = isinstance(self._model, SparseModel)
            change, total, steps = fit_gram(triplets, start, rule, sparse, self.max_memory)
            self._model.clock = self._model.n_steps = len(triplets)
            self._model.settle()
            self._model.add(change, total)
            self._note(np.ones(len(triplets), dtype=np.int8), steps)
        return self

    def learn_one(self, x: Any, positive: Any, negative: Any) -> bool:
        """Learn that x is more similar to `positive` than to `negative`; returns whether that was predicted."""
        rows = {name: _one_row(row, name) for name, row in (("x", x), ("positive", positive), ("negative", negative))}
        widths = {name: row.shape[1] for name, row in rows.items()}
        if widths["positive"] != widths["negative"]:
            raise ValueError(
                f"positive has {widths['positive']} features and negative {widths['negative']}; they must have the same"
            )
        number = np.arange(3)
        if widths["x"] == widths["positive"]:
            triplet = Triplets._build(_stack(*rows.values()), number[:1], number[1:2], number[2:])
        else:
            items = _stack(rows["positive"], rows["negative"])
            triplet = Triplets._build(rows["x"], number[:1], number[:1], number[1:2], items=items)
        before = self.n_mistakes_ if hasattr(self, "n_steps_") else 0
        self.partial_fit(triplet)
        return self.n_mistakes_ == before

    def _check_params(self) -> None:
        if not isinstance(self.init, Metric) and not (isinstance(self.init, str) and self.init in ("identity", "zero")):
            raise ValueError(f"init must be 'identity', 'zero' or a bilinear Metric, got {self.init!r}")
        if not isinstance(self.average, bool | np.bool_):
            raise ValueError(f"average must be True or False, got {self.average!r}")
        if self.storage not in ("auto", "dense", "sparse", "gram"):
            raise ValueError(f"storage must be 'auto', 'dense', 'sparse' or 'gram', got {self.storage!r}")
        if not isinstance(self.dtype, str) or self.dtype not in ("float64", "float32"):
            raise ValueError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}")
        if self.max_memory is not None and not (is_number(self.max_memory) and self.max_memory > 0):
            raise ValueError(f"max_memory must be None or a positive number of bytes, got {self.max_memory!r}")
        if self.storage == "gram" and not self._can_be_gram():
            raise ValueError(
                "storage='gram' is for steps along x qᵀ without thresholds or covariances, from init='identity' or "
                f"'zero' and in float64; {type(self).__name__} as it is set needs storage 'dense' or 'sparse'"
            )

    def _can_be_gram(self) -> bool:
        rule = self._rule()
        plain = not rule.late and not rule.adaptive and rule.r == 0.0
        return plain and not isinstance(self.init, Metric) and self.dtype == "float64"

    def _check_open(self, method: str) -> None:
        super()._check_open(method)
        if self.storage == "gram":
            raise ValueError(
                f"storage='gram' holds the rows that were there from the start: {method} cannot bring new ones; "
                "use fit, or another storage"
            )

    def _storage_for(self, triplets: Triplets) -> str:
        """The cheapest way to run through triplets that are known ahead."""
        if self.storage == "gram" and triplets.items is not None:
            raise ValueError("storage='gram' needs anchors and items from one X; use storage 'dense' or 'sparse'")
        if self.storage != "auto":
            return self.storage
        storage = self._final_storage(triplets)
        can_be_gram = storage == "dense" and triplets.items is None and self._can_be_gram()
        return "gram" if can_be_gram and gram_is_cheaper(triplets, self.max_memory) else storage

    def _final_storage(self, triplets: Triplets) -> str:
        shape = triplets.n_features, triplets.n_item_features
        if self.storage in ("dense", "sparse"):
            return self.storage
        touched = len(triplets) * _touches(triplets) / (float(shape[0]) * shape[1])
        return self._auto_storage(shape, LARGE_MATRIX if touched > 1.0 else SMALL_MATRIX)

    def _auto_storage(self, shape: tuple[int, int], most: float) -> str:
        """A full matrix of up to `most` bytes, else a sparse one."""
        size = dense_bytes(shape, self._rule(), self.dtype)
        return "dense" if size <= min(most, memory_limit(self.max_memory)) else "sparse"

    def _start(self) -> None:
        auto = self._auto_storage((self.n_features_in_, self.n_item_features_), SMALL_MATRIX)
        self._start_in(self.storage if self.storage in ("dense", "sparse") else auto)

    def _start_from(self, header: dict[str, Any]) -> None:
        self.n_item_features_ = header_value(header, "n_item_features", int)
        if min(self.n_features_in_, self.n_item_features_) < 1:
            raise ModelFileError("header entries 'n_features_in' and 'n_item_features' should be at least 1")
        storage = header_value(header, "storage", str)
        if storage not in ("dense", "sparse"):
            raise ModelFileError(f"header entry 'storage' should be 'dense' or 'sparse', found {storage[:40]!r}")
        self._check_shape()
        self._model = self._make_model(storage)
        self._forget(*FIXED)

    def _check_shape(self) -> None:
        d, e = self.n_features_in_, self.n_item_features_
        if d != e and isinstance(self.init, str) and self.init == "identity":
            raise ValueError(
                f"init='identity' needs queries and items of the same features, got {d} and {e}; use init='zero'"
            )
        if d != e and self._rule().exempt_diagonal:
            raise ValueError(
                f"penalty='offdiagonal' needs queries and items of the same features, got {d} and {e}; use penalty='l1'"
            )

    def _start_in(self, storage: str) -> None:
        self._check_shape()
        self._model = self._make_model(storage)
        if isinstance(self.init, Metric):
            shape = self.n_features_in_, self.n_item_features_
            if not isinstance(self.init, BilinearMetric) or self.init.matrix.shape != shape:
                raise ValueError(f"init must be a bilinear Metric of shape {shape}, got {self.init!r}")
            if abs(self.init.matrix).max() > LARGEST_CHANGE:
                raise ValueError(f"init must have entries up to {LARGEST_CHANGE:g}: products with larger ones overflow")
            self._model.add(self.init.matrix, self.init.matrix)
        self._forget(*FIXED)

    def _make_model(self, storage: str) -> SimilarityModel:
        shape = self.n_features_in_, self.n_item_features_
        kind = DenseModel if storage == "dense" else SparseModel
        return kind(shape, self._start_value(), self._rule(), self.dtype, self.max_memory)

    def _start_value(self) -> float:
        """The diagonal of M before the first step, unless a Metric is given."""
        return 1.0 if isinstance(self.init, str) and self.init == "identity" else 0.0

    def _feed(self, triplets: Triplets, *, known: bool = False) -> None:
        """Learn from each triplet once. Where the stream is `known` to end with them, room is made ahead."""
        self._model.max_memory = self.max_memory
        for part in self._chunks(triplets):
            with uninterrupted():  # new features are numbered here
                rows, items, numbers = self._translated(part)
            whole = len(part) == len(triplets) and not isinstance(self.init, Metric)
            if known and whole and isinstance(self._model, SparseModel):
                self._model.reserve(rows, items, numbers)
            size = max(1, int(CHUNK_TOUCHES / max(1.0, self._model.cost(_touches(part)))))
            for start in range(0, len(part), size):
                own = tuple(column[start : start + size] for column in numbers)
                n = len(own[0])
                steps: Steps = np.empty(n), np.empty(n), np.empty(n, dtype=np.int8)
                with uninterrupted():
                    before = self._model.n_steps
                    try:
                        self._model.feed(rows, items, own, self._rule(), steps)
                    finally:
                        # Also the steps before memory ran out have been taken.
                        done = self._model.n_steps - before
                        self._note(np.ones(done, dtype=np.int8), (steps[0][:done], steps[1][:done], steps[2][:done]))

    def _chunks(self, triplets: Triplets) -> Iterator[Triplets]:
        """Of dense rows as many at a time as a sparse copy of them fits into bounded memory."""
        dense = max(
            0 if is_sparse(X) else X.shape[1]
            for X in (triplets.X, triplets.X if triplets.items is None else triplets.items)
        )
        rows = triplets.X.shape[0] + (0 if triplets.items is None else triplets.items.shape[0])
        size = len(triplets)
        if dense and rows * dense > CHUNK_ELEMENTS:
            size = max(64, CHUNK_ELEMENTS // dense // 3)
        for start in range(0, len(triplets), size):
            yield triplets[start : start + size]

    def _translated(self, triplets: Triplets) -> Any:
        """The rows that the triplets are about as the model wants them, and the triplets in their numbers."""
        columns = triplets.anchor, triplets.positive, triplets.negative
        if triplets.items is None:
            used, numbers = np.unique(np.stack(columns), return_inverse=True)
            rows = self._model.translate(triplets.X[used])
            anchor, positive, negative = numbers.reshape(3, -1)
            return rows, rows, (anchor, positive, negative)
        used, anchor = np.unique(columns[0], return_inverse=True)
        rows = self._model.translate(triplets.X[used])
        used, numbers = np.unique(np.stack(columns[1:]), return_inverse=True)
        positive, negative = numbers.reshape(2, -1)
        return rows, self._model.translate(triplets.items[used]), (anchor, positive, negative)

    def _current_metric(self) -> BilinearMetric:
        M = self._model.matrix()
        if M.size > SMALL and not sp.issparse(M) and np.count_nonzero(M) <= (1.0 - SPARSE_SHARE) * M.size:
            M = sp.csr_array(M)
        return BilinearMetric(M, feature_names=getattr(self, "feature_names_in_", None), origin=self._origin())

    @property
    def sparsity_(self) -> float:
        """Share of M's entries that are zero."""
        return self.metric_.sparsity

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        super()._check_open("save")  # what is written must fit the parameters that are written with it
        header, arrays = super()._get_state()
        own, own_arrays = self._model.get_state()
        header |= {
            "model": own,
            "storage": "sparse" if isinstance(self._model, SparseModel) else "dense",
            "n_item_features": self.n_item_features_,
        }
        return header, arrays | {f"model.{name}": array for name, array in own_arrays.items()}

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        super()._set_state(header, arrays)
        own = {name.removeprefix("model."): array for name, array in arrays.items() if name.startswith("model.")}
        self._model.set_state(header_value(header, "model", dict), own, self.n_steps_)


def _touches(triplets: Triplets) -> float:
    """Entries of M that a triplet is about, on average: nnz(x) · nnz(q)."""
    items = triplets.X if triplets.items is None else triplets.items
    x, q = (rows.nnz / rows.shape[0] if is_sparse(rows) else float(rows.shape[1]) for rows in (triplets.X, items))
    return x * min(2.0 * q, float(items.shape[1]))


def _one_row(row: Any, name: str) -> Any:
    """One vector as a matrix of one row; a sparse one stays sparse."""
    if not is_sparse(row):
        return check_row(row, name)[np.newaxis]
    row = sp.csr_matrix(row.reshape(1, -1) if row.ndim == 1 else row)
    if row.shape[0] != 1:
        raise ValueError(f"{name} must be one vector of features, got a matrix of shape {row.shape}")
    return check_rows(row, name)


def _stack(*rows: Any) -> Any:
    return sp.vstack(rows, format="csr") if any(is_sparse(row) for row in rows) else np.vstack(rows)
