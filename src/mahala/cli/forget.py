"""`mahala forget ROW ...`: remove training rows from a model that predicts, for good."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from mahala.cli.parts import options
from mahala.cli.parts.model_rows import load_predictor
from mahala.cli.parts.output import Json
from mahala.cli.parts.predictors import finish_change

if TYPE_CHECKING:
    from mahala.neighbors.rows import RowName


def forget(
    rows: Annotated[list[str], typer.Argument(metavar="ROW...", help="Numbers or names of training rows.")],
    model: options.Model,
    refit: options.Refit = False,
    output: options.Changed = None,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Remove training rows from a model that `mahala fit` made.

    They are not in the file any more, and do not vote. The line and the trees are fitted again to the rest. The metric
    and the weights of the experts were learned from all rows; with --refit, they are learned again from the rest. The
    model file is written whole or not at all. Earlier copies of it still hold the rows.

    Examples:

        mahala forget 12 17 --model churn.safetensors

        mahala forget 12 --model churn.safetensors --refit --output newer.safetensors
    """
    place = output or model
    options.check_output(place, force=force)
    predictor = load_predictor(model)
    before = len(predictor.rows_)
    gone = _called(rows, predictor.rows_.tolist())
    if len(gone) == before:
        raise ValueError("ROW must leave at least one row of the model, got all of them: remove the file instead")
    predictor.forget(gone)
    lines = [("forgotten", f"{len(gone):,}"), ("left", f"{len(predictor.rows_):,} rows")]
    advice = "The metric was learned from all rows; --refit learns it from the rest."
    finish_change(predictor, place, {"forgotten": gone}, lines, refit=refit, advice=advice, as_json=as_json)


def _called(texts: Sequence[str], there: Sequence[RowName]) -> list[RowName]:
    """Return the rows that are meant; a text comes before a number that is written so."""
    lookup = {str(name): name for name in there} | {name: name for name in there if isinstance(name, str)}
    for text in texts:
        if text not in lookup:
            near = get_close_matches(text, lookup, n=1, cutoff=0.8)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            kind = "name" if any(isinstance(name, str) for name in there) else "number"
            raise ValueError(f"ROW must be the {kind} of a training row, got {text!r}{hint}")
    return list(dict.fromkeys(lookup[text] for text in texts))
