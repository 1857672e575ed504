"""DeferredMap: the matrix of a map that is learned query by query, and the mean of all models, changed in blocks."""

from typing import Any, ClassVar

import numpy as np

from mahala import ModelFileError
from mahala.extend import Array, Integer, Stateful, check_room
from mahala_search.arrays import Arrays, FloatArray, IndexArray
from mahala_search.compiled.deferred import Factors, StepRule, add_factors, add_product, score_page, take_steps

# Queries whose changes wait until they are added to the matrices.
WAITING = 32


class DeferredMap(Stateful):
    """M, which starts as the identity and changes by a term x qᵀ in each step, and the mean of the models before steps.

    Step t adds τ x qᵀ to M, and t τ x qᵀ to a second matrix L. After n steps the mean of all models is M - L / n. The
    changes of a query wait as two factors, the query and a sum of q; those of 32 queries are added by one product.
    """

    FIELDS: ClassVar = (
        *(Integer(name) for name in ("n_steps", "_n_waiting")),
        *(Array(name) for name in ("M", "L", "_left", "_right")),
    )

    def __init__(self, n_features: int, max_memory: float | None) -> None:
        what = f"a full matrix of {n_features} × {n_features} features"
        advice = "raise max_memory of the adapter's learner, or use vectors of fewer features"
        check_room(16.0 * n_features**2, max_memory, what, advice)
        self.M, self.L = np.eye(n_features), np.zeros((n_features, n_features))
        self.n_steps = 0
        self._left, self._right = np.zeros((WAITING, n_features)), np.zeros((2, WAITING, n_features))
        self._n_waiting = 0
        self.expect(self._left[:0])
        # By the bytes of a query, xᵀM and xᵀL without what waits.
        self._products: dict[bytes, tuple[FloatArray, FloatArray]] = {}
        self._scored: tuple[FloatArray, FloatArray] | None = None  # a query, and its xᵀM

    def expect(self, queries: FloatArray) -> None:
        """Note queries in the order in which they will be learned from, so that their products are computed together.

        That takes less time than one by one, and gives the same bits.
        """
        self._expected, self._numbers = queries, {x.tobytes(): at for at, x in enumerate(queries)}

    def products(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return xᵀM of the last model and of the mean of all models."""
        last, late = self._without_waiting(x)
        add_factors(x, self._waiting(), last, late)
        return last, last - late / max(self.n_steps, 1)

    def scores(self, x: FloatArray, items: FloatArray) -> tuple[FloatArray, float]:
        """Return columns of the scores of items: by x itself, by the mean of all models, and by the last model.

        The second result is the squared length of x times the mean of those of the items.
        """
        last, late = self._without_waiting(x)
        result, size = score_page(x, items, self._waiting(), self.n_steps, last, late)
        self._scored = x, last  # for `feed_query`, which comes next
        return result, size

    def _waiting(self) -> Factors:
        return self._left, self._right, self._n_waiting

    def _without_waiting(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return xᵀM and xᵀL without the changes that wait."""
        if (key := x.tobytes()) not in self._products:
            at = self._numbers.get(key)
            rows = x[np.newaxis] if at is None else self._expected[at : at + WAITING - self._n_waiting]
            last, late = np.zeros((2, *rows.shape))
            add_product(rows, self.M, last)
            add_product(rows, self.L, late)
            self._products = {row.tobytes(): (last[at], late[at]) for at, row in enumerate(rows)}
        last, late = self._products[key]
        return last.copy(), late.copy()

    def feed_query(
        self, x: FloatArray, items: FloatArray, pairs: tuple[IndexArray, IndexArray, FloatArray], rule: StepRule
    ) -> None:
        """Take a step for each two items of a query: the numbers of the better and the worse, and a weight."""
        last = self._scored[1] if self._scored is not None and self._scored[0] is x else self.products(x)[0]
        self._scored = None
        changed = take_steps(x, items, pairs, rule, self.n_steps, last, self._waiting())
        self.n_steps += len(pairs[0])
        if changed:
            self._left[self._n_waiting] = x
            self._n_waiting += 1
        if self._n_waiting == WAITING:
            self._add_waiting(self.M, self.L)
            self._n_waiting = 0
            self._products = {}

    def _add_waiting(self, *matrices: FloatArray) -> None:
        """Add the changes that wait to M and L."""
        left = np.ascontiguousarray(self._left[: self._n_waiting].T)
        for at, matrix in enumerate(matrices):
            add_product(left, self._right[at, : self._n_waiting], matrix)

    def matrices(self) -> tuple[FloatArray, FloatArray]:
        """Return M of the last model and of the mean of all models."""
        last, late = self.M.copy(), self.L.copy()
        self._add_waiting(last, late)
        late /= -max(self.n_steps, 1)
        late += last
        return last, late

    def set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        super().set_state(header, arrays)
        if self._n_waiting >= WAITING:
            raise ModelFileError(f"header entry 'n_waiting' should be less than {WAITING}, found {self._n_waiting}")
        self._products, self._scored = {}, None
