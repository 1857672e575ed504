"""When to search again for near rows, and by which coordinates: for arrays of NumPy and of PyTorch."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from mahala.support.arrays import DeviceArray

# Pairs are kept for as many steps as the last one, if that makes radii longer by less than this share of their mean.
KEPT_STEPS = 8.0
MOST_LONGER = 0.1
# The search for pairs of more than FEW_COORDINATES coordinates ignores those of this share of the rows' squares.
TAIL = 0.03
FEW_COORDINATES = 16


class NearSearch:
    """What searches for near rows along a descent have in common.

    Rows move little from one evaluation to the next. So the search finds pairs within a longer radius, and what it
    found holds for other rows as long as no unlisted pair can have come within its radius: a row i that moved by δ_i
    is nearer to another one by at most δ_i + max δ.
    """

    def __init__(
        self,
        xp: ModuleType,
        squared_norms: Callable[[DeviceArray], DeviceArray],
        product: Callable[[DeviceArray, DeviceArray], DeviceArray],
    ) -> None:
        self._xp, self._squared_norms, self._product = xp, squared_norms, product
        self.pairs: Any = None  # what the last search found, if it is kept
        self.keeps = False
        self._at: DeviceArray | None = None  # the rows among which they were found, within these radii
        self._radii: DeviceArray | None = None
        self._last: DeviceArray | None = None  # the rows of the last call
        self._axes: DeviceArray | None = None

    def radius(self, Z: DeviceArray, radius: DeviceArray) -> DeviceArray | None:
        """Return the squared radius within which to search, given the one needed; None if the last pairs still hold.

        A radius of -inf stays.
        """
        xp = self._xp
        radii = xp.sqrt(radius.clip(min=0.0))
        step = float(self._moves(self._last, Z).max()) if _alike(self._last, Z) else float("inf")
        self._last = Z
        if self.pairs is not None and _alike(self._at, Z):
            moves = self._moves(self._at, Z)
            if bool((radii + moves + moves.max() <= self._radii).all()):
                return None
        # Longer by a few moves, if that is not much.
        self.keeps = KEPT_STEPS * step < MOST_LONGER * float(radii.mean())
        self._at, self._radii = Z, radii + (KEPT_STEPS * step if self.keeps else 0.0)
        self.pairs = None  # the search may run out of memory
        return xp.where(radius >= 0.0, xp.square(self._radii), -xp.inf)

    def heads(self, Z: DeviceArray) -> DeviceArray:
        """Return rows of fewer coordinates, whose distances are at most those of Z, but not much smaller.

        These coordinates are the leading principal coordinates of Z, or of a recent Z, and the norm of the others.
        """
        xp, m = self._xp, Z.shape[1]
        if m <= FEW_COORDINATES:
            return Z
        squares = self._squared_norms(Z)
        share = TAIL * float(squares.sum(dtype=xp.float64))
        if self._axes is not None and len(self._axes) == m:
            heads = self._split(Z, squares)
            if float(xp.square(heads[:, -1]).sum(dtype=xp.float64)) <= 2.0 * share:
                return heads
        variances, axes = xp.linalg.eigh(xp.asarray(self._product(Z.T, Z), dtype=xp.float64))
        n_tail = int(xp.searchsorted(xp.cumsum(variances.clip(min=0.0), 0), share, side="right"))
        self._axes = xp.asarray(axes[:, n_tail:], dtype=Z.dtype)
        return self._split(Z, squares)

    def _split(self, Z: DeviceArray, squares: DeviceArray) -> DeviceArray:
        """Return the coordinates of rows along the axes, and the root of what is left of their squared norms."""
        heads = self._product(Z, self._axes)
        return self._xp.column_stack([heads, self._xp.sqrt((squares - self._squared_norms(heads)).clip(min=0.0))])

    def _moves(self, before: DeviceArray, Z: DeviceArray) -> DeviceArray:
        """Return by how much each row moved."""
        return self._xp.sqrt(self._squared_norms(Z - before))


def _alike(before: DeviceArray | None, Z: DeviceArray) -> bool:
    return before is not None and before.shape == Z.shape
