"""Shared by commands: arguments, learners by name, models and the tables that go with them."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from mahala.comparisons import Judgments
    from mahala.data.tables import Table
    from mahala.learner import Learner, SavedEstimator
    from mahala.metric import Metric

Estimator = TypeVar("Estimator", bound="SavedEstimator")

LabelledData = Annotated[
    str, typer.Argument(metavar="DATA", help="A .csv, .tsv, .parquet, .npz or .svm file, or a data set such as wine.")
]
FittedData = Annotated[str, typer.Argument(metavar="DATA", help="A table with the features the model was fitted with.")]
Label = Annotated[str | None, typer.Option(help="Column of the labels; in .npz files the array (default: y).")]
Drop = Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")]
FirstIndex = Annotated[int, typer.Option(help="Index of the first feature in svmlight files, 1 or 0.", min=0, max=1)]
Jobs = Annotated[int, typer.Option(help="Number of processes.", min=1)]
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

# By this line the reports of mahala are known.
GENERATOR = '<meta name="generator" content="mahala">'
# Computing the singular values of a larger bilinear matrix takes minutes.
_LARGEST_DECOMPOSED = 3000


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


def load_metric(path: Path) -> Metric:
    """Return the metric of a model file that holds a metric or a learner."""
    return load_model(path)[0]


def load_model(path: Path) -> tuple[Metric, Learner | None]:
    """Return the metric of a model file, and the learner if the file holds one."""
    from mahala.learner import load_learner
    from mahala.metric import Metric
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
    data: str, metric: Metric, label: str | None = None, *, items: bool = False, first_index: int = 1
) -> Table:
    """Read the rows that a metric compares: queries, or items of a bilinear similarity."""
    from mahala.data.datasets import read_data

    n_features = metric.n_item_features if items else metric.n_features_in
    # The model names the features of queries; items with other features have no names.
    names = metric.feature_names if n_features == metric.n_features_in else None
    return read_data(data, label=label, features=names, n_features=n_features, first_index=first_index)


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
    raise ValueError(f"--label must name the column of labels, {purpose}")


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
