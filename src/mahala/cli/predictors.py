"""Models that predict: read them from files, and say what they are and how good their predictions are."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import mahala
from mahala.cli.output import say


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


def names_of_rows(values: Any, column: str) -> list[Any]:
    """Return the values of a column as names of rows; raise ValueError unless they are there and differ."""
    names = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values.tolist()]
    n_gaps = sum(name == "" for name in names)
    if n_gaps:
        raise ValueError(f"--ids must name a column with a value in every row, but {column!r} has {n_gaps:,} gaps")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"--ids must name a column of different values, but {column!r} has {name!r} {count:,} times")
    return [name if isinstance(name, int) else str(name) for name in names]
