"""Models that predict: read them from files, and say what they are and how good their predictions are."""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import mahala
from mahala.cli.output import say
from mahala.support.limits import stopped_by_ctrl_c

# Whole numbers that are not changed where they are read as such.
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")

if TYPE_CHECKING:
    from mahala.data.columns.cells import Decimal
    from mahala.data.tables import RawTable

    Predictor = mahala.NeighborClassifier | mahala.NeighborRegressor


def is_predictor(model: Any) -> bool:
    """Return whether a model predicts classes or numbers of rows."""
    from mahala.neighbors.model import NeighborModel

    return isinstance(model, NeighborModel)


def load_predictor(path: Path) -> Any:
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


def read_new_rows(
    data: str, model: Any, decimal: Decimal | None, first_index: int, extra: Sequence[str] = ()
) -> RawTable:
    """Read rows for a model: all columns of a table, or the rows of a file without column names.

    The model reads numbers in text with the decimal mark, if one is given.
    """
    from mahala.data.array_files import listed
    from mahala.data.columns.values import is_frame
    from mahala.data.datasets import read_raw_data
    from mahala.data.tables import unknown_column

    encoder = model._model.encoder
    n_features = None if encoder.table is not None else model.n_features_in_
    raw = read_raw_data(data, first_index=first_index, n_features=n_features)
    if is_frame(raw.data) and encoder.table is None:
        columns = f"rows of {n_features} numbers without column names: use an .npy, .npz or .svm file"
        raise ValueError(f"{data} has column names, but the model was fitted to {columns}")
    if not is_frame(raw.data) and encoder.table is not None:
        raise ValueError(f"{data} has no column names, but the model was fitted to {listed(model.feature_names_in_)}")
    for name in extra:
        if not is_frame(raw.data) or name not in raw.data.columns:
            raise ValueError(f"--ids names the column {name!r}, {unknown_column(name, data, _columns(raw))}")
    if decimal is not None:
        model._model.encoder = encoder.with_decimal(decimal)
    return raw


def _columns(raw: RawTable) -> list[str]:
    return list(getattr(raw.data, "columns", ()))


class KnownLabels(NamedTuple):
    """Labels of some rows in the form of those that a model was fitted to: None or NaN for what it cannot hold."""

    rows: Any  # numbers of the rows that have one
    values: list[Any]
    texts: list[str]


def labels_of(raw: RawTable, model: Any, column: str | None, decimal: Decimal | None) -> KnownLabels | None:
    """Return the labels of rows that were read for a model, or None if they have none."""
    from mahala.data.columns.cells import cell_values
    from mahala.data.columns.values import is_frame
    from mahala.data.labels import label_column, label_values

    if is_frame(raw.data):
        if column is None or column not in raw.data.columns:
            return None
        series, present = label_column(raw.data[column])
        if not present.any():
            return None
        rows, series = np.flatnonzero(present), series.filter(present)
        texts = series.cast(str).to_list()
        values = label_values(series, decimal or raw.decimal)[0].tolist()
    elif raw.labels is not None:
        rows, values = np.arange(len(raw.labels)), raw.labels.tolist()
        texts = list(map(str, values))
    else:
        return None
    if model.is_classifier:
        known = _as_classes(model.classes_.tolist(), values, texts)
    else:
        numbers = cell_values(texts, "number", decimal or raw.decimal).tolist()
        known = [
            value if isinstance(value, int | float) else number for value, number in zip(values, numbers, strict=True)
        ]
    return KnownLabels(rows, known, texts)


def _as_classes(classes: list[Any], values: list[Any], texts: list[str]) -> list[Any]:
    """Return labels, which may be written in another way or have another type than in the fit, as classes or None."""
    lookup: dict[Any, Any] = {str(value): value for value in classes}
    lookup |= {str(value).lower(): value for value in classes if isinstance(value, bool)}
    lookup |= {value: value for value in classes}

    def found(value: Any, text: str) -> Any:
        short = f"{value:.10g}" if isinstance(value, float) else text
        return next((lookup[key] for key in (text, value, short) if key in lookup), None)

    return [found(value, text) for value, text in zip(values, texts, strict=True)]


def raw_features(model: Any, data: Any) -> Any:
    """Return the columns of a table as numbers, as the trees of a model see them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is unusual was said before
        return model.metric_.preprocessor.plain(data)


@contextmanager
def warnings_said(data: str) -> Iterator[None]:
    """Print each warning of the block once on stderr, with the name of the file, such as levels not seen in fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"{data}: {message}", err=True)


