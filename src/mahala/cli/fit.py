"""`mahala fit DATA`: learn a metric from a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

import mahala
from mahala.cli import options
from mahala.cli.models import learner_named, spectrum
from mahala.cli.output import Json, escape, fact_grid, show
from mahala.cli.tables import check_labels, labelled_table, show_columns
from mahala.support.contexts import stopped_by_ctrl_c
from mahala.support.validation import is_chunked, is_sparse

if TYPE_CHECKING:
    from mahala.data.tables import Table
    from mahala.learner import Learner

# Comparing all rows with each other can take longer than the fit; a sample of this size is accurate enough.
_MOST_MEASURED = 10_000
# Folds of the judge, and how long their fits may take.
_FOLDS, _MOST_SECONDS = 5, 30.0


def fit(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="A .csv, .tsv, .parquet, .npz or .svm file, or a data set such as wine; with --scheduler, Parquet "
            "files, a .zarr group or a folder of them or of X*.npy and y*.npy.",
        ),
    ],
    label: options.Label = None,
    output: Annotated[Path | None, typer.Option(help="The model file to write; default: NAME.safetensors.")] = None,
    learner: Annotated[str, typer.Option(help="A learner such as LMNN, GML, PA or OASIS.")] = "LMNN",
    settings: options.Settings = None,
    scaling: Annotated[
        Literal["standard", "none"] | None,
        typer.Option(help="Divide features by their standard deviation; default: standard unless sparse or bilinear."),
    ] = None,
    drop: options.Drop = None,
    keep: options.Keep = None,
    keep_ids: options.KeepIds = False,
    bins: options.Bins = None,
    decimal: options.Decimal = None,
    first_index: options.FirstIndex = 1,
    judge: Annotated[
        bool, typer.Option("--judge/--no-judge", help="Cross-validate the learner, if that takes up to half a minute.")
    ] = True,
    state: Annotated[bool, typer.Option("--state", help="Save the learner, to learn more later; no scaling.")] = False,
    seed: Annotated[int, typer.Option(help="The random_state of the learner.", min=0)] = 0,
    device: options.Device = None,
    scheduler: options.Scheduler = None,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Learn a metric from a table with labels and write it to a model file.

    The model file stores the names and scales of the features, so that `transform`, `search` and `explain` accept raw
    tables. The printed error is measured on the training rows, and the verdict on rows not learned from; use `mahala
    compare` to choose among learners.
    Ctrl-C stops an iterative or online learner after its iteration or chunk of steps, and saves the model so far,
    marked in the model file. A second Ctrl-C stops at once.

    Examples:

        mahala fit wine

        mahala fit wine.csv --label maker --output wine.safetensors

        mahala fit wine.csv --label maker --learner lmnn --set n_neighbors=5 --output wine.safetensors

        mahala fit clicks.npz --learner oasis --state --output state.safetensors

        mahala fit folder/*.parquet --label maker --learner nca --scheduler local --output wine.safetensors
    """
    from sklearn.utils import get_tags

    from mahala.data.dask_files import read_in_chunks
    from mahala.data.scaling import divided, feature_scales

    output = Path(f"{Path(data[0].removesuffix('.gz')).stem}.safetensors") if output is None else output
    options.check_output(output, inputs=map(Path, data), force=force)
    chosen = learner_named(learner, settings or [], seed)
    required = get_tags(chosen).target_tags.required
    purpose = f"from which {type(chosen).__name__} learns" if required else None
    for given, option in ((keep, "--keep"), (keep_ids, "--keep-ids"), (bins, "--bins"), (decimal, "--decimal")):
        if given and scheduler is not None:
            raise ValueError(f"{option} cannot be used with --scheduler: tables are read as they are")
    if len(data) > 1 and scheduler is None:
        raise ValueError("DATA must be one file, or else --scheduler be given, with which files are read by Dask")
    with options.computing(device, scheduler):
        if scheduler is not None:
            names = [name.strip() for text in drop or () for name in text.split(",")]
            table = read_in_chunks(data, label=label, drop=names)
            if required:
                check_labels(table, data[0], str(purpose))
        else:
            table = labelled_table(
                data[0], label, bins, purpose=purpose, classes=not chosen._learns_numbers, drop=drop or (),
                keep=keep or (), identifiers=keep_ids, decimal=decimal, first_index=first_index,
            )  # fmt: skip
        if not as_json:
            show_columns(table.columns)
        how = _scaling(scaling, chosen, table, state)
        scales = feature_scales(table.X, how)
        X = divided(table.X, scales)
        started = time.perf_counter()
        stopped = _fit(chosen, X, table.labels)
        seconds = time.perf_counter() - started
        metric = replace(chosen.metric_, feature_names=table.feature_names, preprocessor=table.preprocessor)
        if stopped:
            metric = replace(metric, origin=dict(metric.origin or {}) | {"stopped": "interrupted"})
        # Saved before it is measured, which takes time, too.
        if state:
            if table.feature_names is not None:
                chosen.feature_names_in_ = np.array(table.feature_names, dtype=object)
            if table.preprocessor is not None:
                chosen.preprocessor_ = table.preprocessor
            if stopped and hasattr(chosen, "stop_reason_"):
                chosen.stop_reason_ = "interrupted"
            chosen.save(output)
        elif isinstance(metric, mahala.MahalanobisMetric):
            (metric if how == "none" else replace(metric, scales=scales)).learned_from(table.X).save(output)
        else:
            metric.save(output)
        facts = _facts(chosen, metric, table, X) | {"scaling": how, "seconds": seconds, "file": str(output)}
        facts["stopped"] = "interrupted" if stopped else facts["stopped"]
        facts["columns"] = table.columns
        verdict = None if stopped or state or not judge else _verdict(chosen, table, how, seconds)
        facts["verdict"] = None if verdict is None else verdict.as_dict()
    show(facts, as_json, lambda facts: [fact_grid(_lines(facts, settings or [], state))])


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
