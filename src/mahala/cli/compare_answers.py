"""What `mahala compare ITEMS --triplets FILE` compares: answers about items, and learners that learn from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import mahala
from mahala.cli.items import read_named_items

if TYPE_CHECKING:
    from mahala.data.tables import Table

AnswerKind = Literal["triplets", "pairs", "ratings"]


def answer_table(items: str, kind: AnswerKind, path: Path, *, by: str | None, ids: str | None, seed: int) -> Table:
    """Return answers over the rows of items as the X of a table, and who gave each as its column `by`."""
    from mahala.data.answer_files import is_row_number, names_in, read_answers
    from mahala.evaluation.cross_validation.answers import answers_of

    used = names_in(path, kind, by=by)
    table = read_named_items(items, ids, used)
    # Numbers are those of rows, unless a column was named.
    by_name = ids is not None or table.preprocessor is None or not all(map(is_row_number, used))
    names = None if table.names is None or not by_name else table.names.tolist()
    rows, values, people = read_answers(path, kind, table.X.shape[0], names, by=by)
    if values is not None and values.dtype == bool:
        values = values * 2 - 1  # +1 for similar pairs and -1 for others
    of_kind = mahala.Triplets if kind == "triplets" else mahala.Pairs
    answers = answers_of(of_kind(table.X, *rows), values, seed)
    if people is not None and len(people) != len(answers):
        raise ValueError("--by goes with --triplets and --pairs: ratings become comparisons of two pairs")
    extra = {} if by is None or people is None else {by: people}
    return table._replace(X=answers, labels=None, columns=(), extra=extra)


def answer_learners(answers: mahala.comparisons.Comparisons, names: str | None, seed: int) -> dict[str, Any]:
    """Return the learners from such answers by name, of which some may be chosen."""
    from mahala.evaluation.cross_validation.panel import named_learners, panel_for

    panel = panel_for(answers, seed)
    return panel if names is None else named_learners(filter(None, map(str.strip, names.split(","))), panel)
