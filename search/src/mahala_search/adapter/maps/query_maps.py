"""What a QueryAdapter serves, to be applied elsewhere: a map of queries, and items that are remembered for them."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala_search.adapter.memory.bonuses import NOTHING, Bonus, Bonuses
from mahala_search.adapter.trust.signals import ENGINE, SignalWeights
from mahala_search.arrays import FloatArray, prefixed, without_prefix


@dataclass(frozen=True, eq=False)
class QueryMaps:
    """The matrix that maps queries, and the bonuses of items that are remembered for some of them.

    It needs NumPy only, so that a process which serves starts without the learner.

    >>> maps = QueryMaps(2.0 * np.eye(2))
    >>> maps.embed(np.array([1.0, 3.0]))
    array([2., 6.])
    """

    matrix: FloatArray
    bonuses: Bonuses = NOTHING
    signals: SignalWeights = ENGINE

    def embed(self, queries: FloatArray) -> FloatArray:
        """Return the vector to search with, of a query or of each row."""
        return np.asarray(queries @ self.matrix)

    def bonus(self, query: FloatArray, query_id: Hashable = None) -> Bonus:
        """Return the bonus of the items that are remembered for a query, which without an id is told by its vector."""
        return self.bonuses.of(query.astype(np.float64).tobytes() if query_id is None else query_id)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it as arrays, the matrix in single precision."""
        remembered = prefixed("bonuses", self.bonuses._asdict())
        return {"matrix": self.matrix.astype(np.float32)} | remembered | prefixed("signals", self.signals.to_arrays())

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "QueryMaps":
        """Return what `to_arrays` was called on, with numbers of single precision."""
        bonuses = Bonuses(**without_prefix("bonuses", arrays))
        signals = SignalWeights.from_arrays(without_prefix("signals", arrays))
        return cls(arrays["matrix"].astype(np.float64), bonuses, signals)
