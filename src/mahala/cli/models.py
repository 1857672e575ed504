"""What commands share: learners by name, models and tables that fit together, files that appear whole."""

from __future__ import annotations

import ast
import inspect
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mahala.data.tables import Table
    from mahala.learner import Learner
    from mahala.metric import Metric

Model = Annotated[
    Path, typer.Option("--model", help="A model file: what `mahala fit` wrote, or the state of a learner.")
]

# The singular values of a larger bilinear matrix take minutes.
_LARGEST_DECOMPOSED = 3000


def learner_named(name: str, settings: Sequence[str], seed: int | None = None, option: str = "--learner") -> Learner:
    """A learner by its name in any case, with settings such as "C=0.1"; `seed` is its random_state where it has one."""
    import mahala
    from mahala.learner import Learner

    exact = {known.lower(): known for known in mahala.__all__}.get(name.lower(), "")
    kind: Any = getattr(mahala, exact, None)
    if not _is_learner(kind, Learner):
        names = [known for known in mahala.__all__ if _is_learner(getattr(mahala, known), Learner)]
        raise ValueError(f"{option} is {name!r}, which is no learner{_nearest(name, names)}; there are {_list(names)}")
    learner: Learner = kind()
    known = learner.get_params(deep=False)
    given = {}
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, such as --set C=0.1, got {setting!r}")
        if key not in known:
            raise ValueError(f"{exact} has no parameter {key!r}{_nearest(key, known)}; it has {_list(known)}")
        given[key] = _value(text)
    if seed is not None and "random_state" in known:
        given.setdefault("random_state", seed)
    learner.set_params(**given)
    return learner


def load_metric(path: Path) -> Metric:
    """The metric of a model file that holds one, or the whole state of a learner."""
    return load_model(path)[0]


def load_model(path: Path) -> tuple[Metric, Learner | None]:
    """The metric of a model file, and the learner where the file holds the whole state of one."""
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
        raise ModelFileError(f"{path} holds a learner that has learned nothing yet ({error})") from None


def read_rows(path: Path, metric: Metric, label: str | None = None, *, items: bool = False) -> Table:
    """The rows of a table that a metric can compare: as queries, or as items of a bilinear one."""
    from mahala.data.tables import read_table

    n_features = metric.n_item_features if items else metric.n_features_in
    # The names are those of the queries; items of other features have none.
    names = metric.feature_names if n_features == metric.n_features_in else None
    return read_table(path, label=label, features=names, n_features=n_features)


def spectrum(metric: Metric) -> Any:
    """The eigenvalues (bilinear: singular values), or None where they are not to be had in reasonable time."""
    from mahala.metric import BilinearMetric
    from mahala.support.validation import is_sparse

    if is_sparse(metric.matrix) or (
        isinstance(metric, BilinearMetric) and max(metric.matrix.shape) > _LARGEST_DECOMPOSED
    ):
        return None
    return metric.spectrum


def check_row_number(row: int, n_rows: int, what: str) -> int:
    """A row number from 0 up."""
    if not 0 <= row < n_rows:
        raise ValueError(f"{what} must be a row number from 0 to {n_rows - 1}, got {row}")
    return row


def check_labels(table: Table, data: Path | str, purpose: str) -> Any:
    """The labels of a table, which must have such."""
    if table.labels is not None:
        return table.labels
    if table.feature_names is None:
        raise ValueError(f"{data} holds no labels, {purpose}: use an .npz file of X and y")
    raise ValueError(f"--label must name the column of labels, {purpose}")


def check_output(path: Path, *suffixes: str) -> Path:
    """A path that can be written to, with one of the suffixes where some are named; checked before long work."""
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"--output must end in {_list(suffixes)}, got {path}")
    if path.is_dir():
        raise ValueError(f"--output must name a file, but {path} is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"--output is {path}, but there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"--output is {path}, but the folder {path.parent} may not be written to")
    return path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place once all is written."""
    target = Path(os.path.realpath(path))  # a symbolic link stays one
    temporary = target.with_name(f"{target.stem}.{secrets.token_hex(8)}.tmp{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def bar(value: float, largest: float, width: int) -> str:
    """A bar in Rich's markup, `width` characters long for the largest; of another colour and shade below zero."""
    length = round(width * abs(value) / largest) if largest else 0
    return f"[cyan]{'█' * length}[/]" if value >= 0 else f"[red]{'▒' * length}[/]"


def _is_learner(kind: Any, base: type) -> bool:
    return inspect.isclass(kind) and issubclass(kind, base)


def _value(text: str) -> Any:
    """A Python literal, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _nearest(name: str, known: Any) -> str:
    from difflib import get_close_matches

    lower = {other.lower(): other for other in known}
    near = [lower[match] for match in get_close_matches(name.lower(), lower, n=2)]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _list(names: Any) -> str:
    return ", ".join(names)
