"""Estimators that are written to model files and read back."""

import copy
import inspect
from abc import ABC
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from os import PathLike
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

import mahala
from mahala.data.preprocessing import TablePreprocessor
from mahala.metric import Metric
from mahala.support.arrays import Arrays
from mahala.support.lazily import BaseEstimator
from mahala.support.locking import one_at_a_time
from mahala.support.model_files import (
    ModelFileError,
    header_value,
    model_bytes,
    read_model,
    read_model_bytes,
    write_model,
)
from mahala.support.parameters import ReadableSignature
from mahala.support.states import Fields, prefixed, restore, to_parts, without_prefix


class SavedEstimator(ReadableSignature, BaseEstimator, ABC):
    """A scikit-learn estimator that is written to a model file and read back, with its whole state."""

    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    preprocessor_: TablePreprocessor  # of the table whose rows it learned from, if it was one
    _model: Any
    _fixed_values: dict[str, Any]  # of the parameters that cannot change while a stream runs

    FIELDS: ClassVar[Fields] = ()  # what is written to model files, beside the parameters

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        """Return the fitted state as a header and arrays for a model file."""
        return to_parts(self)

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `_get_state` returned."""
        restore(self, header, arrays)

    @classmethod
    @cache  # scikit-learn inspects the signature at each call
    def _get_param_names(cls) -> list[str]:
        return super()._get_param_names()  # type: ignore[misc, no-any-return]

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)

    @one_at_a_time
    def __getstate__(self) -> Any:
        # A copy, because it is pickled after others may have gone on learning.
        return copy.deepcopy(super().__getstate__())

    def _check_fitted(self) -> None:
        """Raise NotFittedError before the first fit; scikit-learn's check costs more than a prediction."""
        if "_model" not in vars(self):
            advice = "Call 'fit' with appropriate arguments before using this estimator."
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. {advice}")

    def _check_fixed(self) -> None:
        """Raise ValueError if a parameter has changed that cannot change while a stream runs."""
        for name, value in self._fixed_values.items():
            if getattr(self, name) is not value and getattr(self, name) != value:
                change = f"it was {value!r}, it is {getattr(self, name)!r}; set it back, or start again with fit"
                raise ValueError(f"{name} cannot change while a stream runs: {change}")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole state to a model file, so that `mahala.load(path)` resumes exactly here.

        The file is safetensors with a JSON header: no pickle. It is written whole or not at all, and it is read back
        before it replaces an earlier file.
        """
        self._write(path, {})

    @one_at_a_time
    def _write(self, path: str | PathLike[str], header: dict[str, object], previous: bool = False) -> None:
        """Write the state to a model file, with more header entries."""
        state, arrays = self._parts()
        try:
            write_model(path, "learner", arrays, state | header, verify=_read_back, previous=previous)
        except ModelFileError as error:
            problem = f"it could not be read back; an earlier file stays as it was ({error})"
            raise ModelFileError(f"{path} was not written, because {problem}") from error

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """Return the whole state as the bytes of a model file, which `learner_from_bytes` reads."""
        header, arrays = self._parts()
        return model_bytes("learner", arrays, header)

    @one_at_a_time
    def to_parts(self) -> tuple[dict[str, object], Arrays]:
        """Return a copy of the whole state as a header and arrays; a reader of a model file ignores other entries."""
        header, arrays = self._parts()
        return header, {name: array.copy() for name, array in arrays.items()}

    def _parts(self) -> tuple[dict[str, object], Arrays]:
        """Return the whole state as a header and the learner's own arrays."""
        self._check_fitted()
        header, arrays = self._get_state()
        params: dict[str, object] = {}
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Metric):
                parts, metric_arrays = value.to_parts()
                params[name] = {"metric": parts}
                arrays |= prefixed(name, metric_arrays)
            elif isinstance(value, SavedEstimator):
                params[name] = {"estimator": type(value).__name__, "params": value.get_params(deep=False)}
            elif isinstance(value, np.ndarray):
                params[name] = {"array": name}
                arrays[name] = value
            elif name == "callback":
                params[name] = None  # it watches a fit; it is not part of what was learned
            elif callable(value) or isinstance(value, (np.random.RandomState, np.random.Generator)):
                raise ValueError(f"{name}={value!r} cannot be written to a file; use a number or a known name")
            else:
                params[name] = value.item() if isinstance(value, np.generic) else value
        names = getattr(self, "feature_names_in_", None)
        header |= {
            "learner": type(self).__name__,
            "params": params,
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else [str(name) for name in names],
        }
        if "preprocessor_" in vars(self):
            header["preprocessor"] = self.preprocessor_.to_header()
        return header, arrays

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a learner that `save` wrote; it resumes where it stopped."""
        learner = _load(path, "learner")
        if not isinstance(learner, cls):
            raise ModelFileError(f"{path} holds a {type(learner).__name__}, not a {cls.__name__}")
        return learner


def load(path: str | PathLike[str]) -> Any:
    """Read the metric, learner or adapter that was saved at `path`.

    A learner resumes where it stopped. It is read whatever its `max_memory`, which `set_params` can raise before it
    learns more.
    """
    return _load(path)


def learner_from_bytes(data: bytes) -> Any:
    """Return the learner whose `to_bytes` returned `data`; it resumes where it stopped."""
    return restored("the model", *read_model_bytes(data, "learner"))


def _read_back(path: str | PathLike[str]) -> None:
    """Raise ModelFileError if a learner that was just written cannot be read."""
    header, arrays = read_model(path, "learner")
    for array in arrays.values():
        array.flags.writeable = False  # such arrays are not searched for negative eigenvalues again
    restored(path, header, arrays)


def _load(path: str | PathLike[str], content: str | None = None) -> Any:
    header, arrays = read_model(path, content)
    if content is None and "learner" not in header:
        return Metric.load(path)
    return restored(path, header, arrays)


def restored(path: str | PathLike[str], header: dict[str, Any], arrays: Arrays) -> Any:
    """Return the learner of a model file that was read; raise ModelFileError if there is none."""
    name = header.get("learner")
    kind = kind_named(name)
    if kind is None:
        raise ModelFileError(f"{path} holds a learner {name!r} that this version of mahala does not know")
    try:
        params: dict[str, Any] = {}
        for key, value in header_value(header, "params", dict).items():
            if isinstance(value, dict) and "metric" in value:
                value = Metric.from_parts(value["metric"], without_prefix(key, arrays))
            elif isinstance(value, dict) and "estimator" in value:
                inner: Any = kind_named(value["estimator"])
                value = inner(**header_value(value, "params", dict))
            elif isinstance(value, dict) and "array" in value:
                value = arrays[key]
            params[key] = value
        learner = kind(**params)
        learner.n_features_in_ = header_value(header, "n_features_in", int)
        names = header_value(header, "feature_names_in", list, type(None))
        if names is not None:
            if len(names) != learner.n_features_in_ or not all(isinstance(name, str) for name in names):
                raise ModelFileError(f"feature_names_in should be {learner.n_features_in_} strings")
            learner.feature_names_in_ = np.array(names, dtype=object)
        if "preprocessor" in header:
            learner.preprocessor_ = TablePreprocessor.from_header(header_value(header, "preprocessor", dict))
        learner._set_state(header, arrays)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, MemoryError) as error:
        raise ModelFileError(f"{path} does not hold a whole {name}: {error}") from error
    return learner


def kind_named(name: object) -> Any:
    """Return the class of an estimator by its public name, or None if there is none."""
    package = next((package for package in _packages() if name in package.__all__), None)
    kind = getattr(package, str(name), None)
    if package is None and str(name) in _of_others():
        kind = _of_others()[str(name)].load()
    return kind if inspect.isclass(kind) and issubclass(kind, SavedEstimator) else None


@cache
def _of_others() -> dict[str, EntryPoint]:
    """Return the estimators by name that other distributions add, as entry points of the group mahala.estimators."""
    return {entry.name: entry for entry in entry_points(group="mahala.estimators")}


def estimator_names() -> list[str]:
    """Return the public names among which those of all estimators are."""
    return list(dict.fromkeys(name for package in _packages() for name in package.__all__))


def _packages() -> tuple[ModuleType, ...]:
    return mahala, mahala.batch, mahala.online  # some learners are not at the top of the package
