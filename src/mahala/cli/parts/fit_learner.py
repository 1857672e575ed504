"""What `mahala fit DATA --learner NAME` does: learn a metric, and judge it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import mahala
from mahala.cli.parts.models import learner_named, spectrum
from mahala.cli.parts.options import FitOptions, computing
from mahala.cli.parts.output import Facts, escape, fact_grid, show
from mahala.cli.parts.predictors import in_progress
from mahala.cli.parts.tables import check_labels, labelled_table, show_columns
from mahala.support.validation import is_chunked

if TYPE_CHECKING:
    from mahala.data.scaling import Scaling
    from mahala.data.tables import Table
    from mahala.learner import Learner
    from mahala.metric import Scales

# Folds of the judge, and how long their fits may take.
_FOLDS, _MOST_SECONDS = 5, 30.0
_SCALED = {
    "none": "",
    "numbers": ", numbers divided by their standard deviation",
    "standard": ", divided by their standard deviation",
    "minmax": ", divided by their range",
    "robust": ", divided by the distance between their quartiles",
}


def fit_learner(options: FitOptions) -> None:
    """Learn a metric and write it to a model file, or the learner with its state."""
    learner = learner_named(options.learner, options.settings, options.seed)
    _check(options)
    with computing(options.device, options.scheduler):
        facts = _fitted(options, learner)
    show(facts, options.as_json, lambda facts: [fact_grid(_lines(facts, options))])


def _check(options: FitOptions) -> None:
    """Raise ValueError for options that do not go together."""
    for option, value in {"--ids": options.ids, "--groups": options.groups}.items():
        if value is not None:
            raise ValueError(f"{option} goes with a model that predicts: leave out {option} or --learner")
    of_tables = {
        "--keep": options.keep, "--keep-ids": options.keep_ids, "--bins": options.bins, "--decimal": options.decimal
    }  # fmt: skip
    for option, is_set in of_tables.items():
        if is_set and options.scheduler is not None:
            raise ValueError(f"{option} cannot be used with --scheduler: tables are read as they are")
    if len(options.data) > 1 and options.scheduler is None:
        raise ValueError("DATA must be one file, or else --scheduler be given, with which files are read by Dask")


def _fitted(options: FitOptions, learner: Learner) -> Facts:
    """Fit, write and judge a learner; return what to print."""
    from mahala.data.scaling import learner_scales
    from mahala.metric import Scales

    table = _read(options, learner)
    if not options.as_json:
        show_columns(table.columns)
    scaling = _scaling(options, learner, table)
    steps = [] if _stays_raw(options, learner) else [Scales(learner_scales(table.X, scaling))]
    X = steps[0].apply(table.X) if steps else table.X
    started = time.perf_counter()
    stopped = in_progress(
        lambda: learner.fit(X, table.labels), lambda: getattr(learner, "stop_reason_", None) == "interrupted"
    )
    seconds = time.perf_counter() - started
    metric = _saved(options, learner, table, steps, stopped)
    classes = None if table.labels is None or learner._learns_numbers else len(np.unique(table.labels))
    judged = options.judge and not options.state and not stopped and _FOLDS * seconds <= _MOST_SECONDS
    board = _judged(learner, table, scaling) if judged else None
    return {
        "learner": type(learner).__name__,
        "rows": X.shape[0],
        "classes": classes,
        "features": X.shape[1],
        "rank": None if spectrum(metric) is None else metric.n_components,
        "stopped": "interrupted" if stopped else getattr(learner, "stop_reason_", None),
        "scaling": scaling,
        "seconds": seconds,
        "file": str(options.output),
        "columns": table.columns,
        "verdict": None if board is None else board.verdict.as_dict(),
        "cautions": [] if board is None else list(map(str, board.cautions)),
    }


def _read(options: FitOptions, learner: Learner) -> Table:
    from sklearn.utils import get_tags

    from mahala.data.dask_files import read_in_chunks

    required = get_tags(learner).target_tags.required
    purpose = f"from which {type(learner).__name__} learns" if required else None
    if options.scheduler is not None:
        names = [name.strip() for text in options.drop for name in text.split(",")]
        table = read_in_chunks(options.data, label=options.label, drop=names)
        if purpose is not None:
            check_labels(table, options.data[0], purpose)
        return table
    return labelled_table(
        options.data[0], options.label, options.bins, purpose=purpose, classes=not learner._learns_numbers,
        drop=options.drop, keep=options.keep, identifiers=options.keep_ids, decimal=options.decimal,
        first_index=options.first_index,
    )  # fmt: skip


def _scaling(options: FitOptions, learner: Learner, table: Table) -> Scaling:
    """Return the scaling of the features: the one given, or the one that `mahala compare` would choose for all rows."""
    from mahala.data.scaling import tried_scalings
    from mahala.evaluation.cross_validation.measuring import scaling_for

    if _stays_raw(options, learner):
        if options.scaling not in ("auto", "none"):
            why = (
                f"{type(learner).__name__} learns a bilinear similarity, whose items are not scaled"
                if _is_bilinear(learner)
                else "--state saves the learner, which must see later rows in the same scale"
            )
            raise ValueError(f"--scaling must be none here: {why}")
        return "none"
    if options.scaling != "auto":
        return options.scaling
    if table.labels is None or is_chunked(table.X):
        return tried_scalings(table.X)[0]
    return scaling_for(table.X, table.labels, numbers=learner._learns_numbers, seed=options.seed)


def _stays_raw(options: FitOptions, learner: Learner) -> bool:
    """Return whether a learner sees the features as they are, since later rows will not be scaled."""
    return options.state or _is_bilinear(learner)


def _is_bilinear(learner: Learner) -> bool:
    from mahala.online.similarity_learner import SimilarityLearner

    return isinstance(learner, SimilarityLearner)


def _saved(options: FitOptions, learner: Learner, table: Table, steps: list[Scales], stopped: bool) -> mahala.Metric:
    """Write the model file, which has the names and the scales of the features; return the metric."""
    metric: mahala.Metric = replace(learner.metric_, feature_names=table.feature_names, preprocessor=table.preprocessor)
    if stopped:
        metric = replace(metric, origin=dict(metric.origin or {}) | {"stopped": "interrupted"})
    if options.state:
        if table.feature_names is not None:
            learner.feature_names_in_ = np.array(table.feature_names, dtype=object)
        if table.preprocessor is not None:
            learner.preprocessor_ = table.preprocessor
        if stopped and hasattr(learner, "stop_reason_"):
            learner.stop_reason_ = "interrupted"
        learner.save(options.output)
        return metric
    if isinstance(metric, mahala.MahalanobisMetric):
        metric = metric.after(*steps).learned_from(table.X)
    metric.save(options.output)
    return metric


def _judged(learner: Learner, table: Table, scaling: Scaling) -> mahala.evaluation.Leaderboard | None:
    """Judge a learner by cross-validation; None without labels, for a similarity, or if there are too few rows."""
    if table.labels is None or is_chunked(table.X) or _is_bilinear(learner):
        return None
    try:
        return mahala.compare(
            table.X, table.labels, {type(learner).__name__: learner}, folds=_FOLDS, repeats=1, scaling=scaling,
            budget=2.0 * _MOST_SECONDS, baselines=False, preprocessor=table.preprocessor,
        )  # fmt: skip
    except ValueError:  # as for a class of one row
        return None


def _lines(facts: Facts, options: FitOptions) -> Iterator[tuple[str, str | None]]:
    yield "learner", escape(" ".join([facts["learner"], *options.settings]))
    classes = "" if facts["classes"] is None else f" of {facts['classes']} classes"
    yield "learned from", f"{facts['rows']:,} rows{classes}"
    yield "features", f"{facts['features']:,}{_SCALED[facts['scaling']]}"
    yield "rank", None if facts["rank"] is None else f"{facts['rank']:,}"
    yield from (("caution", escape(caution)) for caution in facts["cautions"])
    yield "verdict", None if facts["verdict"] is None else escape(facts["verdict"]["sentence"])
    stopped = ", stopped by Ctrl-C" if facts["stopped"] == "interrupted" else ""
    yield "took", f"{facts['seconds']:.2g} s{stopped}"
    yield "state" if options.state else "model", escape(facts["file"])
