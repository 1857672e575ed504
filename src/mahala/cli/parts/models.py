"""Learners by name, and models in files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import mahala
from mahala.support.validation import is_sparse

if TYPE_CHECKING:
    from mahala.learner import Learner
    from mahala.saved_estimator import SavedEstimator
    from mahala.support.arrays import FloatArray
    from mahala.support.lazily import BaseEstimator


Estimator = TypeVar("Estimator", bound="BaseEstimator")

# Computing the singular values of a larger bilinear matrix takes minutes.
_LARGEST_DECOMPOSED = 3000


def learner_named(name: str, settings: Sequence[str], seed: int | None = None, option: str = "--learner") -> Learner:
    """Return a learner by its name in any case, with settings such as "C=0.1" and `seed` as its random_state."""
    from mahala.learner import Learner
    from mahala.saved_estimator import estimator_names, kind_named

    def kind_of(exact: str) -> type[Learner] | None:
        kind = kind_named(exact)
        return kind if kind is not None and issubclass(kind, Learner) else None

    # The names that a leaderboard has.
    if name.lower() == "pa-i":
        return configured(mahala.PA("I", C="auto"), settings, seed)
    if name.lower() == "gml weights":
        return configured(mahala.GML(diagonal=True), settings, seed)
    exact = {other.lower(): other for other in estimator_names()}.get(name.lower())
    if exact is None or (kind := kind_of(exact)) is None:
        names = [other for other in estimator_names() if kind_of(other) is not None]
        raise ValueError(f"{option} is {name!r}, not a learner{_nearest(name, names)}; choose from {', '.join(names)}")
    return configured(kind(), settings, seed)


def configured(learner: Estimator, settings: Sequence[str], seed: int | None = None) -> Estimator:
    """Return a learner after changing its parameters by settings such as "C=0.1", and `seed` as its random_state."""
    parameters = learner.get_params(deep=False)
    values = {}
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, such as --set C=0.1, got {setting!r}")
        if key not in parameters:
            which = f"{type(learner).__name__} has no parameter {key!r}{_nearest(key, parameters)}"
            raise ValueError(f"{which}; it has {', '.join(parameters)}")
        words = {"true": "True", "false": "False", "none": "None"}
        try:
            values[key] = ast.literal_eval(words.get(text.lower(), text))
        except (ValueError, SyntaxError):
            values[key] = text
    if seed is not None and "random_state" in parameters:
        values.setdefault("random_state", seed)
    learner.set_params(**values)
    return learner


def load_metric(path: Path) -> mahala.Metric:
    """Return the metric of a model file that holds a metric or a learner."""
    return load_model(path)[0]


def load_model(path: Path) -> tuple[mahala.Metric, SavedEstimator | None]:
    """Return the metric of a model file, and the learner if the file holds one, or None."""
    model = mahala.load(path)
    if isinstance(model, mahala.Metric):
        return model, None
    try:
        return model.metric_, model
    except (ValueError, AttributeError) as error:
        raise mahala.ModelFileError(f"{path} holds a learner that is not fitted yet ({error})") from None


def spectrum(metric: mahala.Metric) -> FloatArray | None:
    """Return the eigenvalues (bilinear: singular values), or None if computing them would take too long."""
    is_large = isinstance(metric, mahala.BilinearMetric) and max(metric.matrix.shape) > _LARGEST_DECOMPOSED
    return None if is_large or is_sparse(metric.matrix) else metric.spectrum


def trust_text(trust: Mapping[str, float]) -> str:
    """Return how much of a learned map is used for which queries."""
    return ", ".join(f"{share:.2f} for {kind} queries" for kind, share in trust.items())


def _nearest(name: str, names: Iterable[str]) -> str:
    lower = {other.lower(): other for other in names}
    near = [lower[match] for match in get_close_matches(name.lower(), lower, n=2)]
    return f" (did you mean {' or '.join(near)}?)" if near else ""
