"""`mahala show MODEL`: describe a model file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mahala.cli.models import load_model, spectrum, trust_text
from mahala.cli.options import MODEL_HELP
from mahala.cli.output import Json, bar, escape, fact_grid, terminal
from mahala.cli.output import show as print_facts
from mahala.cli.predictors import expert_shares, experts_text, is_predictor, percent, score_text
from mahala.cli.tables import show_columns

# Classes that are named.
_NAMED = 10
# Widths of the longest bar and of a line without bars.
_BAR, _BARE = 40, 40
# Facts about a learner, and the attributes that have them.
_OF_LEARNER = {
    "comparisons": "n_steps_", "updates": "n_updates_", "mistakes": "n_mistakes_", "impressions": "n_impressions_",
    "trust": "trust_", "iterations": "n_iter_", "objective": "objective_",
}  # fmt: skip


def show(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    top: Annotated[int, typer.Option(help="Number of eigenvalues and features to show.", min=1)] = 10,
    as_json: Json = False,
) -> None:
    """Describe a model file.

    Of a model that predicts: its rows and classes, its error on rows left out, how much each expert speaks, and the
    columns with the largest weights. Of others: the learner and its parameters, the matrix, and the features with the
    largest weights.

    Examples:

        mahala show churn.safetensors

        mahala show state.safetensors --top 3 --json
    """
    metric, learner = load_model(model)
    if is_predictor(learner):
        facts = _of_predictor(learner, top) | {"bytes": model.stat().st_size}
        print_facts(facts, as_json, lambda facts: _predictor_parts(facts, learner, model))
    else:
        print_facts(_of_metric(metric, learner, top), as_json, lambda facts: _parts(facts, model))


def _of_predictor(model: Any, top: int) -> dict[str, Any]:
    """Return the facts about a model that predicts."""
    encoder = model._model.encoder
    weights = None if model.metric is not None else _largest(model.column_weights(), top)
    rows = model.rows_
    return {
        "holds": "model",
        "learner": type(model).__name__,
        "params": model.get_params(deep=False) | ({"metric": "given"} if model.metric is not None else {}),
        "label": model.target_name_,
        "rows": len(rows),
        "named": rows.dtype == object,
        "classes": model.classes_.tolist() if model.is_classifier else None,
        "columns_used": len(encoder.plain_groups()),
        "features": len(encoder.get_feature_names_out()),
        "rank": model.metric_.n_components,
        "left_out": int((model.folds_ >= 0).sum()),
        "score": model.score_,
        "weights": expert_shares(model),
        "column_weights": weights,
        "columns": encoder.columns_ if encoder.table is not None else [],
    }


def _largest(weights: dict[str, float], top: int) -> list[dict[str, Any]]:
    return [
        {"column": name, "weight": weights[name]} for name in sorted(weights, key=lambda name: -weights[name])[:top]
    ]


def _predictor_parts(facts: dict[str, Any], model: Any, path: Path) -> Iterator[Any]:
    what = "classes" if facts["classes"] is not None else "numbers"
    yield f"[bold]{escape(str(path))}[/bold] holds a model that predicts {what}, and its training rows"
    yield fact_grid((name, None if text is None else escape(text)) for name, text in _predictor_lines(facts, model))
    if facts["column_weights"]:
        lines = [(line["column"], line["weight"]) for line in facts["column_weights"]]
        yield from _bars("Columns with the largest weights (share of the distance of two rows)", lines, percent)
    if any(done != "number" for _, done in facts["columns"]):
        yield ""
        show_columns(facts["columns"])


def _predictor_lines(facts: dict[str, Any], model: Any) -> Iterator[tuple[str, str | None]]:
    changed = [f"{name}={value!r}" for name, value in facts["params"].items() if value != _default(model, name)]
    yield "learner", f"{facts['learner']}({', '.join(changed)})"
    yield "predicts", facts["label"]
    yield "rows", f"{facts['rows']:,}{', with names' if facts['named'] else ''}"
    if facts["classes"] is not None:
        names = ", ".join(map(str, facts["classes"][:_NAMED]))
        yield "classes", f"{len(facts['classes']):,}: {names}{', ...' if len(facts['classes']) > _NAMED else ''}"
    yield "columns", f"{facts['columns_used']:,}, which became {facts['features']:,} features"
    yield "score", score_text(model)
    yield "experts", experts_text(facts["weights"])
    yield "metric", f"rank {facts['rank']:,}"
    yield "size", f"{facts['bytes'] / 1024:,.0f} KiB"


def _default(model: Any, name: str) -> Any:
    return type(model)().get_params(deep=False)[name]


def _of_metric(metric: Any, learner: Any, top: int) -> dict[str, Any]:
    """Return the facts about a metric, or a learner of one."""
    origin = metric.origin or {}
    values = spectrum(metric)
    kernel_map = getattr(metric, "kernel_map", None)
    verdict = getattr(learner, "verdict_", None)
    facts: dict[str, Any] = {
        "holds": "metric" if learner is None else "learner",
        "learner": origin.get("learner"),
        "params": origin.get("params", learner and learner.to_parts()[0]["params"]),
        "kind": metric.kind,
        "shape": list(metric.matrix.shape),
        "features": metric.n_features_in,
        "kernel": None if kernel_map is None else kernel_map.kernel,
        "scaled": getattr(metric, "scales", None) is not None,
        "threshold": getattr(metric, "threshold", None),
        "sparsity": metric.sparsity,
        "rank": None if values is None else metric.n_components,
        "spectrum": None if values is None else values[:top].tolist(),
        "weights": None,
        **{name: getattr(learner, attribute, None) for name, attribute in _OF_LEARNER.items()},
        "verdict": None if verdict is None else verdict.as_dict(),
        "stopped": getattr(learner, "stop_reason_", origin.get("stopped")),
        "partial": origin.get("partial"),
    }
    if metric.preprocessor is not None:
        facts["columns"] = metric.preprocessor.columns_
    if kernel_map is None and metric.matrix.shape[0] == metric.matrix.shape[1]:
        weights = np.asarray(metric.matrix.diagonal())
        names = metric.feature_names or [f"x{i}" for i in range(len(weights))]
        order = np.argsort(-np.abs(weights), kind="stable")[:top]
        facts["weights"] = [{"feature": names[i], "weight": float(weights[i])} for i in order]
    return facts


def _parts(facts: dict[str, Any], path: Path) -> Iterator[Any]:
    what = "a bilinear similarity xᵀMy" if facts["kind"] == "bilinear" else "a Mahalanobis distance"
    whole = "a learner of " if facts["holds"] == "learner" else ""
    yield f"[bold]{escape(str(path))}[/bold] holds {whole}{what}"
    yield fact_grid((name, None if text is None else escape(text)) for name, text in _lines(facts))
    if facts["spectrum"]:
        name = "singular values" if facts["kind"] == "bilinear" else "eigenvalues"
        yield from _bars(f"Leading {name}", [(str(i + 1), value) for i, value in enumerate(facts["spectrum"])])
    if facts["weights"]:
        title = "Features with the largest weights (diagonal of M" + (", scaled features)" if facts["scaled"] else ")")
        yield from _bars(title, [(line["feature"], line["weight"]) for line in facts["weights"]])
    if any(done != "number" for _, done in facts.get("columns", ())):
        yield ""
        show_columns(facts["columns"])


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield names of facts and their texts."""
    if facts["learner"] is not None:
        params = ", ".join(f"{key}={value!r}" for key, value in sorted((facts["params"] or {}).items()))
        yield "learner", f"{facts['learner']}({params})"
    kernel = f" by the kernel {facts['kernel']}, from {facts['features']:,} features" if facts["kernel"] else ""
    yield "matrix", f"{' × '.join(f'{length:,}' for length in facts['shape'])}{kernel}"
    yield "rank", None if facts["rank"] is None else f"{facts['rank']:,}"
    yield "zeros", f"{facts['sparsity']:.1%} of the entries" if facts["sparsity"] else None
    yield "scaling", "features are divided by their scales" if facts["scaled"] else None
    if facts["threshold"] is not None:
        yield "threshold", f"squared distances up to {facts['threshold']:.4g} count as similar"
    if (n := facts["comparisons"]) is not None:
        wrong = f", {facts['mistakes'] / n:.1%} predicted wrongly" if n else ""
        yield "has seen", f"{n:,} comparisons, {facts['updates']:,} updates{wrong}"
    if facts["impressions"] is not None:
        yield "has seen", f"{facts['impressions']:,} impressions"
        yield "trust", trust_text(facts["trust"])
    if facts["verdict"] is not None:
        yield "verdict", facts["verdict"]["sentence"]
    if facts["iterations"] is not None:
        end = f"objective {facts['objective']:.6g}, stopped: {facts['stopped']}"
        yield "iterations", f"{facts['iterations']:,}, {end}"
    elif facts["stopped"] is not None:
        yield "stopped", {"interrupted": "by Ctrl-C", "time": "by its time limit"}.get(facts["stopped"], "")
    if facts["partial"] is not None:
        yield "chosen", f"by a comparison that stopped after {facts['partial']}"


def _bars(title: str, lines: list[tuple[str, float]], text: Callable[[float], str] = "{:.4g}".format) -> Iterator[Any]:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", overflow="fold", max_width=40)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    width = min(_BAR, max(0, terminal().width - _BARE))
    largest = max(abs(value) for _, value in lines)
    for name, value in lines:
        grid.add_row(escape(name), text(value), bar(value, largest, width))
    yield f"\n[bold]{title}[/bold]"
    yield grid
