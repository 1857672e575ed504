"""Parameters of estimators and settings of the process: their types say which values are right."""

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from mahala.support.lazily import sklearn_checks

# Characters of a signature; types are left out of longer ones.
_LONGEST_SIGNATURE = 250


class ParameterError(ValueError):
    """A ValueError whose message names parameters; a command shows the options that set them instead.

    Attributes
    ----------
    parameters : names of the parameters, as they stand in the message
    """

    def __init__(self, message: str, *parameters: str) -> None:
        super().__init__(message)
        self.parameters = parameters


class Where(NamedTuple):
    """A condition on a parameter, to annotate its type with: which values are right, and that in words."""

    is_right: Callable[[Any], bool]
    words: str
    word: str | None = None  # the only right value, of a Literal

    def __repr__(self) -> str:
        return self.words


class ReadableType:
    """The type of a parameter: it prints as `int | None`, and `hint` is the annotation with its conditions."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint

    def __repr__(self) -> str:
        return " | ".join(_type_names(self.hint))


class _ShortSignature:
    """The signature of a class, with types where a default of None does not say them, as far as there is room."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        empty = inspect.Parameter.empty
        _, *parameters = inspect.signature(owner.__init__).parameters.values()  # type: ignore[misc]
        is_said = [p.default is not None and p.default is not empty for p in parameters]
        parameters = [p.replace(annotation=empty) if said else p for p, said in zip(parameters, is_said, strict=True)]
        for at in reversed(range(len(parameters))):
            if len(str(inspect.Signature(parameters))) <= _LONGEST_SIGNATURE:
                break
            parameters[at] = parameters[at].replace(annotation=empty)
        return inspect.Signature(parameters)


class ReadableSignature:
    """Base class of dataclasses whose parameters have conditions: `help` and `inspect.signature` show plain types."""

    __signature__ = _ShortSignature()

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        # The decorator `dataclass`, which runs later, copies the annotations to `__init__`.
        cls.__annotations__ = {name: _readable(hint) for name, hint in inspect.get_annotations(cls).items()}


def _readable(hint: Any) -> Any:
    if hint is dataclasses.KW_ONLY or ClassVar in (hint, get_origin(hint)) or isinstance(hint, str):
        return hint  # which dataclass looks at
    return ReadableType(hint)


def _type_names(hint: Any) -> list[str]:
    """The names of the types of which one is right; None comes last."""
    if hint == Seed:
        return ["int", "None"]  # what nearly all use
    if get_origin(hint) is Annotated:
        return _type_names(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        names = dict.fromkeys(name for part in get_args(hint) for name in _type_names(part))
        return sorted(names, key=lambda name: name == "None")
    if get_origin(hint) is Literal:
        return ["str"]
    return ["None" if hint is type(None) else str((get_origin(hint) or hint).__name__)]


def is_number(value: object) -> bool:
    """Whether a value is a real number; a boolean is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """Whether a value is an integer of at least 1."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def between(low: float, high: float = np.inf) -> Callable[[Any], bool]:
    """The condition that a value is a finite number of at least `low` and at most `high`."""
    return lambda value: is_number(value) and low <= value <= high and value < np.inf


def _is_seed(value: object) -> bool:
    # Not by scikit-learn's check_random_state, which fills a generator of 2,500 bytes to say yes.
    if value is None or value is np.random or isinstance(value, np.random.Generator | np.random.RandomState):
        return True
    return isinstance(value, Integral) and 0 <= int(value) < 2**32


Positive = Annotated[float, Where(lambda value: is_number(value) and 0.0 < value < np.inf, "a positive number")]
NonNegative = Annotated[float, Where(between(0.0), "a number of at least 0")]
Share = Annotated[float, Where(between(0.0, 1.0), "a number from 0 to 1")]
Fraction = Annotated[
    float, Where(lambda value: is_number(value) and 0.0 < value < 1.0, "a number between 0 and 1, both excluded")
]
WholeNumber = Annotated[
    int, Where(lambda value: isinstance(value, Integral) and value >= 0, "an integer of at least 0")
]
Count = Annotated[int, Where(is_count, "an integer of at least 1")]
Seed = Annotated[
    int | np.random.RandomState | np.random.Generator | None,
    Where(_is_seed, "None, a non-negative int, RandomState or Generator"),
]


def check_params(estimator: object) -> None:
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
        _check(getattr(estimator, name), name, conditions)


def check_value(value: object, name: str, hint: Any) -> None:
    """Raise a ValueError unless a value has a type such as `Count`; see `check_params`."""
    _check(value, name, _of_type(hint))


def check_seed(random_state: Seed) -> np.random.RandomState:
    """Return the generator for a seed; raise a ValueError if it is not one."""
    check_value(random_state, "random_state", Seed)
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    checked: np.random.RandomState = sklearn_checks.check_random_state(random_state)
    return checked


def choices(kind: type) -> dict[str, list[str]]:
    """Return the words that each parameter of an estimator may be, without parameters that may be none.

    >>> @dataclasses.dataclass
    ... class Learner:
    ...     C: Literal["auto"] | Positive = 1.0
    >>> choices(Learner)
    {'C': ['auto']}
    """
    words = {name: [each.word for each in conditions if each.word] for name, conditions in _conditions(kind).items()}
    return {name: each for name, each in words.items() if each}


def _check(value: object, name: str, conditions: list[Where]) -> None:
    plain = value.item() if isinstance(value, np.generic) else value  # a float32 cannot be compared with 1e100
    if conditions and not any(condition.is_right(plain) for condition in conditions):
        words = [condition.words for condition in conditions]
        listed = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
        raise ValueError(f"{name} must be {listed}, got {value!r}")


@functools.cache
def _conditions(kind: Any) -> dict[str, list[Where]]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _of_type(hints[field.name]) for field in dataclasses.fields(kind)}


