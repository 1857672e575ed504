"""Encoder: tables and arrays to features in which a linear map sees bends and plateaus of every column."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from mahala.data.columns.cells import Decimal, TableDecimal
from mahala.data.columns.values import is_frame
from mahala.data.preprocessing import TablePreprocessor
from mahala.support.arrays import Arrays, BoolArray, FloatArray, IndexArray, RealArray
from mahala.support.model_files import ModelFileError, header_value
from mahala.support.states import Array as StoredArray
from mahala.support.states import Entry, Fields, Integer, Texts, restore, to_parts
from mahala.support.validation import is_sparse

if TYPE_CHECKING:
    from mahala.support.arrays import Array, Rows, RowsLike


# Standardised numbers are cut off here.
FARTHEST = 10.0
# More features than this are replaced by the leading directions of the rows.
MOST_FEATURES, N_DIRECTIONS = 2_000, 256
# Up to so many different values for each bin, each value is an edge.
FEW_VALUES = 4


class Encoder:
    """Convert data frames, or arrays of numbers with gaps, to features of float32.

    A number becomes its standardised value and, for each of `n_bins` bins between quantiles, a feature that rises from
    0 to 1 within the bin; up to four times as many different values are the edges themselves. Flags and categories
    become 0/1 features, and gaps the median and a mark. Above 2,000 features there are no bins, and if that is not
    enough, the 256 leading directions are the features. Sparse rows stay as they are up to that number.

    Parameters
    ----------
    n_bins : int
    identifiers, decimal : see :class:`TablePreprocessor`

    Attributes
    ----------
    n_features_in : int
    table : the preprocessor of data frames, or None
    """

    FIELDS: ClassVar[Fields] = (
        Integer("n_bins"),
        Integer("n_features_in"),
        Texts("_columns"),
        Entry("_sparse"),
        StoredArray("_medians", True, np.float64, (None,)),
        StoredArray("_marked", True, np.intp, (None,), least=0),
        StoredArray("_means", True, np.float64, (None,)),
        StoredArray("_scales", True, np.float64, (None,)),
        StoredArray("_several", True, np.bool_, (None,)),
        StoredArray("_edges", True, np.float64, (None,)),
        StoredArray("_n_edges", True, np.intp, (None,), least=0),
        StoredArray("_directions", True, np.float64, (None, None)),
        StoredArray("_shift", True, np.float64, (None,)),
    )
    _medians: FloatArray  # of arrays, and the columns whose gaps are marked
    _marked: IndexArray
    _means: FloatArray
    _scales: FloatArray
    _several: BoolArray  # whether a column has more than two values
    _edges: FloatArray  # of the bins, one column after the other, and their numbers
    _n_edges: IndexArray
    _directions: FloatArray | None  # of many features, and what is taken off them
    _shift: FloatArray

    def __init__(
        self, n_bins: int, identifiers: Literal["drop", "keep"] = "drop", decimal: TableDecimal = "auto"
    ) -> None:
        self.n_bins = n_bins
        self._identifiers, self._decimal = identifiers, decimal
        self.table: TablePreprocessor | None = None
        self.n_features_in = 0
        self._columns: list[str] = []
        self._sparse = False
        self._directions = None

    def fit(self, X: Any, rows: IndexArray, seed: int = 0) -> FloatArray:
        """Choose the encoding from some rows of a table, by their numbers; return what `plain` gives for these."""
        self.table, self._sparse = None, is_sparse(X)
        self._directions = None
        if is_frame(X):
            self.table = TablePreprocessor(identifiers=self._identifiers, decimal=self._decimal)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the preprocessor says the same of each column
                # Rows that are not named leave no trace. A row counts once: repeats would hide identifiers.
                used, places = np.unique(rows, return_inverse=True)
                plain = self.table.fit_transform(X if len(used) == X.shape[0] else _safe_indexing(X, used))[places]
            self.n_features_in = self.table.n_features_in_
            self._columns = self.table.get_feature_names_out().tolist()
            self._learn_numbers(plain, self.table.numbers())
        else:
            self.n_features_in = X.shape[1]
            self._columns = [f"x{j}" for j in range(X.shape[1])]
            if self._sparse:
                if X.shape[1] > MOST_FEATURES:
                    self._learn_directions(X[rows], seed)
                return np.asarray(self.plain(X[rows]))
            plain = X[rows]
            gaps = np.isnan(plain)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a column without any number
                self._medians = np.nan_to_num(np.nanmedian(plain, axis=0))
            self._marked = np.flatnonzero(gaps.any(axis=0))
            self._columns += [f"x{j} missing" for j in self._marked]
            plain = self._filled(plain)
            self._learn_numbers(plain, list(range(X.shape[1])))
        if sum(self._counts()) > MOST_FEATURES:
            self._learn_directions(self._binned(plain), seed)
        return np.asarray(plain)

    def _learn_numbers(self, plain: FloatArray, numeric: list[int]) -> None:
        """Choose for each column the bins, none for a constant column and one from end to end for a flag."""
        d = plain.shape[1]
        in_order = np.sort(plain, axis=0)  # so that sums do not depend on the order of rows
        means, scales, low, high = in_order.mean(axis=0), in_order.std(axis=0), in_order[0], in_order[-1]
        # A deviation that rounding alone makes is none.
        varies = (high > low) & (scales > 1e-12 * np.maximum(np.abs(low), np.abs(high)))
        self._means, self._scales = means, np.where(varies, scales, 1.0)
        several = np.zeros(d, dtype=bool)
        several[numeric] = True
        several &= varies & ((plain != low) & (plain != high)).any(axis=0)
        with_bins = int(several.sum()) * (self.n_bins + 1) + int((~several).sum()) <= MOST_FEATURES
        all_edges = []
        for j in range(d):
            edges = np.zeros(0)
            if several[j] and with_bins:
                edges = self._edges_of(in_order[:, j])
                wide = np.diff(edges, prepend=-np.inf) > 1e-12 * max(abs(low[j]), abs(high[j]))
                edges = edges[wide] if wide.sum() > 1 else np.zeros(0)
            elif varies[j] and not several[j]:
                edges = np.array([low[j], high[j]])
            all_edges.append(edges)
        self._several, self._edges = several, np.concatenate([np.zeros(0), *all_edges])
        self._n_edges = np.array(list(map(len, all_edges)), dtype=np.intp)

    def _edges_of(self, in_order: FloatArray) -> FloatArray:
        """Return the quantiles of a column of sorted values, or all of its values if there are few."""
        values = np.unique(in_order)
        if len(values) <= FEW_VALUES * self.n_bins:
            return values
        return np.unique(np.quantile(in_order, np.linspace(0.0, 1.0, self.n_bins + 1)))

    def _learn_directions(self, encoded: Any, seed: int) -> None:
        from sklearn.utils.extmath import randomized_svd

        center = np.asarray(encoded.mean(axis=0), dtype=np.float64).ravel()
        shift = center if not is_sparse(encoded) else np.zeros_like(center)
        k = min(N_DIRECTIONS, *encoded.shape)
        rows = encoded if is_sparse(encoded) else encoded - shift
        _, _, directions = randomized_svd(rows, k, random_state=seed)
        self._directions, self._shift = directions.astype(np.float64), shift

    def transform(self, X: RowsLike) -> RealArray:
        """Return the features of a data frame, or of rows as in `fit`, as an array of float32."""
        return self.encoded(self.plain(X))

    def plain(self, X: Any) -> FloatArray:
        """Return the columns as numbers, without bins: with gaps filled and categories as 0/1 features."""
        if self.table is not None:
            return np.asarray(self.table.transform(X))
        if X.shape[1] != self.n_features_in:
            raise ValueError(f"X has {X.shape[1]} features, but the encoder was fitted with {self.n_features_in}")
        if self._sparse:
            return self._directed(X) if self.has_directions else np.asarray(as_dense(X), dtype=np.float64)
        return self._filled(np.asarray(as_dense(X), dtype=np.float64))

    def with_decimal(self, decimal: Decimal) -> Self:
        """Return a copy that reads numbers in text with this decimal mark, whatever it was in `fit`."""
        made = copy.copy(self)
        made.table = None if self.table is None else self.table.with_decimal(decimal)
        return made

    def encoded(self, plain: FloatArray) -> RealArray:
        """Return the features of what `plain` returned, as an array of float32."""
        if self._sparse:
            return np.ascontiguousarray(plain, dtype=np.float32)
        binned = self._binned(plain)
        return self._directed(binned).astype(np.float32) if self.has_directions else binned

    def _filled(self, rows: FloatArray) -> FloatArray:
        gaps = np.isnan(rows)
        filled = np.where(gaps, self._medians, rows)
        return np.hstack([filled, gaps[:, self._marked]]) if len(self._marked) else filled

    def _binned(self, plain: FloatArray) -> RealArray:
        counts = self._counts()
        result = np.empty((len(plain), max(sum(counts), 1)), dtype=np.float32)
        if not sum(counts):
            result[:] = 0.0
        at = 0
        for j, (edges, count) in enumerate(zip(self._edges_by_column(), counts, strict=True)):
            if not count:
                continue
            values, place = plain[:, j], at
            if self._several[j]:
                standard = (values - self._means[j]) / self._scales[j]
                result[:, at] = np.clip(standard, -FARTHEST, FARTHEST)
                place += 1
            for left, right in pairwise(edges):
                result[:, place] = np.clip((values - left) / (right - left), 0.0, 1.0)
                place += 1
            at += count
        return result

    def _counts(self) -> list[int]:
        """Return how many features each column becomes, before directions."""
        if self._sparse:
            return [1] * self.n_features_in
        return (np.maximum(self._n_edges - 1, 0) + self._several).tolist()  # type: ignore[no-any-return]

    def _edges_by_column(self) -> list[FloatArray]:
        """Return the ends of the bins of each column."""
        return np.split(self._edges, np.cumsum(self._n_edges)[:-1])

    def _directed(self, rows: Rows) -> FloatArray:
        assert self._directions is not None, "there are no directions"
        return np.asarray(rows @ self._directions.T - self._shift @ self._directions.T)

    @property
    def n_plain(self) -> int:
        """The number of columns of what `plain` returns."""
        if self._sparse:
            return self.n_features_in if self._directions is None else len(self._directions)
        return len(self._columns)

    @property
    def has_directions(self) -> bool:
        """Whether features are directions, each of all columns."""
        return self._directions is not None

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the features, such as "age" and "age 20 to 30"."""
        if self._directions is not None:
            return np.array([f"direction {k}" for k in range(len(self._directions))], dtype=object)
        if self._sparse:
            return np.array(self._columns, dtype=object)
        names: list[str] = []
        for name, several, edges in zip(self._columns, self._several, self._edges_by_column(), strict=True):
            names += [name] * int(several or len(edges) > 1)
            ends = enumerate(pairwise(edges if several else ()))
            names += [f"{name} {left:.6g} to {right:.6g} #{k}" for k, (left, right) in ends]
        return np.array(names or ["nothing"], dtype=object)

    def feature_groups(self) -> dict[str, list[int]]:
        """Return the numbers of the features that each column of the table became."""
        if self.has_directions:
            return {name: [k] for k, name in enumerate(self.get_feature_names_out().tolist())}
        ends = np.cumsum([0, *self._counts()]).tolist()
        plain = self.plain_groups()
        return {name: [f for j in columns for f in range(*ends[j : j + 2])] for name, columns in plain.items()}

    def plain_groups(self) -> dict[str, list[int]]:
        """Return the numbers of the features of `plain` that each column of the table became."""
        if self.table is not None:
            return self.table.feature_groups()
        groups = {name: [j] for j, name in enumerate(self._columns[: self.n_features_in])}
        for place, j in enumerate(() if self._sparse else self._marked.tolist()):
            groups[f"x{j}"].append(self.n_features_in + place)
        return groups

    @property
    def takes_arrays(self) -> bool:
        """Whether a metric of the features takes arrays of columns, as this was fitted to, not of features."""
        return self.table is None

    @property
    def columns_(self) -> list[tuple[str, str]]:
        """Pairs of the name of each column and what was done to it before numbers got bins."""
        if self.table is not None:
            return self.table.columns_
        return [(name, "number") for name in self._columns[: self.n_features_in]]

    def to_parts(self) -> tuple[dict[str, object], Arrays]:
        """Return what was fitted as a header and arrays of a model file."""
        header, arrays = to_parts(self)
        return header | ({} if self.table is None else {"table": self.table.to_header()}), arrays

    @classmethod
    def from_parts(cls, header: Mapping[str, object], arrays: Arrays) -> Self:
        """Return the encoder of `to_parts`; raise ModelFileError if it is damaged."""
        made = cls(header_value(header, "n_bins", int))
        if "table" in header:
            made.table = TablePreprocessor.from_header(header_value(header, "table", dict))
        restore(made, header, arrays)
        if not made._sparse:
            names = ("_means", "_scales", "_several", "_n_edges")
            lengths = [len(getattr(made, name, ())) for name in names]
            if set(lengths) != {len(made._columns)} or made._n_edges.sum() != len(getattr(made, "_edges", ())):
                raise ModelFileError("the means, scales and bins of an encoder do not fit its columns")
        return made


def preprocessor_from_parts(header: Mapping[str, object], arrays: Arrays) -> TablePreprocessor | Encoder:
    """Return a preprocessor of either kind from what its `to_parts` returned."""
    if "n_bins" in header:
        return Encoder.from_parts(header, arrays)
    return TablePreprocessor.from_header(header)


def as_dense(X: Any) -> Array:
    """Return sparse rows as an array, and others unchanged."""
    dense: Array = X.toarray() if is_sparse(X) else X
    return dense
