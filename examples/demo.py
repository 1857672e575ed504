"""Streams pairs of handwritten digits to six passive-aggressive learners and compares what they learned.

python examples/demo.py [OUTPUT_FOLDER]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mahala import PA, Pairs, knn_error
from mahala.report.plots import error_curves

CHUNK = 2_000
PAIRS = 36_000
LEARNERS = {
    "PA-I+": PA("I", C=0.1),
    "PA-I-": PA("I", C=0.1, psd="end"),
    "PA-II+": PA("II", C=0.01),
    "PA-II-": PA("II", C=0.01, psd="end"),
    "PA-LS+": PA("LS", C=0.001),
    "PA-LS-": PA("LS", C=0.001, psd="end"),
}


def main() -> None:
    output = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")
    output.mkdir(parents=True, exist_ok=True)
    console = Console()
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
    pairs = Pairs.from_labels(X_train, y_train, PAIRS, random_state=0)
    console.print(
        f"[bold]Digits[/bold]: {X.shape[0]} images of {X.shape[1]} pixels, half of them train. A stream of {PAIRS:,} "
        "comparisons says which images show the same digit. Each learner predicts a pair, then learns from the answer."
    )
    # The first call compiles; it is shown by itself so that the seconds below are the learners' own.
    start = time.perf_counter()
    for psd in ("every", "end"):
        PA(psd=psd).partial_fit(pairs[:2])
    knn_error(None, X_train[:50], y_train[:50])
    console.print(f"Kernels are ready after {time.perf_counter() - start:.1f} s.\n")

    seconds = {}
    with Progress(
        TextColumn("{task.description:8}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn(),
        console=console,
    ) as progress:  # fmt: skip
        for name, learner in LEARNERS.items():
            task = progress.add_task(name, total=PAIRS)
            start = time.perf_counter()
            for first in range(0, PAIRS, CHUNK):
                learner.partial_fit(pairs[first : first + CHUNK])
                progress.advance(task, CHUNK)
            seconds[name] = time.perf_counter() - start

    table = Table(title="\nk-NN error on the test half")
    for column in ("metric", "3-NN", "best (k)", "seconds", "rank of M", "passive", "stream error"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    plain = knn_error(None, X_train, y_train, X_test, y_test)
    table.add_row("Euclidean", f"{plain.at(3):.2%}", _best(plain), "", str(X.shape[1]), "", "", end_section=True)
    for name, learner in LEARNERS.items():
        errors = knn_error(learner.metric_, X_train, y_train, X_test, y_test)
        history = learner.history_
        table.add_row(
            name,
            f"{errors.at(3):.2%}",
            _best(errors),
            f"{seconds[name]:.2f}",
            str(learner.metric_.n_components),
            f"{history.passive_share:.0%}",
            f"{history.error_curve()[-1]:.2%}",
        )
    console.print(table)
    console.print(
        '"+" keeps M positive semi-definite after every step, "-" projects it once, when the metric is asked for. '
        "Passive: steps that needed no change. Stream error: pairs predicted wrongly before they were learned from."
    )
    picture = output / "error-curves.png"
    error_curves({name: learner.history_ for name, learner in LEARNERS.items()}).savefig(picture, dpi=150)
    console.print(f"The curves of the predictive error are in [bold]{picture}[/bold].")


def _best(errors) -> str:
    return f"{errors.best_error:.2%} ({errors.best_k})"


if __name__ == "__main__":
    main()