def in_progress(fit: Callable[[], object], done: Callable[[], bool]) -> bool:
    """Fit with a progress bar on a terminal; return whether Ctrl-C stopped it with what it had learned."""
    try:
        # A progress bar would clutter a log file.
        with (
            mahala.show_progress() if sys.stderr.isatty() else nullcontext(),
            stopped_by_ctrl_c(lambda: say("stopping; Ctrl-C again to stop at once", err=True)) as limit,
        ):
            fit()
        return limit.stopped
    except KeyboardInterrupt:
        if not done():
            raise  # nothing has been learned yet
        return True


def refitted(model: Any) -> bool:
    """Let a model learn again from its rows; return whether Ctrl-C stopped it."""
    before = model._model
    return in_progress(model.refit, lambda: model._model is not before)


def score_text(model: Any) -> str:
    """Return how good a model is on rows left out, in words."""
    if not np.isfinite(model.score_):
        return "not measured: no rows were left out"
    measure = f"error {percent(1.0 - model.score_, 1)}" if model.is_classifier else f"R² {model.score_:.4g}"
    return f"{measure} on rows left out"


def expert_shares(model: Any) -> dict[str, float]:
    """Return the weight of each expert as a share of all."""
    total = sum(model.weights_.values()) or 1.0
    return {name: weight / total for name, weight in model.weights_.items()}


def experts_text(shares: Mapping[str, float]) -> str:
    """Return shares in words.

    >>> experts_text({"rows": 0.55, "line": 0.45, "trees": 0.0})
    'rows 55 %, line 45 %, trees 0'
    """
    return ", ".join(f"{name} {percent(share)}" if share else f"{name} 0" for name, share in shares.items())


def percent(share: float, digits: int = 0) -> str:
    """Return a share as a percentage."""
    return f"{100.0 * share:.{digits}f} %"


def value_text(value: Any) -> str:
    """Return a class, a number or the name of a row as text.

    >>> value_text(12.3456789), value_text(True), value_text("a")
    ('12.346', 'True', 'a')
    """
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def measures(line: Mapping[str, Any]) -> list[str]:
    """Return the error of predictions in words: of classes the share of wrong ones, of numbers two measures."""
    if line.get("seconds") is not None:
        return ["not measured" if name == "error" or name == "mean_absolute_error" else "" for name in _names(line)]
    return [percent(line[name], 1) if name == "error" else f"{line[name]:.4g}" for name in _names(line)]


def _names(line: Mapping[str, Any]) -> list[str]:
    return [name for name in ("error", "mean_absolute_error", "r2") if name in line]


def errors_of(predicted: Any, labels: Any, *, classes: bool) -> dict[str, float]:
    """Return how wrong predictions are: the share of wrong classes, or the mean absolute error of numbers and R²."""
    if classes:
        return {"error": float(np.mean(predicted != labels))}
    variance = float(np.mean(np.square(labels - labels.mean())))
    squared = float(np.mean(np.square(predicted - labels)))
    return {
        "mean_absolute_error": float(np.mean(np.abs(predicted - labels))),
        "r2": 1.0 - squared / variance if variance > 0.0 else float("nan"),
    }


def errors_text(errors: Mapping[str, Any]) -> str:
    """Return errors in a sentence.

    >>> errors_text({"error": 0.034}), errors_text({"mean_absolute_error": 1.25, "r2": 0.5})
    ('error 3.4 %', 'mean error 1.25, R² 0.5')
    """
    titles = {"error": "error", "mean_absolute_error": "mean error", "r2": "R²"}
    names = _names(errors)
    return ", ".join(f"{titles[name]} {text}" for name, text in zip(names, measures(errors), strict=True))


def names_of_rows(values: Any, column: str, rows: Any = slice(None)) -> list[Any]:
    """Return the values of a column, or of some rows of it, as names of rows.

    Raise ValueError unless they are there and differ.
    """
    given = values[rows].tolist()
    if all(isinstance(value, str) and _WHOLE.fullmatch(value) for value in given):  # cells of a CSV file are text
        given = list(map(int, given))
    names = [int(value) if isinstance(value, float) and value.is_integer() else value for value in given]
    n_gaps = sum(name is None or name != name or name == "" for name in names)
    if n_gaps:
        raise ValueError(f"--ids must name a column with a value in every row, but {column!r} has {n_gaps:,} gaps")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"--ids must name a column of different values, but {column!r} has {name!r} {count:,} times")
    return [name if isinstance(name, int) else str(name) for name in names]
