"""A bilinear form held as a full matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mahala.compiled.triplets import lazy_dense as kernels
from mahala.compiled.triplets.rows import CSR, rows_as_csr
from mahala.online.storage.dense_blocks import may_take_blocks, stream_blocks, takes_blocks
from mahala.online.storage.model import Steps
from mahala.online.storage.similarity_model import SimilarityModel, SimilarityRule, TripletChunk, tidy
from mahala.support.arrays import Arrays, FloatArray, IndexArray, check_room
from mahala.support.model_files import array_value, finite
from mahala.support.validation import is_sparse


def dense_bytes(shape: tuple[int, int], rule: SimilarityRule, dtype: DTypeLike) -> float:
    """Return the bytes that a full matrix takes."""
    return float(shape[0]) * shape[1] * rule.layout(dtype)[0] * np.dtype(dtype).itemsize


class DenseModel(SimilarityModel):
    """Every entry is stored, in planes of one number each."""

    storage = "dense"

    def __init__(self, shape: tuple[int, int], start: float, rule: SimilarityRule, dtype: DTypeLike) -> None:
        super().__init__(shape, start, rule, dtype)
        check_room(
            dense_bytes(shape, rule, dtype),
            rule.max_memory,
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

    def translate(self, X: Any) -> CSR:
        return csr_rows(X)

    def _stream(self, chunk: TripletChunk, rule: SimilarityRule, steps: Steps) -> tuple[int, int]:
        self.own("planes", "left", "right")
        if takes_blocks(self.planes, self.layout, chunk):
            stream_blocks(
                self.planes, self.layout, self.clock, self.settings(rule), self.left, self.right, chunk, steps
            )
            return len(chunk.y), 0
        *rule_numbers, shrinkage = self.settings(rule)
        state: Any = self.planes, self.layout, self.clock, *rule_numbers, self.left, self.right, shrinkage, *steps
        kernels.stream(*chunk[:2], *chunk.numbers, *state)
        return len(chunk.y), 0

    def cost(self, touched: float) -> float:
        """Steps in blocks take less: many of them make a chunk."""
        return touched / 16.0 if may_take_blocks(touched, self.planes, self.layout) else touched

    def feed_query(
        self, x: FloatArray, items: FloatArray, pairs: tuple[IndexArray, IndexArray, FloatArray], rule: SimilarityRule
    ) -> None:
        n = len(pairs[0])
        if not rule.plain or not rule.average:
            super().feed_query(x, items, pairs, rule)
            return
        if self.clock + n > self.longest_clock:
            self.settle()
        self.own("planes")
        steps = np.empty(n), np.empty(n), np.empty(n, dtype=np.int8)
        kernels.stream_query(self.planes, self.clock, x, items, *pairs, rule.step(self.dtype), *steps)
        self.clock += n
        self.n_steps += n

    def products(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return xᵀM of the last model and of the mean of all models; for rules with `average`."""
        if self.n_steps == 0:
            product = x @ self.planes[:, 0]
            return product, product
        last, mean = np.empty(self.shape[1]), np.empty(self.shape[1])
        kernels.products(self.planes, self.layout, self.penalty, self.clock, self.n_steps, x, last, mean)
        return last, mean

    def _settle(self) -> None:
        self.own("planes")
        kernels.settle(self.planes, self.layout, self.penalty, self.clock)

    def matrix(self) -> FloatArray:
        return self._matrix(self.n_averaged)

    def matrices(self) -> tuple[FloatArray, FloatArray]:
        """Return M of the last model and of the mean of all models."""
        return self._matrix(0), self.matrix()

    def _matrix(self, n_averaged: int) -> FloatArray:
        M = np.empty(self.shape)
        kernels.export(self.planes, self.layout, self.penalty, self.clock, n_averaged, M)
        return M

    def add(self, change: Any, total: Any) -> None:
        self.planes[:, 0] += change.toarray() if is_sparse(change) else change
        if self.layout[2]:
            self.planes[:, -1] += total.toarray() if is_sparse(total) else total

    def mix(self, models: Sequence[DenseModel]) -> None:
        if self.layout[2]:
            super().mix(models)
        for model in models:
            model.settle()
        self.clock, self.virgin = 0, models[0].virgin
        self.planes = np.mean([model.planes for model in models], axis=0, dtype=self.planes.dtype)

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super().get_state()
        return header, arrays | {"planes": self.planes}

    def set_state(self, header: dict[str, Any], arrays: Arrays, n_steps: int) -> None:
        super().set_state(header, arrays, n_steps)
        d, _, e = self.planes.shape
        planes = self._with_rest(array_value(arrays, "planes", self.dtype, (d, None, e)), 1)
        planes = array_value({"planes": planes}, "planes", self.dtype, self.planes.shape)
        self.planes = finite(planes, "planes")
        self._check_entries(self.planes.swapaxes(0, 1))


def csr_rows(X: Any) -> CSR:
    """Return rows as compiled code takes them."""
    if not is_sparse(X):
        return rows_as_csr(np.ascontiguousarray(X, dtype=np.float64))
    rows = tidy(X)
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data
