"""`mahala fit DATA`: fit a model that predicts to a table, or learn a metric by a learner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mahala.cli.parts import options
from mahala.cli.parts.fit_learner import fit_learner
from mahala.cli.parts.fit_predictor import NAMES, fit_predictor
from mahala.cli.parts.output import Json


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
    learner: Annotated[
        str,
        typer.Option(
            help="auto for a model that predicts, NeighborClassifier or NeighborRegressor to say which one, or a "
            "learner of metrics such as LMNN, GML, PA or OASIS."
        ),
    ] = "auto",
    settings: options.Settings = None,
    scaling: Annotated[
        options.ScalingName,
        typer.Option(
            help="With a learner: divide features by their deviation, range or quartiles; auto: chosen as in compare, "
            "none for bilinear similarities."
        ),
    ] = "auto",
    ids: Annotated[
        str | None, typer.Option(help="Column with the names of the rows, by which predictions are explained.")
    ] = None,
    groups: options.Groups = None,
    drop: options.Drop = None,
    keep: options.Keep = None,
    keep_ids: options.KeepIds = False,
    bins: options.Bins = None,
    decimal: options.Decimal = None,
    first_index: options.FirstIndex = 1,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge/--no-judge",
            help="Measure other models beside the one that predicts; cross-validate a learner, if that takes up to "
            "half a minute.",
        ),
    ] = True,
    state: Annotated[
        bool, typer.Option("--state", help="With a learner: save it, to learn more later; no scaling.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The random_state of the model or learner.", min=0)] = 0,
    device: options.Device = None,
    scheduler: options.Scheduler = None,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Fit a model that predicts a column of a table, and write it to a model file.

    The model predicts classes, or numbers if --label names a column of many different ones, by votes of the training
    rows, beside them a line and boosted trees. It takes columns of numbers, text and dates with gaps. Its error on rows
    left out is printed beside those of plain models on the same rows. `predict` and `show` use the model file, and
    `add` and `forget` change it. It holds the training rows.

    With --learner NAME, learn a metric instead. Its file stores the names and scales of the features, so that
    `transform`, `search` and `show` accept raw tables. The verdict says whether it helps rows not learned from; use
    `mahala compare` to choose among learners.

    Ctrl-C stops a fit after its iteration or chunk of steps, and saves the model so far. A second Ctrl-C stops at once.

    Examples:

        mahala fit wine

        mahala fit wine.csv --label maker --output wine.safetensors

        mahala fit customers.csv --label churned --ids id --set trees=False --output churn.safetensors

        mahala fit wine.csv --label maker --learner lmnn --set n_neighbors=5 --output wine.safetensors

        mahala fit clicks.npz --learner oasis --state --output state.safetensors

        mahala fit folder/*.parquet --label maker --learner nca --scheduler local --output wine.safetensors
    """
    output = Path(f"{Path(data[0].removesuffix('.gz')).stem}.safetensors") if output is None else output
    options.check_output(output, inputs=map(Path, data), force=force)
    request = options.FitOptions(
        data, label, output, learner, settings or [], scaling, drop or [], keep or [], keep_ids, ids, groups, bins,
        decimal, first_index, judge, state, seed, scheduler, device, as_json,
    )  # fmt: skip
    (fit_predictor if learner.lower() in NAMES else fit_learner)(request)
