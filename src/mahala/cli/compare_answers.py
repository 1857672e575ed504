"""`mahala compare ITEMS --triplets FILE`: rank learners by the answers that they predict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import mahala
from mahala.cli.leaderboard import LEARNED, MODEL, REPORT, TABLE, finish
from mahala.cli.output import Writer, escape, provenance, records_writer, table, terminal, text_writer
from mahala.support.display import task_bar
from mahala.support.limits import time_limit


def compare_answers(
    items: str,
    kind: Literal["triplets", "pairs", "ratings"],
    path: Path,
    *,
    by: str | None,
    ids: str | None,
    learners: str | None,
    folds: int,
    seconds: float | None,
    seed: int,
    folder: Path,
    report: bool,
    as_json: bool,
) -> None:
    """Compare learners on answers about items, write the report, the models and the table, and show the verdict."""
    from mahala.data.answer_files import read_answers
    from mahala.evaluation import answer_panel
    from mahala.evaluation import compare_answers as evaluation
    from mahala.evaluation.cross_validation.measuring import final_seconds

    X, item_names, preprocessor = _items(items, ids)
    rows, values, people = read_answers(path, kind, X.shape[0], item_names, by=by)
    if values is not None and values.dtype == bool:
        values = values * 2 - 1  # +1 for similar pairs and -1 for others
    of_kind = mahala.Triplets if kind == "triplets" else mahala.Pairs
    answers = answer_panel.answers_of(of_kind(X, *rows), values, seed)
    if people is not None and len(people) != len(answers):
        raise ValueError("--by goes with --triplets and --pairs: ratings become comparisons of two pairs")
    chosen = answer_panel.panel_for(answers, seed)
    if learners is not None:
        given = [name.strip() for name in learners.split(",") if name.strip()]
        chosen = answer_panel.chosen_learners(answers, given, seed)
    errors = terminal(stderr=True)
    with task_bar("Comparing", errors.is_terminal) as update:
        board = evaluation.compare_answers(
            answers, chosen, folds=folds, people=people, seconds=seconds, random_state=seed,
            callback=lambda done, total, name: update(done, name, total),
        )  # fmt: skip

    def fitted(entry: Any) -> mahala.Metric:
        with time_limit(final_seconds(seconds)):
            metric = evaluation.fit_entry(answers, board, entry, chosen.get(entry.name))
        origin = dict(metric.origin or {}) | {"verdict": board.verdict.kind}
        return replace(metric, preprocessor=preprocessor, origin=origin)

    with errors.status("Fitting the winner to all answers…"):
        writers: dict[str, Writer] = {MODEL: fitted(board.winner).save, TABLE: records_writer(board.table())}
        if board.candidate is not None:
            writers[LEARNED] = fitted(board.candidate).save
        if report:
            from mahala.report.answers import answers_page

            measured = provenance("compare", items)
            page = answers_page(board, title=Path(items).stem, saved=_saved(board), measured=measured)
            writers[REPORT] = text_writer(page)
    names = ("kind", "n_answers", "n_items", "n_features", "n_repeated", "agreement", "unit_rows", "folds", "notes")
    facts = {
        **{name: getattr(board, name) for name in (*names, "chosen", "same_chosen", "reference")},
        "seed": board.random_state,
        "winner": board.winner.name,
        "verdict": board.verdict.as_dict(),
        "same_verdict": board.same_verdict.as_dict(),
        "entries": board.table(),
        "items": items,
        "answers": str(path),
    }
    finish(folder, writers, facts, _parts(board), as_json)


def _items(items: str, ids: str | None) -> tuple[Any, Any, Any]:
    """Return the rows of items, their names, or None, and what made rows of a table, or None."""
    from mahala.data.datasets import read_data

    if Path(items).suffix.lower() in (".npy", ".npz", ".parquet"):
        return *mahala.data.read_vectors(items, id=ids), None
    table = read_data(items, extra=[] if ids is None else [ids])
    return table.X, None if ids is None else table.extra[ids].tolist(), table.preprocessor


def _saved(board: mahala.evaluation.AnswerBoard) -> str:
    """Describe the contents of the model files."""
    what = "learned from all answers" if board.winner.learned else "the plain distance"
    text = f"model.safetensors holds {board.winner.name}, {what}."
    if board.candidate is None:
        return text
    which, verdict = ("new", board.verdict) if board.verdict.helps else ("the same", board.same_verdict)
    help_text = {"shown to help": "is shown to help", "probably helps": "probably helps"}[verdict.kind]
    return f"{text} learned.safetensors holds {board.candidate.name}, which {help_text} for {which} items."


def _parts(board: mahala.evaluation.AnswerBoard) -> Iterator[Any]:
    heading, *lines = board.cells()
    result = table(["metric"], ["metric"])
    for title in heading[1:]:
        result.add_column(title, justify="right", no_wrap=True)
    for entry, line in zip(board.entries, lines, strict=True):
        style = "bold" if entry is board.winner else "" if entry.learned else "dim"
        result.add_row(*map(escape, line), style=style)
    yield escape(board.heading())
    yield result
    yield ""
    for entry in board.entries:
        if entry.failure is not None:
            yield f"[yellow]{escape(f'{entry.name} could not be fitted: {entry.failure}')}[/]"
    for sentence in board.sentences():
        yield f"[bold]{escape(sentence)}[/]"
    yield escape(_saved(board))
    yield ""
