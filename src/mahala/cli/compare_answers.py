"""What `mahala compare ITEMS --triplets FILE` compares: answers about items, and learners that learn from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import mahala

if TYPE_CHECKING:
    from mahala.data.tables import Table

AnswerKind = Literal["triplets", "pairs", "ratings"]


def answer_table(items: str, kind: AnswerKind, path: Path, *, by: str | None, ids: str | None, seed: int) -> Table:
    """Return answers over the rows of items as the X of a table, and who gave each as its column `by`."""
    import numpy as np

    from mahala.data.answer_files import read_answers
    from mahala.evaluation.cross_validation.answers import answers_of

    table, names = _items(items, ids)
    rows, values, people = read_answers(path, kind, table.X.shape[0], names, by=by)
    if values is not None and values.dtype == bool:
        values = values * 2 - 1  # +1 for similar pairs and -1 for others
    of_kind = mahala.Triplets if kind == "triplets" else mahala.Pairs
    answers = answers_of(of_kind(table.X, *rows), values, seed)
    if people is not None and len(people) != len(answers):
        raise ValueError("--by goes with --triplets and --pairs: ratings become comparisons of two pairs")
    extra = {} if by is None or people is None else {by: people}
    names = table.names if names is None else np.array(names, dtype=object)
    return table._replace(X=answers, labels=None, columns=(), extra=extra, names=names)


def answer_learners(answers: mahala.comparisons.Comparisons, names: str | None, seed: int) -> dict[str, Any]:
    """Return the learners from such answers by name, of which some may be chosen."""
    from mahala.evaluation.cross_validation.panel import named_learners, panel_for

    panel = panel_for(answers, seed)
    return panel if names is None else named_learners(filter(None, map(str.strip, names.split(","))), panel)


def _items(items: str, ids: str | None) -> tuple[Table, Any]:
    """Return the rows of items, and their names, or None."""
    from mahala.data.datasets import read_data
    from mahala.data.tables import Table

    if Path(items).suffix.lower() in (".npy", ".npz", ".parquet"):
        X, names = mahala.data.read_vectors(items, id=ids)
        return Table(X, None, None), names
    table = read_data(items, extra=[] if ids is None else [ids])
    return table, None if ids is None else table.extra[ids].tolist()
