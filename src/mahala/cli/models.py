"""Shared by commands: arguments, learners by name, models and the tables that go with them."""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from mahala.cli.output import say, terminal

if TYPE_CHECKING:
    from mahala.comparisons import Judgments
    from mahala.data.tables import Table
    from mahala.learner import Learner
    from mahala.metric import Metric
    from mahala.saved_estimator import SavedEstimator

Estimator = TypeVar("Estimator", bound="SavedEstimator")

LabelledData = Annotated[
    str, typer.Argument(metavar="DATA", help="A .csv, .tsv, .parquet, .xlsx, .npz or .svm file, - for stdin, or wine.")
]
FittedData = Annotated[str, typer.Argument(metavar="DATA", help="A table with the features the model was fitted with.")]
Label = Annotated[str | None, typer.Option(help="Column of the labels; in .npz files the array (default: y).")]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out, separated by commas; may be repeated.")]
Keep = Annotated[list[str] | None, typer.Option(help="The only columns to use, even if they look like identifiers.")]
KeepIds = Annotated[bool, typer.Option("--keep-ids", help="Use columns that look like identifiers.")]
Bins = Annotated[int | None, typer.Option(help="Number of classes to make of a label that is a number.", min=2)]
Decimal = Annotated[
    Literal[".", ","] | None,
    typer.Option(help="Decimal mark of numbers such as 1,019; default: recognised, or as when the model was fitted."),
]
FirstIndex = Annotated[int, typer.Option(help="Index of the first feature in svmlight files, 1 or 0.", min=0, max=1)]
Jobs = Annotated[int, typer.Option(help="Number of processes.", min=1)]
Device = Annotated[str | None, typer.Option(help="Where sums are computed: cpu, cuda, or cuda:1 and so on.")]
Scheduler = Annotated[
    str | None, typer.Option(help="A Dask scheduler, such as tcp://host:8786, or local for processes of this machine.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace a file that exists, also if it is not a model or report of mahala.")
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="Set a parameter of the learner: NAME=VALUE.")]
MODEL_HELP = "A model file, written by `mahala fit`, `adapt` or `stream`."
Model = Annotated[Path, typer.Option("--model", help=MODEL_HELP)]
Queries = Annotated[
    Path, typer.Option("--queries", help="Vectors of queries: .npy, .npz or .parquet, with or without ids.")
]
Items = Annotated[Path, typer.Option("--items", help="Vectors of items: .npy, .npz or .parquet, with or without ids.")]
Qrels = Annotated[
    Path, typer.Option("--qrels", help="Relevance judgments, BEIR's .tsv or TREC's; without ids, row numbers from 0.")
]

# Classes that are made of a label that is a number, and columns of which is told what was done to them.
_BINS, _SHOWN = 4, 25
# By this line the reports of mahala are known.
GENERATOR = '<meta name="generator" content="mahala">'
# Computing the singular values of a larger bilinear matrix takes minutes.
_LARGEST_DECOMPOSED = 3000


@contextmanager
def computing(device: str | None, scheduler: str | None) -> Iterator[None]:
    """A context in which sums are computed on a device, and what runs in parallel on a cluster of Dask."""
    from mahala.support.config import config_context, get_config

    with ExitStack() as stack:
        stack.enter_context(config_context(engine=device or get_config()["engine"]))
        if scheduler is not None:
            try:
                import dask
                from distributed import Client, LocalCluster
            except ImportError:
                raise ValueError("--scheduler needs Dask: pip install 'mahala[dask]'") from None
            from joblib import parallel_config

            # A client that is refused its address leaves Dask's configuration changed.
            stack.enter_context(dask.config.set(scheduler=None))
            if scheduler == "local":
                address = stack.enter_context(LocalCluster(dashboard_address=":0", threads_per_worker=1))
            else:
                address = scheduler
            try:
                stack.enter_context(Client(address, timeout=10))
            except (OSError, ValueError) as error:
                raise ValueError(f"--scheduler is {scheduler!r}, where no scheduler answers: {error}") from None
            stack.enter_context(parallel_config(backend="dask"))
        yield


def learner_named(name: str, settings: Sequence[str], seed: int | None = None, option: str = "--learner") -> Learner:
    """Return a learner by its name in any case, with settings such as "C=0.1" and `seed` as its random_state."""
    import mahala
    from mahala.learner import Learner

    exact = {known.lower(): known for known in mahala.__all__}.get(name.lower(), "")
    kind: Any = getattr(mahala, exact, None)
    if not _is_learner(kind, Learner):
        names = [known for known in mahala.__all__ if _is_learner(getattr(mahala, known), Learner)]
        raise ValueError(f"{option} is {name!r}, not a learner{_nearest(name, names)}; choose from {', '.join(names)}")
    learner: Learner = kind()
    return configured(learner, settings, seed)


