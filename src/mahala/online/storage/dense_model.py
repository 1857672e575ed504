"""A bilinear form held as a full matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mahala.compiled import lazy_dense as kernels
from mahala.compiled.triplets import CSR as Rows
from mahala.online.storage.similarity_model import Ints, Rule, SimilarityModel, Steps, tidy
from mahala.support.memory import check_room
from mahala.support.model_files import array_value, finite
from mahala.support.validation import is_sparse


def dense_bytes(shape: tuple[int, int], rule: Rule, dtype: DTypeLike) -> float:
    return float(shape[0]) * shape[1] * rule.layout[0] * np.dtype(dtype).itemsize


class DenseModel(SimilarityModel):
    """Every entry is stored, in planes of one number each."""

    def __init__(self, shape: tuple[int, int], start: float, rule: Rule, dtype: DTypeLike, max_memory: float | None):
        super().__init__(shape, start, rule, dtype, max_memory)
        check_room(
            dense_bytes(shape, rule, dtype),
            max_memory,
            f"a full matrix of {shape[0]} × {shape[1]} features",
            "raise max_memory, use storage='sparse', dtype='float32' or fewer features",
        )
        self.planes = np.zeros((shape[0], self.layout[0], shape[1]), dtype=self.dtype)
        diagonal = np.arange(min(shape))
        self.planes[diagonal, 0, diagonal] = self.virgin[0]
        if rule.average:
            self.planes[diagonal, -1, diagonal] = self.virgin[1]
        if rule.r:
            self.left, self.right = np.ones(shape[0]), np.ones(shape[1])

    def translate(self, X: Any) -> Rows:
        return csr_rows(X)

    def _stream(
        self, rows: Rows, items: Rows, triplets: tuple[Ints, Ints, Ints], rule: Rule, steps: Steps
    ) -> tuple[int, int]:
        self._own("planes", "left", "right")
        kernels.stream(
            rows,
            items,
            *triplets,
            self.planes,
            self.layout,
            self.clock,
            rule.step(self.dtype),
            rule.penalty,
            rule.eta,
            self.left,
            self.right,
            self.shrinkage(rule),
            *steps,
        )
        return len(steps[0]), 0

    def _make_room(self, stuck: int) -> None:
        raise AssertionError("a full matrix is never full")

    def _settle(self) -> None:
        self._own("planes")
        kernels.settle(self.planes, self.layout, self.penalty, self.clock)

    def matrix(self) -> NDArray[np.float64]:
        M = np.empty(self.shape)
        kernels.export(self.planes, self.layout, self.penalty, self.clock, self.n_averaged, M)
        return M

    def add(self, change: Any, total: Any) -> None:
        self.planes[:, 0] += change.toarray() if is_sparse(change) else change
        if self.layout[2]:
            self.planes[:, -1] += total.toarray() if is_sparse(total) else total

    def get_state(self) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
        header, arrays = super().get_state()
        return header, arrays | {"planes": self.planes}

    def set_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], n_steps: int) -> None:
        super().set_state(header, arrays, n_steps)
        planes = array_value(arrays, "planes", self.dtype, self.planes.shape)
        self.planes = finite(planes, "planes").copy()
        self._check_entries(self.planes.swapaxes(0, 1))


def csr_rows(X: Any) -> Rows:
    """Rows as the kernels want them."""
    if not is_sparse(X):  # by hand: SciPy's way costs a learn_one more than its step
        numbers, columns = np.nonzero(X)
        indptr = np.append(0, np.cumsum(np.bincount(numbers, minlength=len(X))))
        return indptr, columns.astype(np.int32), np.asarray(X[numbers, columns], dtype=np.float64)
    rows = tidy(X)
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data
