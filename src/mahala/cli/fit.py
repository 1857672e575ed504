"""`mahala fit DATA`: learn a metric from a table."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mahala.cli.models import learner_named, spectrum
from mahala.cli.options import (
    Bins,
    Decimal,
    Device,
    Drop,
    FirstIndex,
    Force,
    Keep,
    KeepIds,
    Label,
    Scheduler,
    Settings,
    check_output,
    computing,
)
from mahala.cli.output import Json, print_json, terminal
from mahala.cli.tables import check_labels, labelled_table, show_columns

if TYPE_CHECKING:
    from mahala.data.tables import Table
    from mahala.learner import Learner
    from mahala.metric import Metric

# Comparing all rows with each other can take longer than the fit; a sample of this size is accurate enough.
_MOST_MEASURED = 10_000


def fit(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="A .csv, .tsv, .parquet, .npz or .svm file, or a data set such as wine; with --scheduler, Parquet "
            "files, a .zarr group or a folder of them or of X*.npy and y*.npy.",
        ),
    ],
    label: Label = None,
    output: Annotated[Path | None, typer.Option(help="The model file to write; default: NAME.safetensors.")] = None,
    learner: Annotated[str, typer.Option(help="A learner such as PA, GML, LMNN or OASIS.")] = "PA",
    settings: Settings = None,
    scaling: Annotated[
        Literal["standard", "none"] | None,
        typer.Option(help="Divide features by their standard deviation; default: standard unless sparse or bilinear."),
    ] = None,
    drop: Drop = None,
    keep: Keep = None,
    keep_ids: KeepIds = False,
    bins: Bins = None,
    decimal: Decimal = None,
    first_index: FirstIndex = 1,
    state: Annotated[bool, typer.Option("--state", help="Save the learner, to learn more later; no scaling.")] = False,
    seed: Annotated[int, typer.Option(help="The random_state of the learner.", min=0)] = 0,
    device: Device = None,
    scheduler: Scheduler = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a metric from a table with labels and write it to a model file.

    The model file stores the names and scales of the features, so that `transform`, `search` and `explain` accept raw
    tables. The printed error is measured on the training rows; use `mahala compare` to estimate the error on new rows.
    Ctrl-C stops an iterative or online learner after its iteration or chunk of steps, and saves what it has learned so
    far, marked in the model file; a second one stops at once.

    Examples:

        mahala fit wine

        mahala fit wine.csv --label maker --output wine.safetensors

        mahala fit wine.csv --label maker --learner lmnn --set n_neighbors=5 --output wine.safetensors

        mahala fit clicks.npz --learner oasis --state --output state.safetensors

        mahala fit folder/*.parquet --label maker --learner nca --scheduler local --output wine.safetensors
    """
    import numpy as np
    from sklearn.utils import get_tags

    from mahala.data.dask_files import read_in_chunks
    from mahala.data.scaling import divided, feature_scales
    from mahala.metric import MahalanobisMetric
    from mahala.support.contexts import stopped_by_ctrl_c
    from mahala.support.display import show_progress

    output = Path(f"{Path(data[0].removesuffix('.gz')).stem}.safetensors") if output is None else output
    check_output(output, inputs=map(Path, data), force=force)
    chosen = learner_named(learner, settings or [], seed)
    required = get_tags(chosen).target_tags.required
    purpose = f"from which {type(chosen).__name__} learns" if required else None
    for given, option in ((keep, "--keep"), (keep_ids, "--keep-ids"), (bins, "--bins"), (decimal, "--decimal")):
        if given and scheduler is not None:
            raise ValueError(f"{option} cannot be used with --scheduler: tables are read as they are")
    if len(data) > 1 and scheduler is None:
        raise ValueError("DATA must be one file, or else --scheduler be given, with which files are read by Dask")
    with computing(device, scheduler):
        if scheduler is not None:
            names = [name.strip() for text in drop or () for name in text.split(",")]
            table = read_in_chunks(data, label=label, drop=names)
            if required:
                check_labels(table, data[0], str(purpose))
        else:
            table = labelled_table(
                data[0],
                label,
                drop=drop,
                keep=keep,
                keep_ids=keep_ids,
                bins=bins,
                decimal=decimal,
                first_index=first_index,
                purpose=purpose,
                classes=not chosen._learns_numbers,
            )
        if not as_json:
            show_columns(table.columns)
        how = _scaling(scaling, chosen, table, state)
        scales = feature_scales(table.X, how)
        X = divided(table.X, scales)
        started = time.perf_counter()
        try:
            # A progress bar would clutter a log file.
            with (
                show_progress() if sys.stderr.isatty() else nullcontext(),
                stopped_by_ctrl_c(lambda: typer.echo("stopping; Ctrl-C again to stop at once", err=True)) as limit,
            ):
                chosen.fit(X, table.labels)
            stopped = limit.stopped
        except KeyboardInterrupt:
            if getattr(chosen, "stop_reason_", None) != "interrupted":
                raise  # nothing has been learned yet
            stopped = True
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
        elif isinstance(metric, MahalanobisMetric) and how != "none":
            replace(metric, scales=scales).save(output)
        else:
            metric.save(output)
        told = _summary(chosen, metric, table, X) | {"scaling": how, "seconds": seconds, "file": str(output)}
        told["stopped"] = "interrupted" if stopped else told["stopped"]
        told["columns"] = table.columns
    if as_json:
        print_json(told)
    else:
        _show(told, settings or [], state)


