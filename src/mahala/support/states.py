"""States in model files: a class declares its fields once, and one codec writes, reads and checks them.

A class lists what it keeps in `FIELDS`, each class its own: those of its bases come first.

>>> import numpy as np
>>> class Running:
...     FIELDS = (Integer("n"), Number("total", least=0.0), Array("means"))
...     n, total, means = 2, 0.5, np.zeros(3)
>>> header, arrays = to_parts(Running())
>>> header, list(arrays)
({'n': 2, 'total': 0.5}, ['means'])
>>> restore(Running(), header | {"total": -1.0}, arrays)
Traceback (most recent call last):
mahala.support.model_files.ModelFileError: header entry 'total' should be a finite number of at least 0, found -1.0
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from numpy.typing import DTypeLike

from mahala.support.arrays import Arrays
from mahala.support.model_files import ModelFileError, array_value, count_value, finite, header_value, number_value

Header = Mapping[str, object]
T = TypeVar("T")


@dataclass(frozen=True)
class Field(ABC):
    """An attribute, and its name in a file: the same without underscores at its ends.

    If it is `optional`, it may be missing or None, and then it is not written.
    """

    name: str
    optional: bool = False

    @property
    def key(self) -> str:
        return self.name.strip("_")

    def write(self, value: Any, header: dict[str, object], arrays: Arrays) -> None:
        """Put the value into the header or among the arrays."""
        header[self.key] = value

    @abstractmethod
    def read(self, state: object, header: Header, arrays: Arrays) -> Any:
        """Return the value for a state; raise ModelFileError if a file cannot hold it."""

    def is_in(self, header: Header, arrays: Arrays) -> bool:
        """Whether a file holds it, as it must unless it is optional."""
        return not self.optional or header.get(self.key) is not None or self.key in arrays


class Integer(Field):
    """An integer from 0 up."""

    def read(self, state: object, header: Header, arrays: Arrays) -> int:
        return count_value(header, self.key)


@dataclass(frozen=True)
class Entry(Field):
    """A value of a type that the header holds as it is."""

    type: type = bool

    def read(self, state: object, header: Header, arrays: Arrays) -> Any:
        return header_value(header, self.key, self.type)


class Texts(Field):
    """A list of different strings."""

    def read(self, state: object, header: Header, arrays: Arrays) -> list[str]:
        texts = header_value(header, self.key, list)
        if not all(isinstance(text, str) for text in texts) or len(set(texts)) < len(texts):
            raise ModelFileError(f"header entry {self.key!r} should be different strings, found {texts!r:.80}")
        return texts


@dataclass(frozen=True)
class Number(Field):
    """A finite number in a range."""

    least: float = -math.inf
    most: float = math.inf

    def read(self, state: object, header: Header, arrays: Arrays) -> float:
        value = number_value(header, self.key, self.least)
        if value > self.most:
            raise ModelFileError(f"header entry {self.key!r} should be at most {self.most:g}, found {value}")
        return value


@dataclass(frozen=True)
class Array(Field):
    """An array of finite numbers in a range; dtype and shape are those of what the state holds, unless given.

    Where the state has no such attribute, its `dtype` counts. A length of None is any length; a function returns the
    shape for a state.
    """

    dtype: DTypeLike | None = None
    shape: tuple[int | None, ...] | Callable[[Any], tuple[int | None, ...]] | None = None
    least: float = -math.inf
    most: float = math.inf

    def write(self, value: Any, header: dict[str, object], arrays: Arrays) -> None:
        arrays[self.key] = value

    def read(self, state: Any, header: Header, arrays: Arrays) -> Any:
        dtype, shape = self.dtype, self.shape(state) if callable(self.shape) else self.shape
        if dtype is None:
            dtype = getattr(state, self.name, state).dtype
        if shape is None:
            shape = getattr(state, self.name).shape
        array = finite(array_value(arrays, self.key, dtype, shape), self.key)
        if array.size and not self.least <= array.min() <= array.max() <= self.most:
            raise ModelFileError(f"array {self.key!r} should hold numbers from {self.least:g} to {self.most:g}")
        return array


class Part(Field):
    """An object with a state of its own, whose arrays have names that begin with that of the part.

    It may be a dictionary of such objects: then each has the name of the part, an underscore and its key.
    """

    def write(self, value: Any, header: dict[str, object], arrays: Arrays) -> None:
        for key, part in self._by_key(value):
            header[key], entries = part.get_state()
            arrays |= prefixed(key, entries)

    def read(self, state: object, header: Header, arrays: Arrays) -> Any:
        value = getattr(state, self.name)
        for key, part in self._by_key(value):
            part.set_state(header_value(header, key, dict), without_prefix(key, arrays))
        return value

    def _by_key(self, value: Any) -> list[tuple[str, Any]]:
        if isinstance(value, dict):
            return [(f"{self.key}_{name}", part) for name, part in value.items()]
        return [(self.key, value)]


@dataclass(frozen=True)
class Objects(Field):
    """A sequence of objects, each as `build` makes it of a subclass of `base`."""

    base: type = object

    def write(self, value: Any, header: dict[str, object], arrays: Arrays) -> None:
        header[self.key] = headers = []
        for number, item in enumerate(value):
            entries, more = to_parts(item)
            headers.append(entries)
            arrays |= prefixed(f"{self.key}.{number}", more)

    def read(self, state: Any, header: Header, arrays: Arrays) -> Any:
        headers = {f"{self.key}.{n}": entries for n, entries in enumerate(header_value(header, self.key, list))}
        parts = [(header_value(headers, key, dict), without_prefix(key, arrays)) for key in headers]
        return tuple(build(self.base, *part) for part in parts)


class Group(Field):
    """A tuple, of which each entry is written under a name of its own."""

    def __init__(self, name: str, *fields: Field) -> None:
        super().__init__(name)
        object.__setattr__(self, "fields", fields)

    fields: tuple[Field, ...]

    def write(self, value: Any, header: dict[str, object], arrays: Arrays) -> None:
        for field, part in zip(self.fields, value, strict=True):
            field.write(part, header, arrays)

    def read(self, state: object, header: Header, arrays: Arrays) -> Any:
        return tuple(field.read(state, header, arrays) for field in self.fields)


Fields = tuple[Field, ...]


def to_parts(state: object) -> tuple[dict[str, object], Arrays]:
    """Return the fields of a state, and the `kind` of an object, as a header and arrays for a model file."""
    header: dict[str, object] = {"kind": state.kind} if hasattr(state, "kind") else {}
    arrays: Arrays = {}
    for field in _fields(type(state)):
        value = getattr(state, field.name, None) if field.optional else getattr(state, field.name)
        if not (field.optional and value is None):
            field.write(value, header, arrays)
    return header, arrays


def build(base: type[T], header: Header, arrays: Arrays) -> T:
    """Return the object of a subclass, by its `kind`, from what `to_parts` returned; its fields are its arguments."""
    kinds: dict[str, type[T]] = {kind.kind: kind for kind in base.__subclasses__()}  # type: ignore[attr-defined]
    name = header_value(header, "kind", str)
    if name not in kinds:
        wanted = " or ".join(map(repr, sorted(kinds)))
        raise ModelFileError(f"header entry 'kind' should be {wanted}, found {name[:40]!r}")
    fields = [field for field in _fields(kinds[name]) if field.is_in(header, arrays)]
    return kinds[name](**{field.name: field.read(base, header, arrays) for field in fields})


def restore(state: object, header: Header, arrays: Arrays) -> None:
    """Set the fields to what `to_parts` returned, arrays included; raise ModelFileError for what it cannot be."""
    for field in _fields(type(state)):
        if field.is_in(header, arrays):
            setattr(state, field.name, field.read(state, header, arrays))
        elif hasattr(state, field.name):
            setattr(state, field.name, None)


class Stateful:
    """What is written to model files as its `FIELDS` say.

    Whatever a file holds, compiled code sees valid arrays only.
    """

    FIELDS: ClassVar[Fields] = ()

    def get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return a header and arrays for a model file."""
        return to_parts(self)

    def set_state(self, header: dict[str, object], arrays: Arrays) -> None:
        """Restore what `get_state` returned."""
        restore(self, header, arrays)
        self._check()

    def _check(self) -> None:
        """Raise ModelFileError for fields that do not fit together."""

    def make_writable(self, *names: str) -> None:
        """Copy arrays, or None, that are read-only because the state was loaded as a memory map."""
        for name in names:
            array = getattr(self, name)
            if array is not None and not array.flags.writeable:
                setattr(self, name, array.copy())


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """Return arrays under names that begin with a prefix and a dot."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return those of the arrays that `prefixed` named, under their former names."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _fields(kind: type) -> list[Field]:
    return [field for base in reversed(kind.__mro__) for field in vars(base).get("FIELDS", ())]