def _of_type(hint: Any) -> list[Where]:
    """The conditions of which one must hold; none for Any."""
    if isinstance(hint, ReadableType):
        return _of_type(hint.hint)
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
    kind = get_origin(hint) or hint
    name = "function" if kind is Callable else kind.__name__
    article = "an" if name[0] in "AEIO" else "a"
    return [Where(lambda value: isinstance(value, kind), f"{article} {name}")]


def _one_of(word: str) -> Where:
    return Where(lambda value: isinstance(value, str) and value == word, repr(word), word)


# The engine for rows in chunks is this, followed by the name of the workers' engine, or nothing for their own setting.
WORKERS = "workers:"

_settings: dict[str, Any] = {"engine": None, "n_threads": None, "tf32": False}


def _is_engine(value: object) -> bool:
    if isinstance(value, str):
        return bool(re.fullmatch(rf"({WORKERS})?(cpu|cuda(:\d+)?|torch-cpu)|{WORKERS}", value))
    return hasattr(value, "scheduler_info")


_Engine = Annotated[
    Any, Where(_is_engine, "'cpu', 'cuda', 'cuda:1' and so on, 'torch-cpu', or a Client of dask.distributed")
]
_TYPES: dict[str, Any] = {"engine": _Engine | None, "n_threads": Count | None, "tf32": bool}
_in_block: ContextVar[dict[str, Any]] = ContextVar("mahala_settings")


def get_config() -> dict[str, Any]:
    """Return the settings that hold here.

    >>> get_config()
    {'engine': None, 'n_threads': None, 'tf32': False}
    """
    return _settings | _in_block.get({})


def set_config(**settings: object) -> None:
    """Change settings for the whole process.

    Parameters
    ----------
    engine : "cpu", a device of PyTorch such as "cuda", a Client of dask.distributed, or None, default=None
        Where learners that fit all the data compute their sums, and where nearest neighbours are searched. None is
        "cpu", the cores of this machine. Dask arrays are computed by Dask, whatever the engine; its workers then use
        the device named here, or else that of `set_config` on the worker.
    tf32 : bool, default=False
        Whether matrix products of float32 on a GPU round their factors to 11 bits, which is faster.
    n_threads : int or None, default=None
        Number of threads of a computation. None for OMP_NUM_THREADS, or without it the number of cores that the
        process may use.
    """
    _settings.update(_checked(settings))


@contextmanager
def config_context(**settings: object) -> Iterator[None]:
    """Change settings, those of `set_config`, within a block.

    >>> with config_context(n_threads=1):
    ...     get_config()["n_threads"]
    1
    """
    token = _in_block.set(_in_block.get({}) | _checked(settings))
    try:
        yield
    finally:
        _in_block.reset(token)


def _checked(settings: dict[str, object]) -> dict[str, object]:
    for name, value in settings.items():
        if name not in _settings:
            raise TypeError(f"there is no setting {name!r}; the settings are {', '.join(_settings)}")
        check_value(value, name, _TYPES[name])
    return settings
