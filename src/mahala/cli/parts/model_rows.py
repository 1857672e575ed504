"""A model file and the rows of a table that it is applied to: what `predict`, `add`, `transform`, `search` share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import mahala
from mahala.cli.parts.output import say
from mahala.cli.parts.predictors import is_predictor, names_of_rows
from mahala.support.arrays import IndexArray

if TYPE_CHECKING:
    from mahala.cli.parts.predictors import Predictor
    from mahala.data.columns.cells import Decimal
    from mahala.data.tables import RawTable, Table
    from mahala.neighbors.rows import RowName
    from mahala.support.arrays import Places


@contextmanager
def warnings_said(source: str) -> Iterator[None]:
    """Print each warning of the block once on stderr, with the name of the file, such as levels not seen in fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"{source}: {message}", err=True)


def read_rows(data: str, metric: mahala.Metric, *, items: bool = False, **reading: Any) -> Table:
    """Read the rows that a metric compares, queries or items of a bilinear similarity; `reading` is for `read_data`."""
    from mahala.data.datasets import read_data

    n_features = metric.n_item_features if items else metric.n_features_in
    # The model names the features of queries; items with other features have no names.
    of_queries = n_features == metric.n_features_in
    preprocessor = metric.preprocessor if of_queries else None
    names = metric.feature_names if of_queries and preprocessor is None else None
    with warnings_said(data):
        return read_data(data, **reading, preprocessor=preprocessor, features=names, n_features=n_features)


def load_predictor(path: Path) -> Predictor:
    """Return the model of a file; raise ValueError if it holds something that does not predict."""
    model = mahala.load(path)
    if is_predictor(model):
        return model
    origin = getattr(getattr(model, "metric_", model), "origin", None) or {}
    what = f"a metric learned by {origin['learner']}" if "learner" in origin else f"a {type(model).__name__}"
    raise ValueError(
        f"--model {path} holds {what}, which predicts nothing: make a model that predicts with "
        "`mahala fit TABLE --label COLUMN`, without --learner"
    )


class KnownLabels(NamedTuple):
    """Labels of some rows in the form of those that a model was fitted to: None or NaN for what it cannot hold."""

    rows: IndexArray  # numbers of the rows that have one
    values: list[object]
    texts: list[str]


@dataclass(frozen=True)
class NewRows:
    """Rows that were read for a model that predicts: all columns of a table, or a file without column names."""

    source: str
    table: RawTable
    decimal: Decimal

    @classmethod
    def read(
        cls, data: str, model: Predictor, decimal: Decimal | None, first_index: int, ids: str | None = None
    ) -> NewRows:
        """Read rows; the model reads numbers in text with the decimal mark, if there is one."""
        from mahala.data.columns.values import is_frame
        from mahala.data.datasets import read_raw_data
        from mahala.data.tables import unknown_column
        from mahala.support.names import listed

        encoder = model._model.encoder
        n_features = None if encoder.table is not None else model.n_features_in_
        table = read_raw_data(data, first_index=first_index, n_features=n_features)
        columns = list(table.data.columns) if is_frame(table.data) else []
        if columns and encoder.table is None:
            fitted = f"rows of {n_features} numbers without column names: use an .npy, .npz or .svm file"
            raise ValueError(f"{data} has column names, but the model was fitted to {fitted}")
        if not columns and encoder.table is not None:
            raise ValueError(
                f"{data} has no column names, but the model was fitted to {listed(model.feature_names_in_)}"
            )
        if ids is not None and ids not in columns:
            raise ValueError(f"--ids names the column {ids!r}, {unknown_column(ids, data, columns)}")
        if decimal is not None:
            model._model.encoder = encoder.with_decimal(decimal)
        return cls("standard input" if data == "-" else data, table, decimal or table.decimal)

    @property
    def data(self) -> Any:
        """The columns, or the rows without column names."""
        return self.table.data

    def names(self, column: str, rows: Places = slice(None)) -> list[RowName]:
        """Return the names of all rows, or of some, from a column."""
        return names_of_rows(np.array(self.data[column].to_list()), column, rows)

    @contextmanager
    def named(self) -> Iterator[None]:
        """A context in which warnings and errors get the name of the file."""
        with warnings_said(self.source):
            try:
                yield
            except ValueError as error:
                raise ValueError(f"{self.source}: {error}") from None

    def labels(self, model: Predictor, column: str | None) -> KnownLabels | None:
        """Return the labels of rows as the model knows them, or None if there are none."""
        from mahala.data.columns.cells import cell_values
        from mahala.data.columns.values import is_frame
        from mahala.data.labels import label_column, label_values

        if is_frame(self.data):
            if column is None or column not in self.data.columns:
                return None
            series, present = label_column(self.data[column])
            if not present.any():
                return None
            rows, series = np.flatnonzero(present), series.filter(present)
            texts = series.cast(str).to_list()
            values = label_values(series, self.decimal)[0].tolist()
        elif self.table.labels is not None:
            values = self.table.labels.tolist()
            rows, texts = np.arange(len(values)), list(map(str, values))
        else:
            return None
        if isinstance(model, mahala.NeighborClassifier):
            return KnownLabels(rows, _as_classes(model.classes_.tolist(), values, texts), texts)
        numbers = cell_values(texts, "number", self.decimal).tolist()
        pairs = zip(values, numbers, strict=True)
        return KnownLabels(
            rows, [value if isinstance(value, int | float) else number for value, number in pairs], texts
        )


def _as_classes(classes: list[object], values: list[object], texts: list[str]) -> list[object]:
    """Return labels, which may be written in another way or have another type than in the fit, as classes or None."""
    lookup: dict[object, object] = {str(value): value for value in classes}
    lookup |= {str(value).lower(): value for value in classes if isinstance(value, bool)}
    lookup |= {value: value for value in classes}

    def class_of(value: object, text: str) -> object:
        short = f"{value:.10g}" if isinstance(value, float) else text
        return next((lookup[key] for key in (text, value, short) if key in lookup), None)

    return [class_of(value, text) for value, text in zip(values, texts, strict=True)]
