"""`mahala inspect MODEL`: describe a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahala.cli.models import load_model, spectrum
from mahala.cli.options import MODEL_HELP
from mahala.cli.output import Json, bar, print_json, terminal
from mahala.cli.tables import show_columns

if TYPE_CHECKING:
    from rich.console import Console

    from mahala.learner import Learner
    from mahala.metric import Metric

# Widths of the longest bar and of a line without bars.
_BAR, _BARE = 40, 40


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    top: Annotated[int, typer.Option(help="Number of eigenvalues and features to show.", min=1)] = 10,
    as_json: Json = False,
) -> None:
    """Describe a model file: the learner and its parameters, the matrix, and the features with the largest weights.

    Examples:

        mahala inspect wine.safetensors

        mahala inspect state.safetensors --top 3 --json
    """
    metric, learner = load_model(model)
    told = _facts(metric, learner, top)
    if as_json:
        print_json(told)
    else:
        _show(told, model)


def _facts(metric: Metric, learner: Learner | None, top: int) -> dict[str, Any]:
    import numpy as np

    origin = metric.origin or {}
    values = spectrum(metric)
    kernel_map = getattr(metric, "kernel_map", None)
    told: dict[str, Any] = {
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
        "comparisons": getattr(learner, "n_steps_", None),
        "updates": getattr(learner, "n_updates_", None),
        "mistakes": getattr(learner, "n_mistakes_", None),
        "impressions": getattr(learner, "n_impressions_", None),
        "trust": getattr(learner, "trust_", None),
        "verdict": getattr(learner, "verdict_", None),
        "iterations": getattr(learner, "n_iter_", None),
        "objective": getattr(learner, "objective_", None),
        "stopped": getattr(learner, "stop_reason_", origin.get("stopped")),
        "partial": origin.get("partial"),
    }
    if metric.preprocessor is not None:
        told["columns"] = metric.preprocessor.columns_
    if kernel_map is None and metric.matrix.shape[0] == metric.matrix.shape[1]:
        weights = np.asarray(metric.matrix.diagonal())
        names = metric.feature_names or [f"x{i}" for i in range(len(weights))]
        order = np.argsort(-np.abs(weights), kind="stable")[:top]
        told["weights"] = [{"feature": names[i], "weight": float(weights[i])} for i in order]
    return told


def _show(told: dict[str, Any], path: Path) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = terminal()
    what = "a bilinear similarity xᵀMy" if told["kind"] == "bilinear" else "a Mahalanobis distance"
    whole = "a learner of " if told["holds"] == "learner" else ""
    console.print(f"[bold]{escape(str(path))}[/bold] holds {whole}{what}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    if told["learner"] is not None:
        params = ", ".join(f"{key}={value!r}" for key, value in sorted((told["params"] or {}).items()))
        grid.add_row("learner", escape(f"{told['learner']}({params})"))
    kernel = f" by the kernel {told['kernel']}, from {told['features']:,} features" if told["kernel"] else ""
    grid.add_row("matrix", f"{' × '.join(f'{length:,}' for length in told['shape'])}{kernel}")
    if told["rank"] is not None:
        grid.add_row("rank", f"{told['rank']:,}")
    if told["sparsity"]:
        grid.add_row("zeros", f"{told['sparsity']:.1%} of the entries")
    if told["scaled"]:
        grid.add_row("scaling", "features are divided by their scales")
    if told["threshold"] is not None:
        grid.add_row("threshold", f"squared distances up to {told['threshold']:.4g} count as similar")
    if told["comparisons"] is not None:
        n = told["comparisons"]
        wrong = f", {told['mistakes'] / n:.1%} predicted wrongly" if n else ""
        grid.add_row("has seen", f"{n:,} comparisons, {told['updates']:,} updates{wrong}")
    if told["verdict"] is not None:
        grid.add_row("has seen", f"{told['impressions']:,} impressions")
        grid.add_row("trust", ", ".join(f"{share:.2f} for {kind} queries" for kind, share in told["trust"].items()))
        grid.add_row("verdict", escape(told["verdict"]))
    if told["iterations"] is not None:
        grid.add_row(
            "iterations", f"{told['iterations']:,}, objective {told['objective']:.6g}, stopped: {told['stopped']}"
        )
    elif told["stopped"] is not None:
        grid.add_row("stopped", {"interrupted": "by Ctrl-C", "time": "by its time limit"}.get(told["stopped"], ""))
    if told["partial"] is not None:
        grid.add_row("chosen", escape(f"by a comparison that was ended after {told['partial']}"))
    console.print(grid)
    if told["spectrum"]:
        name = "singular values" if told["kind"] == "bilinear" else "eigenvalues"
        _bars(console, f"Leading {name}", [(str(i + 1), value) for i, value in enumerate(told["spectrum"])])
    if told["weights"]:
        title = "Features with the largest weights (diagonal of M" + (", scaled features)" if told["scaled"] else ")")
        _bars(console, title, [(line["feature"], line["weight"]) for line in told["weights"]])
    if any(done != "number" for _, done in told.get("columns", ())):
        console.print()
        show_columns(told["columns"])


def _bars(console: Console, title: str, lines: list[tuple[str, float]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", overflow="fold", max_width=40)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    width = min(_BAR, max(0, console.width - _BARE))
    largest = max(abs(value) for _, value in lines)
    for name, value in lines:
        grid.add_row(escape(name), f"{value:.4g}", bar(value, largest, width))
    console.print(f"\n[bold]{title}[/bold]")
    console.print(grid)
