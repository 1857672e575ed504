"""BilinearMetric: a similarity `xᵀ M x2`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from mahala.comparisons import Comparisons, Triplets
from mahala.metric import matrices
from mahala.metric.base import Metric
from mahala.metric.explanation import Explanation
from mahala.metric.matrices import Decomposition
from mahala.support.arrays import FloatArray, Rows, RowsLike, row_blocks
from mahala.support.lazily import sp
from mahala.support.states import Fields
from mahala.support.validation import is_sparse


@dataclass(frozen=True, eq=False, repr=False)
class BilinearMetric(Metric):
    """A bilinear similarity `xᵀ M x2` of a query x and an item x2; immutable.

    Parameters
    ----------
    matrix : array or sparse matrix of shape (n_query_features, n_item_features)
        M. A sparse one stays sparse, as a `csr_array` of float32 or float64; if it is canonical CSR already it is not
        copied, and its arrays become read-only.
    feature_names : sequence of str or None, default=None
        The name of each feature of a query.
    origin : mapping or None, default=None
        Which learner with which parameters the metric comes from; it is stored in the file.
    preprocessor : TablePreprocessor or None, default=None
        With it, methods take data frames with text and gaps.

    Examples
    --------
    >>> metric = BilinearMetric([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    >>> metric.similarity([1.0, 1.0], [0.0, 1.0, 1.0])
    5.0
    >>> metric.embed([[1.0, 1.0]], side="query").tolist()
    [[1.0, 2.0, 3.0]]
    >>> metric.rank([1.0, 0.0], items=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).tolist()
    [1, 0]
    """

    kind: ClassVar[str] = "bilinear"
    FIELDS: ClassVar[Fields] = (matrices.MatrixField("matrix"),)
    _is_distance: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._set("matrix", matrices.check_matrix(self.matrix))
        super().__post_init__()

    @cached_property
    def n_item_features(self) -> int:
        """The number of features of an item."""
        return int(self.matrix.shape[1])

    def pairwise(self, X: RowsLike, Y: RowsLike | None = None) -> FloatArray:
        """Return the similarity of every row of X (queries) and every row of Y (items; None: X)."""
        rows = self._rows(X, "X")
        items = self._items(Y, "Y", rows)
        result = np.empty((rows.shape[0], items.shape[0]))
        for block, scores in matrices.score_blocks(rows, items, self.matrix, distances=False):
            result[block] = scores
        return result

    def explain(self, x: RowsLike, x2: RowsLike) -> Explanation:
        """Return the contributions to the similarity of a query and an item."""
        x, x2 = self._single_pair(x, x2)
        total = float(matrices.similarities(x, self.matrix, x2))
        if not is_sparse(self.matrix):
            left, values, right = self._decomposition
            return Explanation(total, x * (self.matrix @ x2), values * (x @ left) * (x2 @ right), self._names())
        rows, features = np.flatnonzero(x), np.zeros(len(x))  # SciPy would copy the whole of a float32 matrix
        features[rows] = x[rows] * (self.matrix[rows] @ x2)
        return Explanation(total, features, None, self._names())

    def margins(self, comparisons: Comparisons) -> FloatArray:
        """Return for each of the Triplets how much more similar the anchor is to the positive than to the negative."""
        if not isinstance(comparisons, Triplets):
            advice = "for pairs compare the result of similarity with a threshold of your own"
            raise TypeError(f"comparisons must be Triplets, got {type(comparisons).__name__}; {advice}")
        return self._in_blocks(comparisons, self._margins)

    def _scores(self, x: Rows, items: Rows) -> FloatArray:
        return self.similarity(x, items)  # type: ignore[no-any-return]

    def _details(self) -> list[str]:
        return [f"sparsity={self.sparsity:.6g}"] if is_sparse(self.matrix) else []

    @cached_property
    def _decomposition(self) -> Decomposition:
        if is_sparse(self.matrix):
            advice = "use BilinearMetric(metric.matrix.toarray()) if it fits into memory"
            raise ValueError(f"the spectrum, n_components and truncate need a dense matrix, but it is sparse: {advice}")
        return matrices.decompose(self.matrix, symmetric=False)

    def _embed(self, X: RowsLike, item: bool) -> Any:
        rows, matrix = self._rows(X, "X", item), self.matrix
        if item:
            return rows
        if not (is_sparse(matrix) and is_sparse(rows)):
            return matrices.times_matrix(rows, matrix)
        blocks = row_blocks(rows.shape[0], max(matrix.shape), matrices.BLOCK_BYTES)
        return sp.vstack([sp.csr_array(matrices.times_matrix(rows[block], matrix)) for block in blocks], format="csr")

    def _margins(self, comparisons: Triplets, block: slice | int) -> Any:
        anchor, positive, negative = self._compared(comparisons, block)
        product = matrices.times_matrix(anchor, self.matrix)
        return matrices.row_dots(product, positive) - matrices.row_dots(product, negative)
