"""What `mahala fit DATA --learner NAME` does: learn a metric, and judge it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import typer

import mahala
from mahala.cli.models import learner_named, spectrum
from mahala.cli.options import FitOptions, computing
from mahala.cli.output import escape, fact_grid, show
from mahala.cli.tables import check_labels, labelled_table, show_columns
from mahala.support.limits import stopped_by_ctrl_c
from mahala.support.validation import is_chunked, is_sparse

if TYPE_CHECKING:
    from mahala.data.tables import Table
    from mahala.learner import Learner

# Comparing all rows with each other can take longer than the fit; a sample of this size is accurate enough.
_MOST_MEASURED = 10_000
# Folds of the judge, and how long their fits may take.
_FOLDS, _MOST_SECONDS = 5, 30.0


def fit_learner(asked: FitOptions) -> None:
    """Learn a metric and write it to a model file, or the learner with its state."""
    from mahala.data.scaling import divided, feature_scales

    chosen = learner_named(asked.learner, asked.settings, asked.seed)
    _check(asked)
    with computing(asked.device, asked.scheduler):
        table = _read(asked, chosen)
        if not asked.as_json:
            show_columns(table.columns)
        how = _scaling(asked.scaling, chosen, table, asked.state)
        scales = feature_scales(table.X, how)
        X = divided(table.X, scales)
        started = time.perf_counter()
        stopped = _fit(chosen, X, table.labels)
        seconds = time.perf_counter() - started
        metric = replace(chosen.metric_, feature_names=table.feature_names, preprocessor=table.preprocessor)
        if stopped:
            metric = replace(metric, origin=dict(metric.origin or {}) | {"stopped": "interrupted"})
        # Saved before it is measured, which takes time, too.
        if asked.state:
            if table.feature_names is not None:
                chosen.feature_names_in_ = np.array(table.feature_names, dtype=object)
            if table.preprocessor is not None:
                chosen.preprocessor_ = table.preprocessor
            if stopped and hasattr(chosen, "stop_reason_"):
                chosen.stop_reason_ = "interrupted"
            chosen.save(asked.output)
        elif isinstance(metric, mahala.MahalanobisMetric):
            (metric if how == "none" else replace(metric, scales=scales)).learned_from(table.X).save(asked.output)
        else:
            metric.save(asked.output)
        facts = _facts(chosen, metric, table, X) | {"scaling": how, "seconds": seconds, "file": str(asked.output)}
        facts["stopped"] = "interrupted" if stopped else facts["stopped"]
        facts["columns"] = table.columns
        verdict = None if stopped or asked.state or not asked.judge else _verdict(chosen, table, how, seconds)
        facts["verdict"] = None if verdict is None else verdict.as_dict()
    show(facts, asked.as_json, lambda facts: [fact_grid(_lines(facts, asked.settings, asked.state))])


def _check(asked: FitOptions) -> None:
    """Raise ValueError for options that do not go together."""
    for column, option in ((asked.ids, "--ids"), (asked.groups, "--groups")):
        if column is not None:
            raise ValueError(f"{option} goes with a model that predicts: leave out {option} or --learner")
    refused = {"--keep": asked.keep, "--keep-ids": asked.keep_ids, "--bins": asked.bins, "--decimal": asked.decimal}
    for option, given in refused.items():
        if given and asked.scheduler is not None:
            raise ValueError(f"{option} cannot be used with --scheduler: tables are read as they are")
    if len(asked.data) > 1 and asked.scheduler is None:
        raise ValueError("DATA must be one file, or else --scheduler be given, with which files are read by Dask")


def _read(asked: FitOptions, learner: Learner) -> Table:
    from sklearn.utils import get_tags

    from mahala.data.dask_files import read_in_chunks

    required = get_tags(learner).target_tags.required
    purpose = f"from which {type(learner).__name__} learns" if required else None
    if asked.scheduler is not None:
        names = [name.strip() for text in asked.drop for name in text.split(",")]
        table = read_in_chunks(asked.data, label=asked.label, drop=names)
        if purpose is not None:
            check_labels(table, asked.data[0], purpose)
        return table
    return labelled_table(
        asked.data[0], asked.label, asked.bins, purpose=purpose, classes=not learner._learns_numbers, drop=asked.drop,
        keep=asked.keep, identifiers=asked.keep_ids, decimal=asked.decimal, first_index=asked.first_index,
    )  # fmt: skip


def _fit(learner: Learner, X: Any, y: Any) -> bool:
    """Fit a learner; return whether Ctrl-C stopped it with what it had learned."""
    try:
        # A progress bar would clutter a log file.
        with (
            mahala.show_progress() if sys.stderr.isatty() else nullcontext(),
            stopped_by_ctrl_c(lambda: typer.echo("stopping; Ctrl-C again to stop at once", err=True)) as limit,
        ):
            learner.fit(X, y)
        return limit.stopped
    except KeyboardInterrupt:
        if getattr(learner, "stop_reason_", None) != "interrupted":
            raise  # nothing has been learned yet
        return True


def _verdict(learner: Learner, table: Table, scaling: Literal["standard", "none"], seconds: float) -> Any:
    """Judge a learner by cross-validation; None if that would take long, or if there are too few rows."""
    from mahala.online.similarity_learner import SimilarityLearner

    rows, labels = table.X, table.labels
    if labels is None or is_chunked(rows) or isinstance(learner, SimilarityLearner) or _FOLDS * seconds > _MOST_SECONDS:
        return None
    learners = {type(learner).__name__: learner}
    try:
        return mahala.compare(
            rows, labels, learners, folds=_FOLDS, repeats=1, scaling=scaling, budget=2.0 * _MOST_SECONDS,
            baselines=False, preprocessor=table.preprocessor,
        ).verdict  # fmt: skip
    except ValueError:  # as for a class of one row
        return None


def _scaling(
    asked: Literal["standard", "none"] | None, learner: Learner, table: Table, state: bool
) -> Literal["standard", "none"]:
    from mahala.online.similarity_learner import SimilarityLearner

    bilinear = isinstance(learner, SimilarityLearner)
    if asked == "standard" and (bilinear or state):
        why = (
            f"{type(learner).__name__} learns a bilinear similarity, whose items are not scaled"
            if bilinear
            else "--state saves the learner, which must see later rows in the same scale"
        )
        raise ValueError(f"--scaling must be none here: {why}")
    if asked is not None:
        return asked
    return "none" if bilinear or state or is_sparse(table.X) else "standard"


def _facts(learner: Learner, metric: mahala.Metric, table: Table, X: Any) -> dict[str, Any]:
    values = spectrum(metric)
    facts: dict[str, Any] = {
        "learner": type(learner).__name__,
        "rows": X.shape[0],
        "classes": None if table.labels is None else len(np.unique(table.labels)),
        "features": X.shape[1],
        "rank": None if values is None else metric.n_components,
        "stopped": getattr(learner, "stop_reason_", None),
    }
    if table.labels is None:
        return facts
    if learner._learns_numbers:
        scores = {"measure": "R² of kernel regression", "rows_measured": X.shape[0], "before": None}
        return facts | scores | {"classes": None, "after": learner.score(X, table.labels)}
    return facts | _before_and_after(metric, X, table.labels)


def _before_and_after(metric: mahala.Metric, X: Any, y: Any) -> dict[str, Any]:
    """Return the leave-one-out quality of the Euclidean distance and of the metric."""
    from mahala.engine.inputs import computed

    n_rows = X.shape[0]
    if n_rows > _MOST_MEASURED:
        chosen = np.sort(np.random.default_rng(0).permutation(n_rows)[:_MOST_MEASURED])
        X, y, n_rows = X[chosen], y[chosen], _MOST_MEASURED
    X = computed(X)
    if isinstance(metric, mahala.MahalanobisMetric):
        k = min(3, n_rows - 1)
        measure = f"{k}-NN error"
        before, after = (mahala.knn_error(m, X, y, n_neighbors=k).at(k) for m in (None, metric.projected()))
    else:
        measure = "mean average precision"
        before, after = (mahala.evaluation.mean_average_precision(m, X, y) for m in (None, metric))
    return {"measure": measure, "rows_measured": n_rows, "before": before, "after": after}


def _lines(facts: dict[str, Any], settings: list[str], state: bool) -> Iterator[tuple[str, str | None]]:
    yield "learner", escape(" ".join([facts["learner"], *settings]))
    classes = "" if facts["classes"] is None else f" of {facts['classes']} classes"
    yield "learned from", f"{facts['rows']:,} rows{classes}"
    scaled = ", divided by their standard deviation" if facts["scaling"] == "standard" else ""
    yield "features", f"{facts['features']:,}{scaled}"
    yield "rank", None if facts["rank"] is None else f"{facts['rank']:,}"
    if "measure" in facts:
        sample = "" if facts["rows_measured"] == facts["rows"] else f" ({facts['rows_measured']:,} of them)"
        before = "" if facts["before"] is None else f"{facts['before']:.1%} Euclidean → "
        yield facts["measure"], f"{before}[bold]{facts['after']:.1%}[/bold] learned"
        yield "", f"[dim]on the training rows{sample}, leave-one-out[/dim]"
    yield "verdict", None if facts["verdict"] is None else escape(facts["verdict"]["sentence"])
    stopped = ", stopped by Ctrl-C" if facts["stopped"] == "interrupted" else ""
    yield "took", f"{facts['seconds']:.2g} s{stopped}"
    yield "state" if state else "model", escape(facts["file"])
