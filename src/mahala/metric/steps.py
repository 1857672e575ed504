"""What is done to rows before M acts on them: steps that a metric holds, applies in their order and saves."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mahala.data.scaling import divided, unit_length
from mahala.support.arrays import FloatArray, Rows, read_only
from mahala.support.states import Array, Fields
from mahala.support.validation import as_floats


class Step(ABC):
    """A map of rows to rows; immutable."""

    kind: ClassVar[str]  # its name in files
    FIELDS: ClassVar[Fields] = ()

    @abstractmethod
    def apply(self, X: Rows) -> Any:
        """Return what valid rows, or one dense point, are mapped to."""

    def width_before(self, width: int) -> int:
        """Return the number of columns before the step; raise ValueError if it does not give so many."""
        return width


@dataclass(frozen=True, eq=False)
class Scales(Step):
    """Divide each feature by its scale, so that a metric of scaled features serves raw ones.

    >>> Scales([1.0, 10.0]).apply(np.array([[3.0, 4.0]])).tolist()
    [[3.0, 0.4]]
    """

    kind: ClassVar[str] = "scales"
    FIELDS: ClassVar[Fields] = (Array("scales", dtype=np.float64, shape=(None,)),)

    scales: FloatArray

    def __post_init__(self) -> None:
        scales = read_only(as_floats(self.scales, "scales").copy())
        if scales.ndim != 1 or not ((scales > 0.0) & np.isfinite(scales)).all():
            raise ValueError(f"scales must be a vector of positive and finite numbers, got {self.scales!r:.80}")
        object.__setattr__(self, "scales", scales)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.scales,)  # built anew, so that the scales of a copy are read-only too

    def apply(self, X: Rows) -> Any:
        """Return rows divided by the scales."""
        return divided(X, self.scales)

    def width_before(self, width: int) -> int:
        """Return the number of scales; raise ValueError if there are not so many."""
        if len(self.scales) != width:
            raise ValueError(f"scales must be {width} numbers, one for each feature, got {len(self.scales)}")
        return width


class UnitRows(Step):
    """Divide each row by its length, so that distances are those of directions.

    >>> UnitRows().apply(np.array([[3.0, 4.0]])).tolist()
    [[0.6, 0.8]]
    """

    kind: ClassVar[str] = "unit_rows"

    def apply(self, X: Rows) -> Any:
        """Return rows of length 1; rows of zeros stay."""
        return unit_length(X)
