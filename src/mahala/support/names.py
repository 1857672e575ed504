"""Rows by name: the items that answers name, and the columns of answers."""

import difflib
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal, Self

import numpy as np

from mahala.support.arrays import IndexArray

AnswerKind = Literal["triplets", "pairs", "ratings"]
# The names that each column of answers may have; other answers have these columns first, in this order.
_COLUMNS: dict[AnswerKind, tuple[tuple[str, ...], ...]] = {
    "triplets": (
        ("anchor", "query", "a", "head"),
        ("positive", "nearer", "near", "b", "winner"),
        ("negative", "farther", "far", "c", "loser"),
    ),
    "pairs": (("left", "a", "first"), ("right", "b", "second"), ("similar", "same", "label", "y")),
    "ratings": (("left", "a", "first"), ("right", "b", "second"), ("rating", "score", "similarity", "label", "y")),
}


class RowNames:
    """The names of rows. Several rows may have one name, as long as it is not looked up."""

    def __init__(self, names: Iterable[Hashable], frame: Any = None) -> None:
        self.names = list(names)
        self._rows = {name: row for row, name in enumerate(self.names)}
        several = len(self._rows) < len(self.names)
        self._repeated = {name for name, n in Counter(self.names).items() if n > 1} if several else set()
        self._frame = frame

    def __contains__(self, name: Hashable) -> bool:
        return name in self._rows

    @classmethod
    def of(cls, X: Any, names: Iterable[Hashable] | None = None) -> Self:
        """Return the names of the rows of X: those given, or the index of a data frame of pandas."""
        index = index_of(X)
        if names is None and index is None:
            raise ValueError(
                "names must be given, or X be a data frame of pandas whose index has the names of its rows"
            )
        found = cls(index or (), X) if names is None else cls(names)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if len(found.names) != n_rows:
            raise ValueError(f"names must hold a name for each of the {n_rows} rows of X, got {len(found.names)}")
        return found

    def row(self, name: Hashable) -> int:
        """Return the number of the row with a name; raise ValueError if there is none, or more than one."""
        if name not in self._rows:
            raise ValueError(f"{name!r} is not the name of an item{self.nearest(name) or self._column(name)}")
        if name in self._repeated:
            rows = [row for row, other in enumerate(self.names) if other == name]
            raise ValueError(f"{name!r} is the name of {len(rows)} items, such as rows {rows[0]} and {rows[1]}")
        return self._rows[name]

    def rows(self, names: Iterable[Hashable]) -> IndexArray:
        """Return the row numbers of the items that answers name, one name for each answer."""
        numbers = []
        for at, name in enumerate(names, start=1):
            try:
                numbers.append(self.row(name))
            except ValueError as error:
                raise ValueError(f"answer {at}: {error}") from None
        return np.array(numbers, dtype=np.intp)

    def check_distinct(self) -> None:
        """Raise ValueError if several rows have one name."""
        for name in self.names if self._repeated else ():
            self.row(name)

    def nearest(self, name: Hashable) -> str:
        """Name the most similar name that there is, if one is similar."""
        texts = {str(other).lower(): other for other in self.names}
        near = difflib.get_close_matches(str(name).lower(), texts, n=1)
        return f" (did you mean {texts[near[0]]!r}?)" if near else ""

    def _column(self, name: Hashable) -> str:
        """Say which column of a data frame has the names, if its index has not."""
        columns = [] if self._frame is None else [str(column) for column in self._frame.columns]
        having = next((column for column in columns if name in self._frame[column].tolist()), None)
        return "" if having is None else f"; the column {having!r} has it: use X.set_index({having!r})"


def index_of(X: Any) -> list[Hashable] | None:
    """Return the names of the rows of a data frame of pandas, or None of other tables."""
    to_list = getattr(getattr(X, "index", None), "tolist", None)
    return None if to_list is None else list(to_list())


def answer_columns(answers: Any, kind: AnswerKind) -> list[list[Any]]:
    """Return the columns of answers, given as a data frame or as one tuple for each."""
    if hasattr(answers, "columns"):
        columns = {str(name): list(answers[name]) for name in answers.columns}
        if kind == "pairs" and len(columns) == 2:
            return list(columns.values())
        return named_columns("answers", kind, columns)
    rows = [(answer,) if isinstance(answer, str) else tuple(answer) for answer in answers]
    sizes = {3} if kind == "triplets" else {2, 3}
    if len({*map(len, rows)}) > 1 or not {*map(len, rows)} <= sizes:
        roles = ", ".join(names[0] for names in _COLUMNS[kind])
        raise ValueError(f"answers must be tuples ({roles}) or a data frame with these columns")
    return [list(column) for column in zip(*rows, strict=True)] or [[]] * max(sizes)


def named_columns(source: str, kind: AnswerKind, columns: Mapping[str, list[object]]) -> list[list[object]]:
    """Return the three columns of answers by their names, or else the first three."""
    by_name = {name.strip().lower(): values for name, values in columns.items()}
    named = [next((by_name[name] for name in names if name in by_name), None) for names in _COLUMNS[kind]]
    if all(values is not None for values in named):
        return [values for values in named if values is not None]
    first = list(columns.values())[:3]
    # Columns such as query, a, b, nearer must not be read as if their order was the answer.
    misplaced = any(values is not None and values is not at for values, at in zip(named, first, strict=False))
    if len(first) < 3 or misplaced:
        names = ", ".join(names[0] for names in _COLUMNS[kind])
        raise ValueError(f"{source} must have the columns {names}; it has {listed(columns)}")
    return first


def listed(names: Iterable[str]) -> str:
    """List the first twenty names in messages."""
    names = list(names)
    rest = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + rest
