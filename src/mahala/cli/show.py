"""`mahala show MODEL [DATA ROW...]`: describe a model file, or explain what it says of rows."""

from pathlib import Path
from typing import Annotated

import typer

from mahala.cli.parts.models import load_model
from mahala.cli.parts.options import MODEL_HELP, Decimal, FirstIndex
from mahala.cli.parts.output import Json
from mahala.cli.parts.output import show as print_result
from mahala.cli.parts.predictors import is_predictor
from mahala.cli.parts.show_model import metric_facts, metric_parts, predictor_facts, predictor_parts
from mahala.cli.parts.show_rows import distance_facts, distance_parts, prediction_facts, prediction_parts


def show(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="A table with the columns the model was fitted to.")
    ] = None,
    rows: Annotated[
        list[int] | None,
        typer.Argument(
            metavar="ROW",
            help="A row of DATA, counted from 0, to explain its prediction; two rows to explain their distance.",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="Number of eigenvalues, features, columns or contributions to show.", min=1)
    ] = 10,
    k: Annotated[int, typer.Option("-k", help="With one row: number of training rows to show.", min=1)] = 5,
    decimal: Decimal = None,
    first_index: FirstIndex = 1,
    as_json: Json = False,
) -> None:
    """Describe a model file, or explain what the model says of one or two rows of a table.

    Of a model that predicts: its rows and classes, its error on rows left out, how much each expert speaks, and the
    columns with the largest weights. Of others: the learner and its parameters, the matrix, and the features with the
    largest weights.

    With one row of DATA: the training rows that voted for its prediction, the columns that set it apart from the
    nearest rows that say something else, and what the line and the trees say. The model must be one that predicts.

    With two rows: the contribution of each feature to their distance or similarity. The contributions of all features
    sum to the squared distance; a negative one brings the rows closer together. With a kernel, contributions are those
    of directions instead of features.

    Examples:

        mahala show churn.safetensors

        mahala show state.safetensors --top 3 --json

        mahala show churn.safetensors new.csv 0

        mahala show wine.safetensors wine.csv 0 17 --top 3
    """
    metric, learner = load_model(model)
    if data is None and is_predictor(learner):
        facts = predictor_facts(learner, top) | {"bytes": model.stat().st_size}
        print_result(facts, as_json, lambda facts: predictor_parts(facts, learner, model))
    elif data is None:
        print_result(metric_facts(metric, learner, top), as_json, lambda facts: metric_parts(facts, model))
    elif rows is None or len(rows) > 2:
        raise ValueError(f"ROW must be the number of one row of {data}, or of two, got {len(rows or ())} numbers")
    elif len(rows) == 2:
        facts = distance_facts(metric, data, rows, top, decimal=decimal, first_index=first_index)
        print_result(facts, as_json, distance_parts)
    elif is_predictor(learner):
        print_result(prediction_facts(learner, data, rows[0], k, decimal, first_index), as_json, prediction_parts)
    else:
        raise ValueError(f"ROW must be two numbers, because {model} compares two rows and predicts nothing")
