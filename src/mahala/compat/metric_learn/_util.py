"""Checks of points, tuples and parameters, with metric-learn's rules and messages."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_X_y

from mahala.compat.metric_learn.exceptions import PreprocessorError
from mahala.support.arrays import Array, IndexArray

T = TypeVar("T")
Random = int | np.random.RandomState | None
Preprocessor = Callable[[Any], ArrayLike] | None
Kind = Literal["classic", "tuples"]

# What is expected of points and of tuples, without and with a preprocessor.
_EXPECTED = {
    ("classic", False): "2D array of formed points",
    ("classic", True): "1D array of indicators or 2D array of formed points",
    ("tuples", False): "3D array of formed tuples",
    ("tuples", True): "2D array of indicators or 3D array of formed tuples",
}


class ArrayIndexer:
    """A preprocessor that returns rows of an array by their numbers."""

    def __init__(self, X: ArrayLike) -> None:
        self.X = _loosely_checked(X)

    def __call__(self, indices: IndexArray) -> Any:
        return self.X[indices]


def make_name(estimator: object) -> str | None:
    """Return the name of an estimator, or a name that was given instead."""
    return estimator if estimator is None or isinstance(estimator, str) else type(estimator).__name__


def make_context(estimator: object) -> str:
    """Return " by NAME" for messages, or nothing without an estimator."""
    return "" if estimator is None else f" by {make_name(estimator)}"


def check_input(
    input_data: ArrayLike,
    y: ArrayLike | None = None,
    preprocessor: Preprocessor = None,
    type_of_inputs: Kind = "classic",
    tuple_size: int | None = None,
    estimator: object = None,
    ensure_min_samples: int = 1,
    ensure_min_features: int = 1,
    **checks: Any,
) -> Any:
    """Return points (2-D) or tuples of points (3-D) as an array, and y if it is given.

    Indicators, with one axis less, are replaced by the points that the preprocessor returns for them.
    """
    y_numeric = checks.pop("y_numeric", False)
    if y is None:
        X, labels = _loosely_checked(input_data), None
    else:
        X, labels = check_X_y(
            input_data, y, accept_sparse=True, dtype=None, ensure_all_finite=False, ensure_2d=False, allow_nd=True,
            ensure_min_samples=0, ensure_min_features=0, y_numeric=y_numeric, estimator=estimator,
        )  # fmt: skip
    context = make_context(estimator)
    n_axes = 2 if type_of_inputs == "classic" else 3
    formed = _formed(X, n_axes, preprocessor, context)
    checks = {"dtype": "numeric", "ensure_min_samples": ensure_min_samples, "estimator": estimator} | checks
    if n_axes == 2:
        checks["ensure_min_features"] = ensure_min_features
    X = check_array(formed, allow_nd=True, ensure_2d=False, **checks)
    if X.ndim != n_axes:
        raise ValueError(_shape_message(X, n_axes, context, after=True))
    if n_axes == 3:
        _check_tuples(X, tuple_size, ensure_min_features, context)
        if labels is not None and X.shape[1] == 2 and not (np.abs(labels) == 1).all():
            problem = "the labels (y) should contain only values in [-1, 1]. Found an incorrect value."
            raise ValueError(f"When training on pairs, {problem}")
    return X if y is None else (X, labels)


def validate_vector(u: ArrayLike) -> Array:
    """Return a point as a 1-D array."""
    u = np.atleast_1d(np.asarray(u, order="C").squeeze())
    if u.ndim > 1:
        raise ValueError("Input vector should be 1-D.")
    return u


def _loosely_checked(X: ArrayLike) -> Any:
    return check_array(
        X, accept_sparse=True, dtype=None, ensure_all_finite=False, ensure_2d=False, allow_nd=True,
        ensure_min_samples=0, ensure_min_features=0,
    )  # fmt: skip


def _formed(X: Array, n_axes: int, preprocessor: Preprocessor, context: str) -> ArrayLike:
    if X.ndim == n_axes:
        return X
    if X.ndim != n_axes - 1 or preprocessor is None:
        raise ValueError(_shape_message(X, n_axes, context, preprocessor=preprocessor is not None))
    try:  # one position in the tuples after the other
        return preprocessor(X) if n_axes == 2 else np.stack([preprocessor(numbers) for numbers in X.T], axis=1)
    except Exception as error:
        raise PreprocessorError(error) from error


def _shape_message(X: Array, n_axes: int, context: str, preprocessor: bool = False, after: bool = False) -> str:
    expected = _EXPECTED["classic" if n_axes == 2 else "tuples", preprocessor]
    when = " when using a preprocessor" if preprocessor else ""
    advice = " and/or use a preprocessor" if after or (X.ndim == n_axes - 1 and not preprocessor) else ""
    if after:
        when = " after the preprocessor has been applied"
    return (
        f"{expected} expected{context}{when}. Found {X.ndim}D array instead:\ninput={X}. Reshape your data{advice}.\n"
    )


def _check_tuples(X: Array, tuple_size: int | None, min_features: int, context: str) -> None:
    if X.shape[2] < min_features:
        raise ValueError(
            f"Found array with {X.shape[2]} feature(s) (shape={X.shape}) while a minimum of {min_features} is "
            f"required{context}."
        )
    if tuple_size is not None and X.shape[1] != tuple_size:
        raise ValueError(
            f"Tuples of {tuple_size} element(s) expected{context}. Got tuples of {X.shape[1]} element(s) instead "
            f"(shape={X.shape}):\ninput={X}.\n"
        )


def renamed(old: str | T, new: T, old_name: str, new_name: str) -> Any:
    """Return the value of a parameter that may be given by its old name, with a warning."""
    if isinstance(old, str) and old == "deprecated":
        return new
    warnings.warn(
        f'"{old_name}" parameter has been renamed to "{new_name}". It has been deprecated in version 0.6.3 and will be '
        "removed in 0.7.0",
        FutureWarning,
        stacklevel=3,
    )
    return old


def warn_of_unused(estimator: object, advice: str, *unused: str) -> None:
    """Warn once of all parameters that have been set and have no meaning here."""
    names = [name for name in unused if getattr(estimator, name) != getattr(type(estimator), name)]
    if names:
        has = "has" if len(names) == 1 else "have"
        warnings.warn(f"{' and '.join(names)} of {make_name(estimator)} {has} no effect: {advice}", stacklevel=3)
