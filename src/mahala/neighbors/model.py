"""The base of NeighborClassifier and NeighborRegressor: validation, fit, prediction, rows that come and go, files."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from mahala.data.columns.cells import TableDecimal
from mahala.data.columns.values import checked_table, is_frame, names_of
from mahala.data.encoding import Encoder
from mahala.engine import engine_for
from mahala.metric import MahalanobisMetric
from mahala.neighbors.files import from_parts, to_parts
from mahala.neighbors.fitted import EXPERTS, Fitted, Points, Rows
from mahala.neighbors.learning import MOST_LEARNED, N_STEPS, Settings, learn
from mahala.neighbors.maps import Target
from mahala.neighbors.rows import RowName, checked_names, drawn_rows, group_codes, mapped_rows, repeated, row_names
from mahala.saved_estimator import SavedEstimator
from mahala.support.arrays import Array, Arrays, FloatArray, IndexArray, RealArray, RowsLike
from mahala.support.display import progress_bar
from mahala.support.limits import one_blas_thread, time_limit
from mahala.support.locking import all_or_nothing, one_at_a_time
from mahala.support.model_files import ModelFileError, count_value, header_value
from mahala.support.parameters import Count, Fraction, Positive, Seed, Where, check_params, check_seed, check_value
from mahala.support.states import prefixed
from mahala.support.validation import is_chunked, to_numpy


def _metric_of(value: object) -> object:
    return getattr(value, "metric_", value)


FixedMetric = Annotated[
    object,
    Where(
        lambda value: value is None or isinstance(_metric_of(value), MahalanobisMetric),
        "None, a MahalanobisMetric or a fitted learner of one",
    ),
]


@dataclass(eq=False, repr=False)
class NeighborModel(SavedEstimator):
    """Base class of models whose predictions are votes of their training rows, a linear expert and boosted trees."""

    n_components: Count = 32
    _: KW_ONLY
    n_bins: Count = 8
    linear: Literal["auto"] | bool = "auto"
    trees: Literal["auto"] | bool = "auto"
    metric: FixedMetric = None
    identifiers: Literal["drop", "keep"] = "drop"
    decimal: TableDecimal = "auto"
    max_seconds: Positive | None = None
    verbose: bool = False
    random_state: Seed = 0

    @abstractmethod
    def _learn_target(self, y: "ArrayLike", n_rows: int, numbers: IndexArray) -> tuple[Array, int]:
        """Return class codes of rows and the number of classes, or standardised numbers and 0; learn the values."""

    @one_at_a_time
    def fit(
        self, X: "RowsLike", y: "ArrayLike", sample_weight: "ArrayLike | None" = None, groups: "ArrayLike | None" = None
    ) -> Self:
        """Learn from a table.

        Parameters
        ----------
        X : data frame with text, categories, dates and gaps as they are, or array (NaN for gaps) or sparse matrix of
            shape (n_rows, n_features); of many rows of Dask 100,000 are drawn
        y : what is to be predicted of each row
        sample_weight : weights of at least 0 of the rows, in the loss and in their votes; whole numbers count as
            repeats of the row, except in what fills the gaps of a data frame, default=None
        groups : the group of each row, such as a person; the rows of a group are left out together, default=None
        """
        check_params(self)
        if is_chunked(X):
            return self._fit_drawn(X, y, sample_weight, groups)
        with all_or_nothing(self), one_blas_thread(), self._limit(), engine_for(X):
            interrupt = self._fit(X, y, sample_weight, groups)
        if interrupt is not None:  # out here, where what was learned until then stays
            raise interrupt
        return self

    def _fit_drawn(self, X: "RowsLike", *by_row: "ArrayLike | None") -> Self:
        """Fit to rows that are drawn from those of Dask, if they are many; their numbers are those in X."""
        drawn = drawn_rows(X, by_row, MOST_LEARNED)
        self.fit(drawn.X, *drawn.by_row)
        rows = self._model.rows
        self._model.rows = replace(rows, numbers=drawn.numbers[rows.numbers])
        self._n_rows = drawn.n_rows
        self._names: Sequence[RowName | None] | None = None
        return self

    def _fit(
        self, X: "RowsLike", y: "ArrayLike", sample_weight: "ArrayLike | None", groups: "ArrayLike | None"
    ) -> BaseException | None:
        """Fit; return the Ctrl-C that ended it early, if any."""
        table = self._table(X, reset=True)
        n = table.shape[0]
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        numbers, weights = repeated(sample_weight, n)
        name = getattr(y, "name", None)
        self.target_name_ = None if name is None else str(name)
        values, n_classes = self._learn_target(to_numpy(y), n, numbers)
        codes = None if groups is None else group_codes(groups, n)[numbers]
        seed = int(check_seed(self.random_state).randint(2**31))
        encoder = Encoder(int(self.n_bins), self.identifiers, self.decimal)
        plain = encoder.fit(table, numbers, seed)
        metric = self._fixed_metric()
        coordinates = None if metric is None else np.asarray(metric.transform(table), dtype=np.float32)[numbers]
        target, folds = Target(values, weights, n_classes), np.full(len(numbers), -1)
        rows = Rows(Points(plain, coordinates), target, numbers, codes, folds)
        interrupt = self._learn(rows, encoder, metric, seed)
        self._names, self._n_rows = row_names(table, n), n
        return interrupt

    def _learn(
        self,
        rows: Rows,
        encoder: Encoder,
        metric: MahalanobisMetric | None,
        seed: int,
        starts: Sequence[RealArray] = (),
    ) -> BaseException | None:
        """Learn from rows, perhaps from earlier maps on; return the Ctrl-C that ended it early, if any."""
        settings = Settings(metric, int(self.n_components), self.linear, self.trees, seed)
        with progress_bar(type(self).__name__, N_STEPS, self.verbose) as show:
            self._model, interrupt = learn(rows, encoder, settings, show, starts)
        self._forget_cached()
        return interrupt

    @one_at_a_time
    def refit(self) -> Self:
        """Learn again from the rows that are there now, from the present map on; the encoding of columns stays."""
        self._check_fitted()
        check_params(self)
        model: Fitted = self._model
        with one_blas_thread(), self._limit():
            interrupt = self._learn(model.rows, model.encoder, model.fixed_metric, model.seed, model.maps)
        if interrupt is not None:
            raise interrupt
        return self

    @one_at_a_time
    def name_rows(self, names: Iterable[RowName]) -> Self:
        """Give names to the training rows, as the index of a data frame of pandas does in `fit`.

        Parameters
        ----------
        names : texts or whole numbers, all different, one for each row that `fit` and `add` got
        """
        self._check_fitted()
        self._names = checked_names(names, self._n_rows)
        return self

    @property
    def rows_(self) -> Array:
        """The training rows that vote, by number or name."""
        return self._called(np.unique(self._fitted_model().rows.numbers))

    @property
    def folds_(self) -> IndexArray:
        """The fold in which each row of `fit` was left out; -1 for rows that never were."""
        rows = self._fitted_model().rows
        folds = np.full(self._n_rows, -1, dtype=np.intp)
        folds[rows.numbers] = rows.folds
        return folds

    @one_at_a_time
    def add(
        self,
        X: "RowsLike",
        y: "ArrayLike",
        sample_weight: "ArrayLike | None" = None,
        names: Iterable[RowName] | None = None,
    ) -> Self:
        """Let more rows vote, from the next call on; the metric, the line and the trees learn from them in `refit`.

        The rows get the next numbers, or the names that a data frame of pandas gives them.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`; classes must be those of `fit`
        names : texts or whole numbers by which the rows are called, default=None
        """
        self._check_fitted()
        table, model = self._table(X, reset=False), self._fitted_model()
        n = table.shape[0]
        values = self._known_target(to_numpy(y), n)
        numbers, weights = repeated(sample_weight, n)
        names = row_names(table, n) if names is None else checked_names(names, n)
        if self._names is not None or names is not None:
            before = list(range(self._n_rows)) if self._names is None else self._names
            after = names if names is not None else list(range(len(before), len(before) + n))
            twice = set(after) & {before[number] for number in model.rows.numbers.tolist()}
            if twice:
                raise ValueError(f"X must name new rows, but {next(iter(twice))!r} is there: forget it first")
            self._names = [*before, *after]
        target = Target(values[numbers], weights, model.rows.target.n_classes)
        self._model = model.with_rows(model.points_of(table).part(numbers), target, numbers + self._n_rows)
        self._n_rows += n
        self._forget_cached()
        return self

    @one_at_a_time
    def forget(self, rows: RowName | Iterable[RowName]) -> Self:
        """Remove training rows: they do not vote from the next call on, and are in no file that is saved after.

        The line and the trees are fitted again to the rest. The metric and the weights of the experts were learned from
        all rows, until `refit`. The numbers of other rows do not change.

        Parameters
        ----------
        rows : numbers of rows, or their names if the data frame of `fit` had names
        """
        self._check_fitted()
        model: Fitted = self._model
        numbers = self._numbers_of(rows)
        places = np.flatnonzero(np.isin(model.rows.numbers, numbers))
        if len(places) == len(model.rows):
            raise ValueError("rows must leave at least one row, got all of them")
        self._model = model.without_rows(places)
        if self._names is not None:  # a name may tell who it was
            gone = set(numbers.tolist())
            self._names = [None if number in gone else name for number, name in enumerate(self._names)]
        self._forget_cached()
        return self

    def _limit(self) -> AbstractContextManager[object]:
        """A context of at most `max_seconds`; without them, a limit around the fit stays."""
        return nullcontext() if self.max_seconds is None else time_limit(self.max_seconds)

    def _numbers_of(self, rows: RowName | Iterable[RowName]) -> IndexArray:
        """Return the numbers of training rows that are given by number or name; raise ValueError for others."""
        named = [rows] if isinstance(rows, str) or not hasattr(rows, "__iter__") else list(rows)
        named = [row.item() if isinstance(row, np.generic) else row for row in named]
        there = set(self._model.rows.numbers.tolist())
        if self._names is None:
            known: dict[RowName | None, int] = {number: number for number in there}
        else:
            known = {self._names[number]: number for number in there}
        unknown = [row for row in named if row not in known]
        if unknown:
            kind = "numbers" if self._names is None else "names"
            raise ValueError(f"rows must be {kind} of training rows, got {unknown[0]!r}, which is none")
        return np.array([known[row] for row in named], dtype=np.intp)

    def _called(self, numbers: IndexArray) -> Array:
        """Return the names of training rows, or their numbers if they have none."""
        if self._names is None:
            return np.asarray(numbers)
        names = np.empty(numbers.size, dtype=object)
        names[:] = [self._names[number] for number in numbers.ravel().tolist()]
        return names.reshape(numbers.shape)

    def _fixed_metric(self) -> MahalanobisMetric | None:
        """Return the metric of the parameter `metric`, or None."""
        metric = _metric_of(self.metric)
        return metric if isinstance(metric, MahalanobisMetric) else None

    def _table(self, X: "RowsLike", *, reset: bool) -> Any:
        """Return a data frame, array or CSR matrix that was checked; learn its columns, or compare them."""
        takes_frames = not reset and self._fitted_model().encoder.table is not None
        if takes_frames or is_frame(X):
            table = checked_table(X)
            if reset:
                self.feature_names_in_ = np.array(names_of(table), dtype=object)
                self.n_features_in_ = len(self.feature_names_in_)
            elif not takes_frames:
                raise ValueError("X must be an array of numbers as in fit, got a data frame")
            return table  # whose columns the encoder compares
        return validate_data(
            self, to_numpy(X), reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan"
        )

    def _fitted_model(self) -> Fitted:
        self._check_fitted()
        return self._model  # type: ignore[no-any-return]

    def _predicted(self, X: "RowsLike") -> FloatArray:
        """Return the probabilities of classes, or the standardised numbers in a column; of Dask not computed yet."""
        model = self._fitted_model()
        if is_chunked(X):
            return mapped_rows(self._predicted, X, model.left_out.shape[1])  # type: ignore[no-any-return]
        X = self._table(X, reset=False)
        with engine_for(X):
            return model.predict(model.points_of(X))

    @property
    def weights_(self) -> dict[str, float]:
        """How much each expert speaks: exponents of probabilities, or shares of numbers."""
        self._check_fitted()
        return dict(zip(EXPERTS, self._model.weights, strict=True))

    @cached_property
    def metric_(self) -> MahalanobisMetric:
        """The learned metric, with the encoder of tables: usable in search, clustering and `explain`."""
        self._check_fitted()
        model: Fitted = self._model
        if (metric := model.fixed_metric) is not None:
            return replace(metric, matrix=metric.matrix * float(model.map[0, 0]) ** 2)
        L = model.map.astype(np.float64)
        return MahalanobisMetric(L.T @ L, preprocessor=model.encoder, origin={"learner": type(self).__name__})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags

    @abstractmethod
    def _known_target(self, y: "ArrayLike", n_rows: int) -> Array:
        """Return labels in the form of those of `fit`; raise ValueError for others."""

    def _forget_cached(self) -> None:
        for name in ("metric_", "_calibration"):
            vars(self).pop(name, None)

    def _prepared(self, X: "RowsLike", level: float) -> Points:
        """Return rows of which sets or intervals of a level are asked."""
        self._check_fitted()
        check_value(level, "level", Fraction)
        X, model = self._table(X, reset=False), self._fitted_model()
        if not (model.rows.folds >= 0).any():
            raise ValueError("this model has no left-out rows, from which sets and intervals follow: fit more rows")
        return model.points_of(X)

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = to_parts(self._model)
        header |= {"names": self._names, "n_rows": self._n_rows, "target_name": self.target_name_}
        return header | self._get_labels(), arrays

    def _set_state(self, header: Mapping[str, object], arrays: Arrays) -> None:
        check_params(self)
        self._names = header_value(header, "names", list, type(None))
        self._n_rows = count_value(header, "n_rows")
        self.target_name_ = header_value(header, "target_name", str, type(None))
        self._set_labels(header)
        self._model = from_parts(header, arrays, self._fixed_metric())
        names = self._names or []
        kinds = {type(name) for name in names} - {str, int, type(None)}  # None is that of a row that was forgotten
        if kinds or len(names) != (0 if self._names is None else self._n_rows):
            raise ModelFileError(f"header entry 'names' should be {self._n_rows} texts or whole numbers")

    def _parts(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._parts()
        if (metric := self._fixed_metric()) is not None:  # a learner is stored as its metric, all that is used of it
            parts, metric_arrays = metric.to_parts()
            header["params"]["metric"] = {"metric": parts}  # type: ignore[index]
            arrays |= prefixed("metric", metric_arrays)
        return header, arrays

    @abstractmethod
    def _get_labels(self) -> dict[str, object]:
        """Return what is known of labels as entries of a header."""

    @abstractmethod
    def _set_labels(self, header: Mapping[str, object]) -> None:
        """Restore what `_get_labels` returned."""
