"""Checks of what comes from outside: vectors, and the settings of a collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from mahala.support.arrays import FloatArray

# Names of collections and of learners.
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# The cookie that tells visits of the page apart, so that each one has its cap, and what it may hold.
VISIT = "mahala_visit"
VISIT_ID = re.compile(r"[0-9a-f]{32}")
# The largest number of a vector: inner products stay finite in single precision.
LARGEST = 1e15


def check_vector(value: Any, width: int, name: str) -> FloatArray:
    """Return a vector in the precision in which it is stored; raise ValueError unless it has `width` finite numbers."""
    vector = np.asarray(value, dtype=np.float64)
    if vector.shape != (width,):
        raise ValueError(f"{name} must have {width} numbers, got {len(vector) if vector.ndim == 1 else vector.shape}")
    if not (np.abs(vector) <= LARGEST).all():
        raise ValueError(f"{name} must have finite numbers up to {LARGEST:g}")
    return vector.astype(np.float32).astype(np.float64)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ValueError unless the learners can be made."""
    if settings.keys() - {"learners", "served", "title"}:
        raise ValueError(f"settings must be learners, served and title, got {sorted(settings)}")
    learners = settings.get("learners")
    if learners is None:
        return
    from mahala.serve.learning.learning import new_learner
    from mahala.support.parameters import check_params

    if not isinstance(learners, dict) or not learners or not all(NAME.fullmatch(name) for name in learners):
        raise ValueError("learners must be an object of at least one name with its parameters")
    for name, params in learners.items():
        try:
            check_params(new_learner(params))
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"learners: {name} cannot be made: {error}") from None
    if settings.get("served") not in (None, *learners):
        raise ValueError(f"served must be one of {', '.join(learners)}, got {settings['served']!r:.40}")
