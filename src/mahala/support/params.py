"""Check an estimator's parameters against the types that its class declares for them."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.utils import check_random_state


class Where(NamedTuple):
    """A condition on a parameter, to annotate its type with: which values are right, and that in words."""

    is_right: Callable[[Any], bool]
    words: str


def is_number(value: Any) -> bool:
    """Whether a value is a real number; a boolean is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Whether a value is an integer of at least 1."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def between(low: float, high: float = np.inf) -> Callable[[Any], bool]:
    """The condition that a value is a finite number of at least `low` and at most `high`."""
    return lambda value: is_number(value) and low <= value <= high and value < np.inf


def _is_seed(value: Any) -> bool:
    if isinstance(value, np.random.Generator):
        return True
    try:
        check_random_state(value)
    except ValueError:
        return False
    return True


Positive = Annotated[float, Where(lambda value: is_number(value) and 0.0 < value < np.inf, "a positive number")]
NonNegative = Annotated[float, Where(between(0.0), "a number of at least 0")]
Share = Annotated[float, Where(between(0.0, 1.0), "a number from 0 to 1")]
Fraction = Annotated[
    float, Where(lambda value: is_number(value) and 0.0 < value < 1.0, "a number between 0 and 1, both excluded")
]
Count = Annotated[int, Where(is_count, "an integer of at least 1")]
Seed = Annotated[
    int | np.random.RandomState | np.random.Generator | None,
    Where(_is_seed, "None, a non-negative int, RandomState or Generator"),
]


def check_params(estimator: Any) -> None:
    """Raise a ValueError for the first parameter whose value does not have the type that its class declares.

    The parameters are the fields of a dataclass. A type is bool, None, a Literal of strings, a class, a type that is
    annotated with a `Where`, or a union of these; Any is not checked.

    >>> @dataclasses.dataclass
    ... class Learner:
    ...     C: Literal["auto"] | Positive = 1.0
    >>> check_params(Learner(C=-1))
    Traceback (most recent call last):
    ValueError: C must be 'auto' or a positive number, got -1
    """
    kind: Any = type(estimator)
    for name, conditions in _conditions(kind).items():
        value = getattr(estimator, name)
        if conditions and not any(condition.is_right(value) for condition in conditions):
            words = [condition.words for condition in conditions]
            listed = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
            raise ValueError(f"{name} must be {listed}, got {value!r}")


@functools.cache
def _conditions(kind: Any) -> dict[str, list[Where]]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _of_type(hints[field.name]) for field in dataclasses.fields(kind)}


def _of_type(hint: Any) -> list[Where]:
    """The conditions of which one must hold; none for Any."""
    if hint is Any:
        return []
    if get_origin(hint) is Annotated:
        return [part for part in get_args(hint)[1:] if isinstance(part, Where)]
    if get_origin(hint) in (Union, types.UnionType):
        return [condition for part in get_args(hint) for condition in _of_type(part)]
    if get_origin(hint) is Literal:
        return [_one_of(word) for word in get_args(hint)]
    if hint is type(None):
        return [Where(lambda value: value is None, "None")]
    if hint is bool:
        return [Where(lambda value: isinstance(value, bool | np.bool_), "True or False")]
    return [_instance_of(get_origin(hint) or hint)]


def _one_of(word: Any) -> Where:
    return Where(lambda value: isinstance(value, str) and value == word, repr(word))


def _instance_of(kind: Any) -> Where:
    name = "a function" if kind is Callable else f"a {kind.__name__}"
    return Where(lambda value: isinstance(value, kind), name)
