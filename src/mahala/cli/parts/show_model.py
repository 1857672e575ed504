"""What `mahala show MODEL` says of a model file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import mahala
from mahala.cli.parts.models import spectrum, trust_text
from mahala.cli.parts.output import Facts, bar, escape, fact_grid, terminal
from mahala.cli.parts.predictors import expert_shares, experts_text, percent, score_text
from mahala.cli.parts.tables import show_columns

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mahala.cli.parts.predictors import Predictor
    from mahala.saved_estimator import SavedEstimator

# Classes that are named.
_NAMED = 10
# Widths of the longest bar and of a line without bars.
_BAR, _BARE = 40, 40
# Facts about a learner, and the attributes that have them.
_OF_LEARNER = {
    "comparisons": "n_steps_", "updates": "n_updates_", "mistakes": "n_mistakes_", "impressions": "n_impressions_",
    "trust": "trust_", "iterations": "n_iter_", "objective": "objective_",
}  # fmt: skip

# A title, and lines of a name, a value and its text.
Chart = tuple[str, list[tuple[str, float, str]]]


def predictor_facts(model: Predictor, top: int) -> Facts:
    """Return the facts about a model that predicts."""
    encoder, shares = model._model.encoder, None
    if model.metric is None:
        shares = sorted(model.column_weights().items(), key=lambda line: -line[1])[:top]
    return {
        "holds": "model",
        "learner": type(model).__name__,
        "params": model.get_params(deep=False) | ({"metric": "given"} if model.metric is not None else {}),
        "label": model.target_name_,
        "rows": len(model.rows_),
        "named": model.rows_.dtype == object,
        "classes": model.classes_.tolist() if isinstance(model, mahala.NeighborClassifier) else None,
        "columns_used": len(encoder.plain_groups()),
        "features": len(encoder.get_feature_names_out()),
        "rank": model.metric_.n_components,
        "left_out": int((model.folds_ >= 0).sum()),
        "score": model.score_,
        "weights": expert_shares(model),
        "column_weights": shares and [{"column": name, "weight": share} for name, share in shares],
        "columns": encoder.columns_ if encoder.table is not None else [],
    }


def predictor_parts(facts: Facts, model: Predictor, path: Path) -> Iterator[RenderableType]:
    """Yield the text about a model that predicts."""
    kind = "numbers" if facts["classes"] is None else "classes"
    yield f"[bold]{escape(str(path))}[/bold] holds a model that predicts {kind}, and its training rows"
    lines = [(line["column"], line["weight"], percent(line["weight"])) for line in facts["column_weights"] or ()]
    charts = [("Columns with the largest weights (share of the distance of two rows)", lines)]
    yield from _parts(_predictor_lines(facts, model), charts, facts["columns"])


def _predictor_lines(facts: Facts, model: Predictor) -> Iterator[tuple[str, str | None]]:
    yield "learner", repr(model)
    yield "predicts", facts["label"]
    yield "rows", f"{facts['rows']:,}{', with names' if facts['named'] else ''}"
    if (classes := facts["classes"]) is not None:
        yield "classes", f"{len(classes):,}: {', '.join(map(str, classes[:_NAMED]))}{', ...' * (len(classes) > _NAMED)}"
    yield "columns", f"{facts['columns_used']:,}, which became {facts['features']:,} features"
    yield "score", score_text(model)
    yield "experts", experts_text(facts["weights"])
    yield "metric", f"rank {facts['rank']:,}"
    yield "size", f"{facts['bytes'] / 1024:,.0f} KiB"


def metric_facts(metric: mahala.Metric, learner: SavedEstimator | None, top: int) -> Facts:
    """Return the facts about a metric, or a learner of one."""
    origin = metric.origin or {}
    values = spectrum(metric)
    steps, kernel = getattr(metric, "steps", ()), getattr(metric, "kernel", None)
    verdict = getattr(learner, "verdict_", None)
    return {
        "holds": "metric" if learner is None else "learner",
        "learner": origin.get("learner"),
        "params": origin.get("params", learner and learner.to_parts()[0]["params"]),
        "kind": metric.kind,
        "shape": list(metric.matrix.shape),
        "features": metric.n_features_in,
        "kernel": kernel,
        "scaled": any(step.kind == "scales" for step in steps),
        "threshold": getattr(metric, "threshold", None),
        "sparsity": metric.sparsity,
        "rank": None if values is None else metric.n_components,
        "spectrum": None if values is None else values[:top].tolist(),
        "weights": _diagonal(metric, top) if kernel is None else None,
        **{name: getattr(learner, attribute, None) for name, attribute in _OF_LEARNER.items()},
        "verdict": None if verdict is None else verdict.as_dict(),
        "stopped": getattr(learner, "stop_reason_", origin.get("stopped")),
        "partial": origin.get("partial"),
    } | ({} if metric.preprocessor is None else {"columns": metric.preprocessor.columns_})


def _diagonal(metric: mahala.Metric, top: int) -> list[Facts] | None:
    """Return the features with the largest weights, if queries and items have the same ones."""
    if metric.matrix.shape[0] != metric.matrix.shape[1]:
        return None
    weights = np.asarray(metric.matrix.diagonal())
    names = metric.feature_names or [f"x{feature}" for feature in range(len(weights))]
    order = np.argsort(-np.abs(weights), kind="stable")[:top]
    return [{"feature": names[feature], "weight": float(weights[feature])} for feature in order]


def metric_parts(facts: Facts, path: Path) -> Iterator[RenderableType]:
    """Yield the text about a metric, or a learner of one."""
    is_bilinear = facts["kind"] == "bilinear"
    what = "a bilinear similarity xᵀMy" if is_bilinear else "a Mahalanobis distance"
    learner = "a learner of " if facts["holds"] == "learner" else ""
    yield f"[bold]{escape(str(path))}[/bold] holds {learner}{what}"
    spectrum = [(str(number), value) for number, value in enumerate(facts["spectrum"] or (), start=1)]
    weights = [(line["feature"], line["weight"]) for line in facts["weights"] or ()]
    titles = {
        "Leading singular values" if is_bilinear else "Leading eigenvalues": spectrum,
        f"Features with the largest weights (diagonal of M{', scaled features' * facts['scaled']})": weights,
    }
    charts = [(title, [(name, value, f"{value:.4g}") for name, value in lines]) for title, lines in titles.items()]
    yield from _parts(_metric_lines(facts), charts, facts.get("columns", ()))


def _metric_lines(facts: Facts) -> Iterator[tuple[str, str | None]]:
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


def _parts(
    lines: Iterator[tuple[str, str | None]], charts: Sequence[Chart], columns: Sequence[tuple[str, str]]
) -> Iterator[RenderableType]:
    """Yield named facts, bars of values, and what was done to columns."""
    from rich.table import Table

    yield fact_grid((name, None if text is None else escape(text)) for name, text in lines)
    width = min(_BAR, max(0, terminal().width - _BARE))
    for title, values in charts:
        if not values:
            continue
        grid = Table.grid(padding=(0, 2))
        grid.add_column(justify="right", overflow="fold", max_width=40)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(no_wrap=True)
        largest = max(abs(value) for _, value, _ in values)
        for name, value, text in values:
            grid.add_row(escape(name), text, bar(value, largest, width))
        yield f"\n[bold]{title}[/bold]"
        yield grid
    if any(done != "number" for _, done in columns):
        yield ""
        show_columns(columns)