def configured(learner: Estimator, settings: Sequence[str], seed: int | None = None) -> Estimator:
    """Return a learner after changing its parameters by settings such as "C=0.1", and `seed` as its random_state."""
    known = learner.get_params(deep=False)
    given = {}
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, such as --set C=0.1, got {setting!r}")
        if key not in known:
            name = type(learner).__name__
            raise ValueError(f"{name} has no parameter {key!r}{_nearest(key, known)}; it has {', '.join(known)}")
        given[key] = _value(text)
    if seed is not None and "random_state" in known:
        given.setdefault("random_state", seed)
    learner.set_params(**given)
    return learner


def seconds_of(text: str, option: str) -> float | None:
    """Return the seconds of a time such as 90s, 10m or 1h, or None for "none".

    >>> seconds_of("1.5m", "--budget"), seconds_of("none", "--budget")
    (90.0, None)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|)", text.strip().lower())
    if text.strip().lower() == "none":
        return None
    if match is None or not float(match[1]):
        raise ValueError(f"{option} must be a time such as 90s, 10m or 1h, or none, got {text!r}")
    return float(match[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


def load_metric(path: Path) -> Metric:
    """Return the metric of a model file that holds a metric or a learner."""
    return load_model(path)[0]


def load_model(path: Path) -> tuple[Metric, Learner | None]:
    """Return the metric of a model file, and the learner if the file holds one."""
    from mahala.metric import Metric
    from mahala.saved_estimator import load_learner
    from mahala.support.model_files import ModelFileError, read_model

    header, _ = read_model(path)
    if "learner" not in header:
        return Metric.load(path), None
    learner = load_learner(path)
    try:
        return learner.metric_, learner
    except (ValueError, AttributeError) as error:
        raise ModelFileError(f"{path} holds a learner that is not fitted yet ({error})") from None


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


def spectrum(metric: Metric) -> Any:
    """Return the eigenvalues (bilinear: singular values), or None if computing them would take too long."""
    from mahala.metric import BilinearMetric
    from mahala.support.validation import is_sparse

    if is_sparse(metric.matrix) or (
        isinstance(metric, BilinearMetric) and max(metric.matrix.shape) > _LARGEST_DECOMPOSED
    ):
        return None
    return metric.spectrum


def check_row_number(row: int, n_rows: int, what: str) -> int:
    """Return a row number; raise ValueError if there is no such row."""
    if not 0 <= row < n_rows:
        raise ValueError(f"{what} must be a row number from 0 to {n_rows - 1}, got {row}")
    return row


def check_labels(table: Table, data: Path | str, purpose: str) -> Any:
    """Return the labels of a table; raise ValueError if there are none."""
    if table.labels is not None:
        return table.labels
    if table.feature_names is None:
        raise ValueError(f"{data} has no labels, {purpose}: use an .npz file with X and y")
    names = [name for name, _ in table.columns if table.preprocessor is not None]
    raise ValueError(f"--label must name the column of labels, {purpose}; the columns are {', '.join(names[:20])}")


def check_output(
    path: Path, *suffixes: str, option: str = "--output", inputs: Iterable[Path | None] = (), force: bool = False
) -> Path:
    """Return a path that can be written to and has one of the suffixes, if any; checked before a long computation.

    It must not be one of the inputs of the command nor, without `force`, a file with contents other than a model file
    or a report that mahala wrote.
    """
    for given in inputs:
        if given is not None and path.exists() and given.exists() and path.samefile(given):
            raise ValueError(f"{option} must not be an input of the command, which it would replace, got {path}")
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"{option} must end in {', '.join(suffixes)}, got {path}")
    if path.exists() and not path.is_file():
        raise ValueError(f"{option} must name a file, but {path} is {'a folder' if path.is_dir() else 'a device'}")
    if not path.parent.is_dir():
        raise ValueError(f"{option} is {path}, but there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{option} is {path}, but the folder {path.parent} is not writable")
    if not force and not _replaceable(path):
        raise ValueError(
            f"{option} is {path}, which exists and is not a model or report of mahala: "
            "name another file, or give --force to replace it"
        )
    return path


def _replaceable(path: Path) -> bool:
    from mahala.support.model_files import is_model_file

    if not path.exists() or path.stat().st_size == 0 or is_model_file(path):
        return True
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(1000)


def bar(value: float, largest: float, width: int) -> str:
    """Draw a bar in Rich's markup, `width` characters long for the largest value; negative values look different."""
    length = round(width * abs(value) / largest) if largest else 0
    return f"[cyan]{'█' * length}[/]" if value >= 0 else f"[red]{'▒' * length}[/]"


def _is_learner(kind: Any, base: type) -> bool:
    return inspect.isclass(kind) and issubclass(kind, base)


def _value(text: str) -> Any:
    """Return the value of a Python literal, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _nearest(name: str, known: Any) -> str:
    from difflib import get_close_matches

    lower = {other.lower(): other for other in known}
    near = [lower[match] for match in get_close_matches(name.lower(), lower, n=2)]
    return f" (did you mean {' or '.join(near)}?)" if near else ""
