"""Tables and collections that commands read, and what they tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahala.cli.options import Decimal
from mahala.cli.output import say, terminal

if TYPE_CHECKING:
    from mahala.comparisons import Judgments
    from mahala.data.tables import Table
    from mahala.metric import Metric

# Classes that are made of a label that is a number, and columns of which is told what was done to them.
_BINS, _SHOWN = 4, 25


def read_rows(
    data: str,
    metric: Metric,
    label: str | None = None,
    *,
    items: bool = False,
    decimal: Decimal = None,
    first_index: int = 1,
) -> Table:
    """Read the rows that a metric compares: queries, or items of a bilinear similarity."""
    import warnings

    from mahala.data.datasets import read_data

    n_features = metric.n_item_features if items else metric.n_features_in
    # The model names the features of queries; items with other features have no names.
    of_queries = n_features == metric.n_features_in
    preprocessor = metric.preprocessor if of_queries else None
    names = metric.feature_names if of_queries and preprocessor is None else None
    with warnings.catch_warnings(record=True) as unseen:
        warnings.simplefilter("always")
        table = read_data(
            data,
            label=label,
            decimal=decimal,
            preprocessor=preprocessor,
            features=names,
            n_features=n_features,
            first_index=first_index,
        )
    for warning in unseen:
        say(f"{data}: {warning.message}", err=True)
    return table


def labelled_table(
    data: str,
    label: str | None,
    *,
    drop: Sequence[str] | None,
    keep: Sequence[str] | None,
    keep_ids: bool,
    bins: int | None,
    decimal: Decimal,
    first_index: int,
    purpose: str | None,
    classes: bool = True,
) -> Table:
    """Read the rows to learn from; make classes of a label that is a number, and look for columns that give it away.

    `purpose` says in a message what labels are for; with None there need not be any. Without `classes`, labels that
    are numbers stay what they are.
    """
    from mahala.data.datasets import read_data
    from mahala.data.labels import binned, is_continuous, possible_leaks

    table = read_data(
        data,
        label=label,
        drop=drop or (),
        keep=keep or (),
        identifiers=keep_ids,
        decimal=decimal,
        first_index=first_index,
    )
    if purpose is not None:
        check_labels(table, data, purpose)
    if table.labels is None or not classes:
        return table
    labels, told = table.labels, list(table.columns)

    def add(name: str, said: str) -> None:
        """Add to what is told of a column; of a file, several things may be told."""
        at = max((place for place, (own, _) in enumerate(told) if own == name), default=None)
        if at is None:
            told.append((name, said))
        else:
            told[at] = name, f"{told[at][1]}; {said}"

    if bins is not None or is_continuous(labels):
        labels = binned(labels, bins or _BINS)
        n_classes = len(set(labels.tolist()))
        said = f"label: a regression target, divided into {n_classes} classes of about equal size; --bins sets how many"
        add(label or "label", said)
    if table.preprocessor is not None:
        for name in possible_leaks(table.X, labels, table.preprocessor.feature_groups()):
            add(name, f"alone nearly determines the label: a leak? If so, --drop {name}")
    return table._replace(labels=labels, columns=tuple(told))


def without_single_rows(table: Table, label: str | None) -> Table:
    """Leave out rows that are the only ones of their class, if at least two classes are left."""
    import numpy as np

    assert table.labels is not None, "which are compared"
    values, codes, counts = np.unique(table.labels, return_inverse=True, return_counts=True)
    single = values[counts == 1]
    if len(single) == 0 or len(values) - len(single) < 2:
        return table
    rows = np.flatnonzero(counts[codes] > 1)
    names = ", ".join(map(str, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
    told = (label or "label", f"label: classes of one row left out, which cannot be trained and tested: {names}")
    numbers = rows if table.rows is None else table.rows[rows]
    return table._replace(X=table.X[rows], labels=table.labels[rows], columns=(*table.columns, told), rows=numbers)


def show_columns(columns: Sequence[tuple[str, str]]) -> None:
    """Print what was done to the columns of a table, unless all are used as they are."""
    from rich.markup import escape
    from rich.table import Table as Grid

    changed = [(name, done) for name, done in columns if done != "number"]
    if not changed:
        return
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    grid.add_column(overflow="fold", style="bold")
    grid.add_column(overflow="fold")
    for name, done in changed[:_SHOWN]:
        grid.add_row(escape(name), escape(done), style="yellow" if "left out" in done or "leak" in done else "")
    console = terminal()
    console.print("What was done to the columns", style="dim")
    console.print(grid)
    rest = [f"{len(changed) - _SHOWN} more columns were changed; --json lists them"] if len(changed) > _SHOWN else []
    n_numbers = len(columns) - len(changed)
    rest += [f"{n_numbers} columns are numbers, used as they are"] if n_numbers else []
    for line in rest:
        console.print(line, style="dim")
    console.print()


def check_labels(table: Table, data: Path | str, purpose: str) -> Any:
    """Return the labels of a table; raise ValueError if there are none."""
    if table.labels is not None:
        return table.labels
    if table.feature_names is None:
        raise ValueError(f"{data} has no labels, {purpose}: use an .npz file with X and y")
    names = [name for name, _ in table.columns if table.preprocessor is not None]
    raise ValueError(f"--label must name the column of labels, {purpose}; the columns are {', '.join(names[:20])}")


def read_collection(queries: Path, items: Path, qrels: Path) -> tuple[Any, Any, Judgments]:
    """Read the vectors of queries and items, and the judgments; the ids of a file without ids are row numbers."""
    return read_named_collection(queries, items, qrels)[:3]


def read_named_collection(queries: Path, items: Path, qrels: Path) -> tuple[Any, Any, Judgments, list[str]]:
    """Read what `read_collection` reads, and the ids of the queries."""
    from mahala.comparisons import Judgments
    from mahala.data.search_files import read_qrels, read_vectors

    records = read_qrels(qrels)
    rows, names = {}, {}
    for kind, path in (("query", queries), ("item", items)):
        rows[kind], ids = read_vectors(path)
        names[kind] = [str(name) for name in (range(rows[kind].shape[0]) if ids is None else ids.tolist())]
    judgments = Judgments.from_ids(records, names["query"], names["item"])
    return rows["query"], rows["item"], judgments, names["query"]