def _scaling(
    asked: Literal["standard", "none"] | None, learner: Learner, table: Table, state: bool
) -> Literal["standard", "none"]:
    from mahala.online.similarity_learner import SimilarityLearner
    from mahala.support.validation import is_sparse

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


def _summary(learner: Learner, metric: Metric, table: Table, X: Any) -> dict[str, Any]:
    import numpy as np

    values = spectrum(metric)
    told: dict[str, Any] = {
        "learner": type(learner).__name__,
        "rows": X.shape[0],
        "classes": None if table.labels is None else len(np.unique(table.labels)),
        "features": X.shape[1],
        "rank": None if values is None else metric.n_components,
        "stopped": getattr(learner, "stop_reason_", None),
    }
    if table.labels is None:
        return told
    if learner._learns_numbers:
        scores = {"measure": "R² of kernel regression", "rows_measured": X.shape[0], "before": None}
        return told | scores | {"classes": None, "after": learner.score(X, table.labels)}
    return told | _before_and_after(metric, X, table.labels)


def _before_and_after(metric: Metric, X: Any, y: Any) -> dict[str, Any]:
    """Return the leave-one-out quality of the Euclidean distance and of the metric."""
    import numpy as np

    from mahala.engine.inputs import computed
    from mahala.evaluation.knn import knn_error
    from mahala.evaluation.ranking import mean_average_precision
    from mahala.metric import MahalanobisMetric

    n_rows = X.shape[0]
    if n_rows > _MOST_MEASURED:
        chosen = np.sort(np.random.default_rng(0).permutation(n_rows)[:_MOST_MEASURED])
        X, y, n_rows = X[chosen], y[chosen], _MOST_MEASURED
    X = computed(X)
    if isinstance(metric, MahalanobisMetric):
        k = min(3, n_rows - 1)
        measure = f"{k}-NN error"
        before, after = (knn_error(m, X, y, n_neighbors=k).at(k) for m in (None, metric.projected()))
    else:
        measure = "mean average precision"
        before, after = (mean_average_precision(m, X, y) for m in (None, metric))
    return {"measure": measure, "rows_measured": n_rows, "before": before, "after": after}


def _show(told: dict[str, Any], settings: list[str], state: bool) -> None:
    from rich.markup import escape
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_row("learner", escape(" ".join([told["learner"], *settings])))
    classes = "" if told["classes"] is None else f" of {told['classes']} classes"
    grid.add_row("learned from", f"{told['rows']:,} rows{classes}")
    scaled = ", divided by their standard deviation" if told["scaling"] == "standard" else ""
    grid.add_row("features", f"{told['features']:,}{scaled}")
    if told["rank"] is not None:
        grid.add_row("rank", f"{told['rank']:,}")
    if "measure" in told:
        sample = "" if told["rows_measured"] == told["rows"] else f" ({told['rows_measured']:,} of them)"
        before = "" if told["before"] is None else f"{told['before']:.1%} Euclidean → "
        grid.add_row(told["measure"], f"{before}[bold]{told['after']:.1%}[/bold] learned")
        hint = "" if told["before"] is None else "; new rows: mahala compare"
        grid.add_row("", f"[dim]on the training rows{sample}, leave-one-out{hint}[/dim]")
    stopped = ", stopped by Ctrl-C" if told["stopped"] == "interrupted" else ""
    grid.add_row("took", f"{told['seconds']:.2g} s{stopped}")
    grid.add_row("state" if state else "model", escape(told["file"]))
    terminal().print(grid)
