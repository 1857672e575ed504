"""A symmetric matrix that takes single steps through BLAS."""

from typing import Any

import numpy as np
from scipy.linalg import blas

from mahala.support.arrays import FloatArray


class SymmetricMatrix:
    """A symmetric matrix of which single steps read and write the lower triangle only.

    That is half of the memory. The matrix is made whole when it is read.
    """

    def __init__(self, A: FloatArray) -> None:
        self.lower = np.ascontiguousarray(A)  # the upper triangle counts only where the matrix is whole
        self._is_whole = True

    def whole(self) -> FloatArray:
        """Return the matrix after all its steps."""
        if not self._is_whole:
            self.lower = np.tril(self.lower) + np.tril(self.lower, -1).T
            self._is_whole = True
        return self.lower

    def for_steps(self, single: bool = False) -> FloatArray:
        """Return the matrix for compiled steps: a single one has the lower triangle to read and write."""
        if not single:
            self.whole()
        if not self.lower.flags.writeable:  # it was loaded as a memory map
            self.lower = self.lower.copy()
        self._is_whole = not single
        return self.lower

    def times(self, v: FloatArray) -> FloatArray:
        """Return the product with a vector."""
        product: FloatArray = blas.dsymv(1.0, self.lower.T, v, lower=0)
        return product

    def add(self, weight: float, v: FloatArray) -> None:
        """Add weight v vᵀ."""
        blas.dsyr(weight, v, a=self.for_steps(single=True).T, lower=0, overwrite_a=1)

    def trace(self) -> float:
        """Return the trace of a positive definite matrix, whose diagonal is positive."""
        d = len(self.lower)
        return float(blas.dasum(self.lower.ravel(), d, 0, d + 1))

    def largest_on_diagonal(self) -> float:
        """Return the largest absolute value on the diagonal; through BLAS in a fraction of NumPy's time."""
        d, entries = len(self.lower), self.lower.ravel()
        return abs(float(entries[blas.idamax(entries, d, 0, d + 1) * (d + 1)])) if d else 0.0


class AfterAllSteps:
    """An attribute that is a matrix after all its steps; a `SymmetricMatrix` or None is kept under another name."""

    def __init__(self, kept_as: str) -> None:
        self._name = kept_as

    def __get__(self, state: Any, kind: type) -> Any:
        matrix = getattr(state, self._name)
        return None if matrix is None else matrix.whole()

    def __set__(self, state: Any, matrix: FloatArray | None) -> None:
        setattr(state, self._name, None if matrix is None else SymmetricMatrix(matrix))
