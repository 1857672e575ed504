"""Modules and classes of SciPy, scikit-learn and Dask that are imported on first use.

A process that only applies a metric starts without them. The base classes of scikit-learn have types of our own here:
scikit-learn has none, and whatever derives from an untyped class accepts any argument and has any attribute to a type
checker.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Literal, Self

    import dask as dask
    import numpy as np
    import scipy.linalg as linalg
    import scipy.sparse as sp
    import scipy.sparse.csgraph as csgraph
    import scipy.spatial.distance as spatial_distance
    import sklearn.metrics as metrics
    import sklearn.metrics.pairwise as pairwise
    import sklearn.preprocessing as preprocessing
    import sklearn.utils.validation as sklearn_checks
    from numpy.typing import NDArray

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassNamePrefixFeaturesOutMixin:
        def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]: ...

    class TransformerMixin:
        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any: ...
        def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...

else:

    class _Module:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # asked for of any object, such as __wrapped__, where Dask is not installed, too
                raise AttributeError(name)
            value = getattr(importlib.import_module(self._name), name)
            setattr(self, name, value)
            return value

    csgraph = _Module("scipy.sparse.csgraph")
    dask = _Module("dask")
    linalg = _Module("scipy.linalg")
    metrics = _Module("sklearn.metrics")
    sp = _Module("scipy.sparse")
    spatial_distance = _Module("scipy.spatial.distance")
    pairwise = _Module("sklearn.metrics.pairwise")
    preprocessing = _Module("sklearn.preprocessing")
    sklearn_checks = _Module("sklearn.utils.validation")

    def __getattr__(name: str) -> Any:
        if name not in __all__:  # such as __path__, for which every import asks
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module("sklearn.base"), name)


__all__ = ["BaseEstimator", "ClassNamePrefixFeaturesOutMixin", "ClassifierMixin", "TransformerMixin"]
__all__ += [
    "csgraph",
    "dask",
    "linalg",
    "metrics",
    "pairwise",
    "preprocessing",
    "sklearn_checks",
    "sp",
    "spatial_distance",
]
