"""What `mahala fit DATA` does unless a learner of metrics is named: fit a model that predicts, and measure it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

import mahala
from mahala.cli.parts.models import configured
from mahala.cli.parts.options import FitOptions, computing
from mahala.cli.parts.output import Facts, escape, fact_grid, show
from mahala.cli.parts.output import table as table_of
from mahala.cli.parts.predictors import (
    expert_shares,
    experts_text,
    in_progress,
    measures,
    names_of_rows,
    raw_features,
    value_text,
)
from mahala.cli.parts.references import measured
from mahala.cli.parts.tables import BINS, show_columns
from mahala.data.columns.values import is_frame
from mahala.support.parameters import ParameterError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mahala.cli.parts.predictors import Predictor
    from mahala.data.tables import RawTable
    from mahala.support.arrays import Array

# Values of --learner that name a model that predicts.
NAMES = {"auto": None, "neighborclassifier": "NeighborClassifier", "neighborregressor": "NeighborRegressor"}
# Rows are suspects if the model is so sure of another class, or a number is so far off; and so many are named.
_CLEAR, _FAR, _NAMED = 0.9, 0.97, 5
# The least share of right predictions, or R², with which labels are doubted.
_GOOD, _GOOD_R2 = 0.9, 0.8


def fit_predictor(options: FitOptions) -> None:
    """Fit a model to the columns of a file as they are, write it, and print how good it is."""
    _check(options)
    with computing(options.device, None):
        facts = _fitted(options)
    show(facts, options.as_json, lambda facts: _parts(facts, options.settings))


def _check(options: FitOptions) -> None:
    """Raise ValueError for options that only learners of metrics have."""
    refused = {"--scaling": options.scaling != "auto", "--state": options.state, "--scheduler": options.scheduler}
    for option, is_set in refused.items():
        if is_set:
            raise ValueError(f"{option} goes with a learner of metrics: name one by --learner, such as LMNN")
    if len(options.data) > 1:
        raise ValueError("DATA must be one file, unless --learner and --scheduler are given")


def _fitted(options: FitOptions) -> Facts:
    """Fit, write and measure a model; return what to print."""
    raw, labels, label = _read(options)
    labels, is_number, notes = _target(options, labels, label)
    names = None if raw.rows is None else raw.rows.tolist()  # numbers of rows are those in the file
    if options.ids is not None:
        names = names_of_rows(raw.extra[options.ids], options.ids)
    model = _model(options, raw, is_number)
    started = time.perf_counter()
    groups = None if options.groups is None else raw.extra[options.groups]
    stopped = in_progress(lambda: model.fit(raw.data, labels, groups=groups), model.__sklearn_is_fitted__)
    seconds = time.perf_counter() - started
    model.target_name_ = label
    if names is not None:
        model.name_rows(names)
    model.save(options.output)  # before it is measured, which takes time, too
    columns = _columns(model, raw, labels, notes)
    if not options.as_json:
        show_columns(columns)
    rated = np.flatnonzero(model.folds_ >= 0)
    return {
        "model": type(model).__name__,
        "label": label,
        "rows": raw.data.shape[0],
        "classes": len(model.classes_) if model.is_classifier else None,
        "columns_used": len(model._model.encoder.plain_groups()),
        "left_out": {"rows": len(rated), "folds": len(set(model.folds_[rated].tolist()))},
        "errors": measured(model, raw.data, labels, others=options.judge and not stopped),
        "weights": expert_shares(model),
        "suspects": _suspects(model),
        "cautions": _cautions(model),
        "columns": columns,
        "seconds": seconds,
        "stopped": "interrupted" if stopped else None,
        "file": str(options.output),
        "holds_rows": True,
    }


def _read(options: FitOptions) -> tuple[RawTable, Array, str | None]:
    """Return the columns of the file, the labels and their name; raise ValueError if there is nothing to predict."""
    from mahala.data.datasets import label_of, read_raw_data
    from mahala.support.names import listed

    (data,) = options.data
    label = options.label or label_of(data)
    extra = [name for name in (options.ids, options.groups) if name is not None]
    try:
        raw = read_raw_data(
            data, label=label, drop=options.drop, keep=options.keep, extra=list(dict.fromkeys(extra)),
            decimal=options.decimal, first_index=options.first_index,
        )  # fmt: skip
    except ParameterError as error:
        if extra and "drop and keep name columns" in str(error):
            raise ValueError(f"--ids, --groups, --drop and --keep name columns, but {data} has none") from None
        option = "--ids" if options.groups is None else "--groups" if options.ids is None else "--ids or --groups"
        raise ParameterError(str(error).replace("extra names", f"{option} names"), *error.parameters) from None
    if label in extra:
        raise ValueError(f"--{'ids' if label == options.ids else 'groups'} must name another column than --label")
    if raw.labels is None:
        purpose = "--label must name the column to predict"
        if not is_frame(raw.data):
            raise ValueError(f"{purpose}, but {data} has no labels: use an .npz file with X and y")
        raise ValueError(f"{purpose}; the columns are {listed(raw.data.columns)}")
    if len(set(raw.labels.tolist())) < 2:
        raise ValueError(f"--label {label or 'y'} has the same value in every row, {raw.labels[0]}: nothing to predict")
    return raw, raw.labels, label


def _target(options: FitOptions, labels: Array, label: str | None) -> tuple[Array, bool, dict[str, str]]:
    """Return what is to be predicted, whether that is numbers, and a remark on the label."""
    from mahala.data.labels import binned, is_continuous

    name, notes = NAMES[options.learner.lower()], {}
    if options.bins is not None and name == "NeighborRegressor":
        raise ValueError("--bins makes classes, but NeighborRegressor predicts numbers: leave one of them out")
    if options.bins is not None or (name == "NeighborClassifier" and is_continuous(labels)):
        labels = binned(labels, options.bins or BINS)
        made = f"divided into {len(set(labels.tolist()))} classes of about equal size; --bins sets how many"
        notes[label or "label"] = f"label: a number, {made}"
    is_number = name == "NeighborRegressor" or (name is None and is_continuous(labels))
    if is_number and labels.dtype.kind not in "iuf":
        raise ValueError(f"--label must name a column of numbers for NeighborRegressor, but it holds {labels[0]!r}")
    if not is_number and labels.dtype.kind == "f":  # classes such as 1.5
        labels = np.array([f"{value:.10g}" for value in labels.tolist()], dtype=object)
    return labels, is_number, notes


def _model(options: FitOptions, raw: RawTable, is_number: bool) -> Predictor:
    """Return a model with its parameters, which say how columns are read, too."""
    kind = mahala.NeighborRegressor if is_number else mahala.NeighborClassifier
    model = configured(kind(), options.settings, options.seed)
    if options.keep or options.keep_ids:
        model.identifiers = "keep"
    if options.decimal is not None:
        model.decimal = options.decimal
    elif raw.decimal == "," and model.decimal == "auto":
        model.decimal = "auto,"
    return model


def _columns(model: Predictor, raw: RawTable, labels: Array, notes: dict[str, str]) -> list[tuple[str, str]]:
    """Return what was done to each column, with remarks on the label and on columns that give it away."""
    from mahala.data.labels import binned
    from mahala.data.leaks import possible_leaks

    if not is_frame(raw.data):
        return [*raw.notes, *notes.items()]
    encoder = model._model.encoder
    classes = labels if model.is_classifier else binned(labels, BINS)
    leaks = possible_leaks(raw_features(model, raw.data), classes, encoder.plain_groups())
    notes |= {name: f"alone nearly determines the label: a leak? If so, --drop {name}" for name in leaks}
    columns = [(name, f"{done}; {notes.pop(name)}" if name in notes else done) for name, done in encoder.columns_]
    return [*raw.notes, *columns, *notes.items()]


def _suspects(model: Predictor) -> list[Facts]:
    """Return the rows whose label the model is sure is wrong, if it is good enough to say so."""
    if not model.score_ >= (_GOOD if model.is_classifier else _GOOD_R2):
        return []
    found = model.suspects(_NAMED)
    lines = zip(
        found.rows.tolist(), found.labels.tolist(), found.predicted.tolist(), found.doubts.tolist(), strict=True
    )
    keys, least = ("row", "label", "predicted", "doubt"), _CLEAR if model.is_classifier else _FAR
    return [dict(zip(keys, line, strict=True)) for line in lines if line[-1] >= least]


def _cautions(model: Predictor) -> list[str]:
    """Return that most of the distance is a column that says when or as which number rows were recorded."""
    from mahala.evaluation.cross_validation.cautions import record_cautions

    fitted = model._model
    if fitted.encoder.table is None or fitted.encoder.has_directions:
        return []
    plain = fitted.rows.points.plain[fitted.distinct_voters.places]  # in the order of the table
    records = fitted.encoder.table.record_columns(plain)
    return list(map(str, record_cautions(model.column_weights(), records, type(model).__name__)))


def _parts(facts: Facts, settings: Sequence[str]) -> Iterator[RenderableType]:
    yield fact_grid((name, None if text is None else escape(text)) for name, text in _lines(facts, settings))
    left_out, errors = facts["left_out"], facts["errors"]
    if errors:
        yield ""
        yield f"[bold]Rows left out[/bold], {left_out['rows']:,} in {left_out['folds']} folds, the same for all models"
        titles = ["error"] if facts["classes"] else ["mean error", "R²"]
        grid = table_of(["model", *titles], ["model"])
        for line in errors:
            grid.add_row(escape(line["model"]), *measures(line), style="bold" if line is errors[0] else "")
        yield grid
    yield from (f"[bold yellow]{escape(caution)}[/]" for caution in facts["cautions"])
    if facts["suspects"]:
        yield ""
        yield "[bold]Labels that may be wrong[/bold]: the model, which had not seen these rows, expects another one"
        grid = table_of(["row", "label", "expected"], ["row", "label", "expected"])
        for line in facts["suspects"]:
            grid.add_row(*(escape(value_text(line[name])) for name in ("row", "label", "predicted")))
        yield grid
    yield ""
    forget = f"mahala forget ROW --model {shlex.quote(facts['file'])}"
    privacy = f"The file holds the {facts['rows']:,} training rows; {forget} removes rows for good."
    yield fact_grid([("model", escape(facts["file"])), ("privacy", escape(privacy))])


def _lines(facts: Facts, settings: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    yield "learner", " ".join([facts["model"], *settings])
    yield "predicts", facts["label"]
    classes = "" if facts["classes"] is None else f" of {facts['classes']} classes"
    yield "learned from", f"{facts['rows']:,} rows{classes}"
    yield "columns", f"{facts['columns_used']:,}"
    yield "experts", experts_text(facts["weights"])
    yield "took", f"{facts['seconds']:.2g} s{', stopped by Ctrl-C' if facts['stopped'] else ''}"
