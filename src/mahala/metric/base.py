"""Metric: what every learner learns, and the only part of it that later steps use."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from mahala.comparisons import Comparisons, Pairs
from mahala.data.columns.values import is_frame
from mahala.engine.inputs import as_rows, for_each, parts
from mahala.metric.explanation import Explanation
from mahala.metric.matrices import Decomposition, Matrix, leading, score_blocks, similarities
from mahala.support.arrays import Arrays, FloatArray, IndexArray, Rows, RowsLike, SignArray, StoredRows, row_blocks
from mahala.support.display import as_table, paragraph
from mahala.support.model_files import ModelFileError, header_value, read_model, write_model
from mahala.support.parameters import WholeNumber, check_value, is_count
from mahala.support.states import Entry, Field, Fields, Header, build, prefixed, to_parts, without_prefix
from mahala.support.validation import check_rows, is_chunked, is_sparse, is_vector

if TYPE_CHECKING:
    from mahala.data.encoding import Encoder
    from mahala.data.preprocessing import TablePreprocessor

_EPS = float(np.finfo(np.float64).eps)
# In a notebook: features, and the width of a matrix that is decomposed in well under a second.
_MOST_WEIGHTS = 10
_MOST_DECOMPOSED = 500


class PreprocessorField(Field):
    """A fitted `TablePreprocessor` or `Encoder`."""

    def write(self, value: TablePreprocessor | Encoder, header: dict[str, object], arrays: Arrays) -> None:
        """Put its header and its arrays among those given."""
        header[self.key], parts = value.to_parts()
        arrays |= prefixed(self.key, parts)

    def read(self, state: object, header: Header, arrays: Arrays) -> TablePreprocessor | Encoder:
        """Return the preprocessor; raise ModelFileError if it is damaged."""
        from mahala.data.encoding import preprocessor_from_parts  # scikit-learn, which other metrics do without

        return preprocessor_from_parts(header_value(header, self.key, dict), without_prefix(self.key, arrays))


@dataclass(frozen=True, eq=False, repr=False)
class Metric(ABC):
    """Base class of `MahalanobisMetric`, a distance, and `BilinearMetric`, a similarity; immutable.

    `origin` says which learner with which parameters the metric comes from; it is stored in the file. So is
    `preprocessor`, a fitted `TablePreprocessor`, with which methods take data frames as they are: with text and gaps.
    The `Encoder` of a model that predicts takes arrays, too.
    """

    kind: ClassVar[str]  # its name in files
    FIELDS: ClassVar[Fields] = (
        Entry("feature_names", True, Sequence),
        Entry("origin", True, Mapping),
        PreprocessorField("preprocessor", True),
    )
    _is_distance: ClassVar[bool]

    matrix: Matrix
    _: KW_ONLY
    feature_names: Sequence[str] | None = None
    origin: Mapping[str, object] | None = None
    preprocessor: TablePreprocessor | Encoder | None = None

    def __post_init__(self) -> None:
        if self.preprocessor is not None:
            n_made = len(self.preprocessor.get_feature_names_out())
            if n_made != self.n_features_in:
                raise ValueError(f"preprocessor must give {self.n_features_in} features, it gives {n_made}")
            self._set("feature_names", self.preprocessor.get_feature_names_out().tolist())
        names = self.feature_names
        if names is not None:
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise TypeError("feature_names must be a sequence of strings")
            if len(names) != self.n_features_in:
                raise ValueError(f"feature_names must have {self.n_features_in} names, one each, got {len(names)}")
            self._set("feature_names", tuple(str(name) for name in names))

    def _set(self, name: str, value: object) -> None:
        """Store a checked field while the frozen object is being built."""
        object.__setattr__(self, name, value)

    @cached_property
    def n_features_in(self) -> int:
        """The number of features of a point; under a bilinear metric, of a query."""
        return int(self.matrix.shape[0])

    @cached_property
    def n_item_features(self) -> int:
        """The number of features of an item: those of a query, except under a bilinear metric that is not square."""
        return self.n_features_in

    @cached_property
    def sparsity(self) -> float:
        """The share of the entries of M that are zero."""
        size = math.prod(self.matrix.shape)
        values = self.matrix.data if is_sparse(self.matrix) else self.matrix
        return 1.0 - float(np.count_nonzero(values)) / size if size else 0.0

    @property
    def spectrum(self) -> FloatArray:
        """The eigenvalues of M (bilinear metric: its singular values), largest first."""
        return self._decomposition[1]

    @cached_property
    def n_components(self) -> int:
        """The number of eigenvalues (bilinear metric: singular values) that are positive beyond rounding."""
        return int((self.spectrum > self._rounding).sum())

    def truncate(self, k: int) -> Self:
        """Return the metric of the k leading directions only."""
        check_value(k, "k", WholeNumber)
        return self if k >= self.n_components else self._leading(k)

    def similarity(self, x: RowsLike, x2: RowsLike) -> Any:
        """Return `xᵀ M x2` of two points (a float), or row by row (an array); either may be a single point."""
        a, b = self._pair(x, x2)
        result = similarities(a, self.matrix, b)
        return float(result) if a.ndim == b.ndim == 1 else result

    @abstractmethod
    def pairwise(self, X: RowsLike, Y: RowsLike | None = None) -> FloatArray:
        """Return the distance (bilinear metric: similarity) of every row of X and every row of Y (None: X)."""

    def embed(self, X: RowsLike, side: Literal["query", "item"] = "query") -> Any:
        """Return points such that the inner product of a query and an item is their similarity.

        Under a bilinear metric items are returned unchanged, so that an index over them serves every metric. Sparse
        queries under a sparse M stay sparse.
        """
        if side not in ("query", "item"):
            raise ValueError(f"side must be 'query' or 'item', got {side!r}")
        return self._embed(X, item=side == "item")

    def rank(self, query: RowsLike, items: RowsLike, k: int | None = None) -> IndexArray:
        """Return the row numbers of `items` from the most similar (or nearest) to the least, the first k if k is given.

        The result is 1-D for one query, and has a row for each of several queries. Ties keep the order of the items.
        The matrix may be indefinite. Differences between distances are lost to rounding when they are below about 1e-8
        of the distances between the items. Items of Dask, of which each worker ranks its own, need a k. A Mahalanobis
        metric warns of queries that are far outside of the rows learned from.
        """
        rows, single = self._points(query, "query")
        self._warn_of_far_rows(rows)
        if is_chunked(items):
            given = check_rows(self._features([query] if single else query), "query")  # each part prepares them
            return self._rank_parts(given, as_rows(items, "items"), k)[0 if single else slice(None)]
        others = self._rows(items, "items", item=True)
        n_items = others.shape[0]
        if k is not None and not (is_count(k) and k <= n_items):
            raise ValueError(f"k must be None or from 1 to {n_items}, the number of items, got {k!r}")
        result = np.empty((rows.shape[0], n_items if k is None else int(k)), dtype=np.intp)
        for block, scores in score_blocks(rows, others, self.matrix, self._is_distance):
            result[block] = leading(scores, result.shape[1])
        return result[0] if single else result

    def _rank_parts(self, rows: Rows, items: StoredRows, k: int | None) -> IndexArray:
        self._check_width(items, "items", item=True)
        if not (is_count(k) and k is not None and k <= len(items)):
            raise ValueError(f"k must be from 1 to {len(items)}, the number of items, if they are in chunks, got {k!r}")
        best = for_each(self._best_of_part, [(part, rows_of.start) for rows_of, part in parts(items)], rows, int(k))
        numbers, scores = (np.concatenate(column, axis=1) for column in zip(*best, strict=True))
        order = np.lexsort((numbers, -scores), axis=-1)[:, : int(k)]
        return np.take_along_axis(numbers, order, axis=1)

    def _best_of_part(self, rows: Rows, k: int, items: Rows, first: int) -> tuple[IndexArray, FloatArray]:
        """Return the numbers of the k best of some items, the first of which has the number given, and their scores."""
        numbers = self.rank(rows, items, min(k, len(items)))
        return numbers + first, np.stack([self._scores(x, items[best]) for x, best in zip(rows, numbers, strict=True)])

    def _warn_of_far_rows(self, rows: Rows) -> None:  # noqa: B027  (a similarity has no center)
        """Warn of rows that are far outside of those learned from, if that is known."""

    @abstractmethod
    def _scores(self, x: Rows, items: Rows) -> FloatArray:
        """The similarities, or negative squared distances, of a query and items."""

    @abstractmethod
    def explain(self, x: RowsLike, x2: RowsLike) -> Explanation:
        """Return the contributions to the squared distance (bilinear metric: the similarity) of two points."""

    @abstractmethod
    def margins(self, comparisons: Comparisons) -> FloatArray:
        """Return for each comparison by how much the metric agrees with it; negative if it disagrees."""

    def predict_comparisons(self, comparisons: Comparisons) -> SignArray:
        """Return +1 for similar pairs and for comparisons in their order, else -1; pairs need a threshold."""
        margins = self.margins(comparisons)
        if not isinstance(comparisons, Pairs):
            return np.where(margins > 0.0, np.int8(1), np.int8(-1))
        if getattr(self, "threshold", None) is None:
            problem = "this metric has no threshold, so it cannot tell similar pairs from dissimilar ones"
            raise ValueError(f"{problem}: call calibrate_threshold with labelled pairs first")
        return np.where(margins >= 0.0, np.int8(1), np.int8(-1))

    def to_parts(self) -> tuple[dict[str, object], Arrays]:
        """Return the metric as a header and arrays for a model file."""
        return to_parts(self)

    @classmethod
    def from_parts(cls, header: Header, arrays: Arrays) -> Self:
        """Return the metric, of the class that it has, from what `to_parts` returned."""
        metric = build(Metric, header, arrays)  # type: ignore[type-abstract]
        if not isinstance(metric, cls):
            name = type(metric).__name__
            raise ModelFileError(f"it holds a {name}, not a {cls.__name__}: use {name}.load or Metric.load")
        return metric

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a model file, replacing an earlier file."""
        header, arrays = self.to_parts()
        write_model(path, "metric", arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the metric in a model file; raise ModelFileError if there is none, or one of another class."""
        header, arrays = read_model(path, "metric")
        try:
            return cls.from_parts(header, arrays)
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"{os.fspath(path)} cannot be read: {error}") from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(['×'.join(map(str, self.matrix.shape)), *self._details()])})"

    def _repr_html_(self) -> str:
        facts = [["features", f"{self.n_features_in:,}"]]
        if self.origin is not None:
            facts.append(["learner", str(self.origin.get("learner"))])
        if not is_sparse(self.matrix) and max(self.matrix.shape) <= _MOST_DECOMPOSED:
            total = float(np.maximum(self.spectrum, 0.0).sum()) or 1.0
            shares = ", ".join(f"{100.0 * max(value, 0.0) / total:.1f} %" for value in self.spectrum[:5])
            facts += [["rank", f"{self.n_components:,}"], ["leading directions", shares]]
        text = paragraph(repr(self)) + as_table(["", ""], facts)
        if self.feature_names is None or self.matrix.shape != (len(self.feature_names),) * 2:
            return text
        weights = self.matrix.diagonal()
        heaviest = np.argsort(-np.abs(weights), kind="stable")[:_MOST_WEIGHTS]
        return text + as_table(["feature", "weight"], [[self.feature_names[j], f"{weights[j]:.4g}"] for j in heaviest])

    def __reduce__(self) -> tuple[object, ...]:
        # A copied or unpickled metric is built anew, so that its arrays are read-only too.
        return partial(type(self), **{field.name: getattr(self, field.name) for field in fields(self)}), ()

    @abstractmethod
    def _details(self) -> list[str]:
        """What repr says besides the shape."""

    @property
    @abstractmethod
    def _decomposition(self) -> Decomposition: ...

    @property
    def _rounding(self) -> float:
        """The error of the computed spectrum."""
        return float(max(self.matrix.shape) * _EPS * np.abs(self.spectrum).max(initial=0.0))

    def _leading(self, k: int) -> Self:
        left, values, right = self._decomposition
        return replace(self, matrix=(left[:, :k] * values[:k]) @ right[:, :k].T)

    @abstractmethod
    def _embed(self, X: RowsLike, item: bool) -> Any: ...

    def _in_blocks(self, comparisons: Comparisons, values: Callable[[Any, slice | int], FloatArray]) -> FloatArray:
        """Return the values of a block of comparisons, or of one of them, for all blocks."""
        X, items = comparisons.X, comparisons.X if comparisons.items is None else comparisons.items
        self._check_width(X, "X")
        self._check_width(items, "items", item=True)
        if len(comparisons) == 1 and not any(map(is_sparse, (self.matrix, X, items))):
            return np.array([values(comparisons, 0)])  # in a third of the time that a block of one row takes
        result = np.empty(len(comparisons))
        for block in row_blocks(len(result), max(self.n_features_in, *self.matrix.shape)):
            result[block] = values(comparisons, block)
        return result

    def _check_width(self, X: Rows, name: str, item: bool = False) -> None:
        expected = self.n_item_features if item else self.n_features_in
        if X.shape[1] != expected:
            raise ValueError(f"{name} has {X.shape[1]} features, but this metric compares points of {expected}")

    def _prepared(self, X: Rows) -> Any:
        """Checked rows in the coordinates on which M acts: dense in float64, or CSR in its own dtype."""
        return X.astype(np.float64, copy=False) if isinstance(X, np.ndarray) else X

    def _compared(self, comparisons: Comparisons, block: slice | int) -> Iterator[Any]:
        """The prepared rows in each role of some comparisons."""
        roles = comparisons._names[: comparisons._arity]
        return (self._prepared(comparisons.rows_of(role, block)) for role in roles)

    def _features(self, X: Any) -> Any:
        """Data frames as features if there is a preprocessor, anything else as it is."""
        if self.preprocessor is None or not (is_frame(X) or self.preprocessor.takes_arrays):
            return X
        return self.preprocessor.transform(X)

    def _rows(self, X: RowsLike, name: str, item: bool = False) -> Any:
        """Rows as they are given, checked and prepared."""
        rows = check_rows(self._features(X), name)
        self._check_width(rows, name, item)
        return self._prepared(rows)

    def _items(self, items: RowsLike | None, name: str, rows: Rows) -> Any:
        """Rows of items to compare with rows of queries, by default the queries themselves."""
        if items is not None:
            return self._rows(items, name, item=True)
        if self.n_item_features != self.n_features_in:
            sizes = f"queries have {self.n_features_in} features and items {self.n_item_features}"
            raise ValueError(f"{name} must be given, because {sizes}")
        return rows

    def _points(self, points: Any, name: str, item: bool = False) -> tuple[Any, bool]:
        """The rows of one point or of several, and whether it is one."""
        single = not is_sparse(points) and np.ndim(points) == 1
        if single:
            points = points[np.newaxis] if isinstance(points, np.ndarray) else [points]
        return self._rows(points, name, item), single

    def _pair(self, x: RowsLike, x2: RowsLike) -> tuple[Any, Any]:
        """Points, or rows of points, to compare one by one; each is 1-D or 2-D as it is given."""
        if self.preprocessor is None and is_vector(x, self.n_features_in) and is_vector(x2, self.n_item_features):
            return self._prepared(x), self._prepared(x2)
        rows, single = self._points(x, "x")
        rows2, single2 = self._points(x2, "x2", item=True)
        if not single and not single2 and rows.shape[0] != rows2.shape[0]:
            numbers = f"got {rows.shape[0]} and {rows2.shape[0]}; to compare every row with every other use pairwise"
            raise ValueError(f"x and x2 must have the same number of rows, {numbers}")
        return rows[0] if single else rows, rows2[0] if single2 else rows2

    def _single_pair(self, x: Any, x2: Any) -> tuple[FloatArray, FloatArray]:
        if self.preprocessor is not None:
            x, x2 = (self._features(row)[0] if is_frame(row) and len(row) == 1 else row for row in (x, x2))
        x, x2 = self._pair(x, x2)
        if x.ndim != 1 or x2.ndim != 1:
            raise ValueError("x and x2 must be single points, 1-D arrays or data frames of one row, to be explained")
        return x, x2

    def _names(self) -> tuple[str, ...]:
        return tuple(self.feature_names or (f"x{i}" for i in range(self.n_features_in)))


def scores_in_blocks(
    metric: Metric | None, X: RowsLike, X_items: RowsLike | None = None
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the scores of X (queries) × X_items (None: X) in blocks of rows of X; more similar items score higher.

    Under a bilinear metric the scores are the similarities. Under a Mahalanobis metric, or None for the Euclidean
    distance, they are the negative squared distances up to a constant for each row of X. The arguments are checked
    before the first block.
    """
    if metric is None:
        rows = check_rows(X)
        items = rows if X_items is None else check_rows(X_items, "X_items")
        if items.shape[1] != rows.shape[1]:
            raise ValueError(f"X_items must have the {rows.shape[1]} columns of X, got {items.shape[1]}")
        return score_blocks(rows, items, None, distances=True)
    if not isinstance(metric, Metric):
        raise TypeError(f"metric must be a Metric or None, got {type(metric).__name__}; of a learner give its metric_")
    rows = metric._rows(X, "X")
    return score_blocks(rows, metric._items(X_items, "X_items", rows), metric.matrix, metric._is_distance)
