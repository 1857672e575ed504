"""Models that predict: fit and change them, and say what they are and how good their predictions are."""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

import mahala
from mahala.cli.parts.output import Facts, escape, fact_grid, say, show
from mahala.support.limits import stopped_by_ctrl_c

# Whole numbers that are not changed where they are read as such.
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")

if TYPE_CHECKING:
    from mahala.neighbors.rows import RowName
    from mahala.support.arrays import Array, FloatArray, Places, RowsLike

    Predictor = mahala.NeighborClassifier | mahala.NeighborRegressor


def is_predictor(model: object) -> TypeGuard[Predictor]:
    """Return whether a model predicts classes or numbers of rows."""
    from mahala.neighbors.model import NeighborModel

    return isinstance(model, NeighborModel)


def raw_features(model: Predictor, data: RowsLike) -> FloatArray:
    """Return the columns of a table as numbers, as the trees of a model see them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is unusual was said before
        features: FloatArray = model._model.encoder.plain(data)
        return features


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


def finish_change(
    model: Predictor,
    place: Path,
    facts: Facts,
    lines: Sequence[tuple[str, str]],
    *,
    refit: bool,
    advice: str,
    as_json: bool,
) -> None:
    """Write a model whose rows have changed, after it has learned from them again with `refit`, and show the result."""
    before = model._model
    stopped = refit and in_progress(model.refit, lambda: model._model is not before)
    model.save(place)
    facts = facts | {
        "rows": len(model.rows_),
        "refit": refit,
        "stopped": "interrupted" if stopped else None,
        "score": model.score_ if refit else None,
        "file": str(place),
    }
    learned = f"{score_text(model)}{', stopped by Ctrl-C' if stopped else ''}"
    last = [("refit", learned) if refit else ("", f"[dim]{advice}[/dim]"), ("model", escape(str(place)))]
    show(facts, as_json, lambda _: [fact_grid([*lines, *last])])


def score_text(model: Predictor) -> str:
    """Return how good a model is on rows left out, in words."""
    if not np.isfinite(model.score_):
        return "not measured: no rows were left out"
    measure = f"error {percent(1.0 - model.score_, 1)}" if model.is_classifier else f"R² {model.score_:.4g}"
    return f"{measure} on rows left out"


def expert_shares(model: Predictor) -> dict[str, float]:
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


def value_text(value: object) -> str:
    """Return a class, a number or the name of a row as text.

    >>> value_text(12.3456789), value_text(True), value_text("a")
    ('12.346', 'True', 'a')
    """
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def measures(line: Facts) -> list[str]:
    """Return the error of predictions in words: of classes the share of wrong ones, of numbers two measures."""
    if line.get("seconds") is not None:
        return ["not measured" if name == "error" or name == "mean_absolute_error" else "" for name in _names(line)]
    return [percent(line[name], 1) if name == "error" else f"{line[name]:.4g}" for name in _names(line)]


def _names(line: Facts) -> list[str]:
    return [name for name in ("error", "mean_absolute_error", "r2") if name in line]


def errors_of(predicted: Array, labels: Array, *, classes: bool) -> dict[str, float]:
    """Return how wrong predictions are: the share of wrong classes, or the mean absolute error of numbers and R²."""
    if classes:
        return {"error": float(np.mean(predicted != labels))}
    variance = float(np.mean(np.square(labels - labels.mean())))
    squared = float(np.mean(np.square(predicted - labels)))
    return {
        "mean_absolute_error": float(np.mean(np.abs(predicted - labels))),
        "r2": 1.0 - squared / variance if variance > 0.0 else float("nan"),
    }


def errors_text(errors: Facts) -> str:
    """Return errors in a sentence.

    >>> errors_text({"error": 0.034}), errors_text({"mean_absolute_error": 1.25, "r2": 0.5})
    ('error 3.4 %', 'mean error 1.25, R² 0.5')
    """
    titles = {"error": "error", "mean_absolute_error": "mean error", "r2": "R²"}
    names = _names(errors)
    return ", ".join(f"{titles[name]} {text}" for name, text in zip(names, measures(errors), strict=True))


def names_of_rows(values: Array, column: str, rows: Places = slice(None)) -> list[RowName]:
    """Return the values of a column, or of some rows of it, as names of rows.

    Raise ValueError unless they are there and differ.
    """
    cells = values[rows].tolist()
    if all(isinstance(value, str) and _WHOLE.fullmatch(value) for value in cells):  # cells of a CSV file are text
        cells = list(map(int, cells))
    names = [int(value) if isinstance(value, float) and value.is_integer() else value for value in cells]
    n_gaps = sum(name is None or name != name or name == "" for name in names)
    if n_gaps:
        raise ValueError(f"--ids must name a column with a value in every row, but {column!r} has {n_gaps:,} gaps")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"--ids must name a column of different values, but {column!r} has {name!r} {count:,} times")
    return [name if isinstance(name, int) else str(name) for name in names]
