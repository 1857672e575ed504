"""Names for the array types in annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]  # of a model file, by name
FloatArray = NDArray[np.float64]
RealArray = NDArray[Any]  # float32 or float64
IntArray = NDArray[np.int64]
IndexArray = NDArray[np.intp]
SignArray = NDArray[np.int8]  # +1 and -1
BoolArray = NDArray[np.bool_]
