"""TablePreprocessor: columns of numbers, text, categories and dates, with gaps, to features."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mahala.data.columns.cells import Decimal, TableDecimal
from mahala.data.columns.plans import ColumnPlan, checked_plan, choose_plans, encoded, record_kind
from mahala.data.columns.values import Column, checked_table, column, is_frame, names_of
from mahala.support.arrays import Arrays, FloatArray
from mahala.support.model_files import ModelFileError, header_value
from mahala.support.names import listed
from mahala.support.parameters import Count, ReadableSignature, Where, check_params, is_count
from mahala.support.validation import check_scale

if TYPE_CHECKING:
    from mahala.support.arrays import RowsLike


# A metric of more features would not fit into memory.
_MOST_HASHED = 65_536
Hashed = Annotated[
    int, Where(lambda value: is_count(value) and value <= _MOST_HASHED, f"an integer from 1 to {_MOST_HASHED}")
]


@dataclass(eq=False, repr=False)
class TablePreprocessor(ReadableSignature, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Convert raw tables, with text, categories, dates and missing values, to features.

    - Numbers stay as they are. A missing one becomes the median, and a 0/1 feature "NAME missing" marks it.
    - Text that holds numbers, such as 1,019.5 or 1.019,5, becomes numbers; the decimal mark is inferred. Up to a tenth
      of the cells may hold something else; they count as missing.
    - Dates become numbers of days since 1970.
    - Categories of up to `max_levels` values become 0/1 features "NAME=VALUE", of which one may be "(missing)". Those
      of more values are hashed to `n_hashed` features "NAME#0", ..., or left out; so are the words of longer text.
    - Constant and empty columns, and those that look like identifiers, are left out: whole numbers that differ in all
      rows and rise or fall from row to row, or fill a range; names that end in id or key, such as customer_id, with
      hardly any value twice; text that differs in most rows.

    `columns_` lists what was done to each column. Values that were not seen in `fit` give zeros and a warning.

    Parameters
    ----------
    max_levels : int, default=50
        Number of values up to which a category gets a feature for each.
    beyond : "hash" or "drop", default="hash"
        What to do with categories of more values and with longer text.
    n_hashed : int, default=16
        Number of features to which a column is hashed.
    identifiers : "drop" or "keep", default="drop"
        What to do with columns that look like identifiers.
    decimal : "auto", "auto,", "." or ",", default="auto"
        Decimal mark of ambiguous text such as 1,019. "auto" infers it from the other columns; without any evidence it
        is a point, with "auto," a comma.

    Attributes
    ----------
    columns_ : list of (str, str)
        The name of each column and what was done to it.
    n_features_in_, feature_names_in_
        The columns of the table.

    Examples
    --------
    >>> import pandas
    >>> table = pandas.DataFrame({"age": [31, None, 46], "plan": ["a", "b", "a"], "paid": ["1,5", "2", "3,25"]})
    >>> preprocessor = TablePreprocessor()
    >>> preprocessor.fit_transform(table).tolist()
    [[31.0, 0.0, 1.0, 0.0, 1.5], [38.5, 1.0, 0.0, 1.0, 2.0], [46.0, 0.0, 1.0, 0.0, 3.25]]
    >>> preprocessor.get_feature_names_out().tolist()
    ['age', 'age missing', 'plan=a', 'plan=b', 'paid']
    >>> for name, done in preprocessor.columns_:
    ...     print(f"{name}: {done}")
    age: number; 1 missing, set to the median 38.5 and marked
    plan: category of 2 values, a 0/1 feature for each
    paid: number with decimal comma
    """

    _: KW_ONLY
    max_levels: Count = 50
    beyond: Literal["hash", "drop"] = "hash"
    n_hashed: Hashed = 16
    identifiers: Literal["drop", "keep"] = "drop"
    decimal: TableDecimal = "auto"

    takes_arrays: ClassVar[bool] = False  # a metric of its features takes arrays of these, not of columns

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Choose what is done to each column of a table: a data frame of pandas or Polars, or a 2-D array."""
        self._learn(X)
        return self

    def fit_transform(self, X: ArrayLike, y: object = None) -> FloatArray:
        """Fit to a table and return its features."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # columns_ has what they say
            return self._features(self._learn(X))

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the features of a table, whose columns may be in another order.

        Raise ValueError if columns are missing; warn of categories that were not seen in `fit`, and of cells that are
        no numbers or dates where others are, which count as missing.
        """
        check_is_fitted(self, "_plans")
        X = checked_table(X)
        names = names_of(X)
        if not is_frame(X):
            if len(names) != self.n_features_in_:
                expected = f"TablePreprocessor is expecting {self.n_features_in_} features as input"
                raise ValueError(f"X has {len(names)} features, but {expected}")
            names = [plan.name for plan in self._plans]
        at = {name: j for j, name in enumerate(names)}
        used = [plan for plan in self._plans if plan.kind != "out"]
        lacking = [plan.name for plan in used if plan.name not in at]
        if lacking:
            word = "columns" if len(lacking) > 1 else "column"
            raise ValueError(f"the table lacks the {word} {listed(lacking)}; its columns are {listed(names)}")
        return self._features(
            (plan, column(X, at[plan.name], as_text=not plan.is_numeric, text_stays=plan.decimal == ","))
            for plan in used
        )

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the features."""
        check_is_fitted(self, "_plans")
        return np.array(self._names, dtype=object)

    @property
    def columns_(self) -> list[tuple[str, str]]:
        """Pairs of the name of each column and what was done to it."""
        check_is_fitted(self, "_plans")
        return [(plan.name, plan.done) for plan in self._plans]

    def feature_groups(self) -> dict[str, list[int]]:
        """Return the numbers of the features that each used column became."""
        check_is_fitted(self, "_plans")
        used = [plan for plan in self._plans if plan.kind != "out"]
        ends = np.cumsum([0, *(len(plan.features(self.n_hashed)) for plan in used)]).tolist()
        return {plan.name: list(range(*ends[j : j + 2])) for j, plan in enumerate(used)}

    def numbers(self) -> list[int]:
        """Return the numbers of the features that are numbers or dates, not 0/1."""
        groups = self.feature_groups()
        return [groups[plan.name][0] for plan in self._plans if plan.is_numeric and plan.kind != "flag"]

    def record_columns(self, features: FloatArray) -> dict[str, str]:
        """Return which columns say when or as which number a row was recorded, and what they hold: "a date" or so.

        `features` are those of a table.
        """
        groups = self.feature_groups()
        found = {
            plan.name: record_kind(plan.name, plan.kind, features[:, groups[plan.name][0]])
            for plan in self._plans
            if plan.kind in ("date", "number")
        }
        return {name: kind for name, kind in found.items() if kind is not None}

    def refitted(self, train: FloatArray, test: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return features of training and test rows, both of this preprocessor, as if it were fitted to the former.

        Missing numbers become the medians of the training rows; a category, or a mark of what is missing, that only
        test rows have is left out. What kind of column each is stays as in `fit`.
        """
        train, test = train.copy(), test.copy()
        groups = self.feature_groups()
        marks = [groups[plan.name] for plan in self._plans if plan.is_numeric and plan.gaps]
        for value, mark in marks:
            present = train[:, mark] == 0.0
            if present.any():
                median = np.median(train[present, value])
                train[~present, value] = median
                test[test[:, mark] != 0.0, value] = median
        coded = [j for plan in self._plans if plan.kind == "category" for j in groups[plan.name]]
        coded += [mark for _, mark in marks]
        test[:, [j for j in coded if not train[:, j].any()]] = 0.0
        return train, test

    def with_decimal(self, decimal: Decimal) -> Self:
        """Return a fitted copy that reads numbers in text with this decimal mark, whatever it was in fit."""
        check_is_fitted(self, "_plans")
        made = type(self)(**self.get_params() | {"decimal": decimal})
        check_params(made)
        return made._set_plans([replace(plan, decimal=decimal) for plan in self._plans])

    def to_header(self) -> dict[str, object]:
        """Return what was fitted as a header entry of a model file."""
        check_is_fitted(self, "_plans")
        return {"params": self.get_params(), "columns": [asdict(plan) for plan in self._plans]}

    def to_parts(self) -> tuple[dict[str, object], Arrays]:
        """Return what was fitted as a header and arrays, of which there are none, for a model file."""
        return self.to_header(), {}

    @classmethod
    def from_header(cls, header: Mapping[str, object]) -> Self:
        """Return the preprocessor of `to_header`; raise ModelFileError if it is damaged."""
        params, columns = header_value(header, "params", dict), header_value(header, "columns", list)
        try:
            made = cls(**params)
            check_params(made)
            return made._set_plans([checked_plan(plan) for plan in columns])
        except (TypeError, ValueError, KeyError) as error:
            raise ModelFileError(f"header entry 'preprocessor' is damaged ({error})") from error

    @classmethod
    def from_feature_names(cls, features: Sequence[str], columns: Iterable[str]) -> tuple[Self, list[int]]:
        """Return a preprocessor that gives features by name, "NAME" or "NAME=VALUE", and their numbers among its own.

        None of the numbers may be missing. A feature of which a table with these columns has none is refused with it.
        """
        columns, levels = list(columns), dict[str, list[str]]()
        for feature in features:
            ends = [at for at, mark in enumerate(feature) if mark == "=" and feature[:at] in columns]
            name = feature[: ends[0]] if ends and feature not in columns else feature
            levels.setdefault(name, []).extend([feature[len(name) + 1 :]] if name != feature else [])
        kinds = {name: "category" if values else "number" for name, values in levels.items()}
        made = cls()._set_plans([ColumnPlan(name, kinds[name], "", levels=tuple(levels[name])) for name in levels])
        return made, [made._names.index(feature) for feature in features]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _learn(self, X: ArrayLike) -> list[tuple[ColumnPlan, Column]]:
        """Choose plans; return those of the columns that are used, with their values."""
        check_params(self)
        framed, X = is_frame(X), checked_table(X)
        names = names_of(X)
        columns = {name: column(X, j) for j, name in enumerate(names)}
        plans = choose_plans(columns, self)
        self._set_plans(plans)
        if framed:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if not self._names:
            reasons = "; ".join(f"{plan.name!r} {plan.done}" for plan in plans[:5])
            raise ValueError(f"no columns are left to be features: {reasons}")
        return [(plan, columns[plan.name]) for plan in plans if plan.kind != "out"]

    def _set_plans(self, plans: list[ColumnPlan]) -> Self:
        self._plans = plans
        self.n_features_in_ = len(plans)
        self._names = [feature for plan in plans for feature in plan.features(self.n_hashed)]
        if len(set(self._names)) < len(self._names):
            twice = next(name for name in self._names if self._names.count(name) > 1)
            raise ValueError(f"the table gives two features named {twice!r}: rename a column")
        return self

    def _features(self, columns: Iterable[tuple[ColumnPlan, Column]]) -> FloatArray:
        """Return the features of the columns that are used; raise one ValueError for all that cannot be read."""
        groups, problems, parts = self.feature_groups(), [], {}
        for plan, values in columns:
            try:
                parts[plan.name] = check_scale(encoded(plan, values, self.n_hashed), f"column {plan.name!r}")
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("; ".join(problems))
        return np.hstack([parts[name] for name in groups])


def rows_of_table(X: RowsLike) -> tuple[RowsLike, TablePreprocessor | None]:
    """Return the features of a data frame and what made them; anything else as it is, and None."""
    if not is_frame(X):
        return X, None
    preprocessor = TablePreprocessor()
    return preprocessor.fit_transform(X), preprocessor
