"""A symmetric matrix in which a single step costs one sweep over half of it."""

from __future__ import annotations

import numpy as np

from mahala.compiled.pairs.symmetric import largest_diagonal, settle
from mahala.support.arrays import FloatArray


class SymmetricMatrix:
    """Between single steps only the lower triangle of A counts, and it lacks what is pending.

    When that is added does not change a single bit of any step.
    """

    def __init__(self, A: FloatArray) -> None:
        self._A = A
        self._pending = np.zeros((2, 2, len(A)))
        self._is_whole = True

    def whole(self) -> FloatArray:
        """Return the matrix after all its steps."""
        if not self._is_whole:
            settle(*self.arrays(whole=False))
            self._is_whole = True
        return self._A

    def largest(self) -> float:
        """Return the largest absolute value on the diagonal, before what is pending."""
        return float(largest_diagonal(self._A))

    def arrays(self, whole: bool) -> tuple[FloatArray, FloatArray]:
        """Return the matrix and what is pending, for compiled steps on the whole of it or on its lower triangle."""
        if whole:
            self.whole()
        if not self._A.flags.writeable:  # it was loaded as a memory map
            self._A, self._pending = self._A.copy(), self._pending.copy()
        self._is_whole = whole
        return self._A, self._pending
