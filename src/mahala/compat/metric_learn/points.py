"""metric-learn's learners from points: Covariance, LFDA, LMNN, MLKR, NCA, RCA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

import mahala.batch as native
from mahala.compat.metric_learn._initial import _check_n_components, _initialize_components, components_from_metric
from mahala.compat.metric_learn._util import warn_of_unused
from mahala.compat.metric_learn.base_metric import PointsLearner, with_params
from mahala.compat.metric_learn.constraints import Constraints
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import Array, FloatArray


@with_params(preprocessor=None)
class Covariance(PointsLearner):
    """The metric of the inverse covariance."""

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from points; y is not used."""
        learner = native.Covariance().fit(self._prepare_inputs(X, ensure_min_samples=2))
        return self._store(learner, components_from_metric(learner.get_mahalanobis_matrix()))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@with_params(n_components=None, k=None, embedding_type="weighted", preprocessor=None)
class LFDA(PointsLearner):
    """Local Fisher discriminant analysis, see :class:`mahala.batch.LFDA`."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points with class labels."""
        if self.embedding_type not in ("weighted", "orthonormalized", "plain"):
            raise ValueError(f"Invalid embedding_type: {self.embedding_type!r:.80}")
        points, labels = self._points(X, y)
        m = _check_n_components(points.shape[1], self.n_components)
        k = min(7, points.shape[1] - 1) if self.k is None else int(self.k)
        learner = native.LFDA(m, n_neighbors=max(k, 1), embedding=self.embedding_type).fit(points, labels)
        return self._store(learner, learner.components_)


class _DescentLearner(PointsLearner):
    """Base class of the learners of a linear map by descent from `init`."""

    def _descend(
        self, kind: Callable[..., Any], X: FloatArray, y: Array, has_classes: bool = True, **params: object
    ) -> Self:
        """Fit a learner of this kind."""
        m = _check_n_components(X.shape[1], self.n_components)
        first = _initialize_components(m, X, y, self.init, self.random_state, has_classes)
        # A first map of lower rank is completed at random, where metric-learn has no random choice.
        seed = 0 if self.random_state is None else self.random_state
        params |= {"n_components": m, "max_iter": self.max_iter, "verbose": self.verbose, "random_state": seed}
        learner = kind(init=MahalanobisMetric(first.T @ first), **params).fit(X, y)
        return self._store(learner, learner.components_, m)


@with_params(init="auto", n_neighbors=3, min_iter=50, max_iter=1000, learn_rate=1e-7, regularization=0.5,
             convergence_tol=0.001, verbose=False, preprocessor=None, n_components=None, random_state=None,
             k="deprecated")  # fmt: skip
class LMNN(_DescentLearner):
    """Large margin nearest neighbours, see :class:`mahala.LMNN`; `regularization` is its `mu`."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points with class labels."""
        warn_of_unused(self, "L-BFGS chooses its steps", "learn_rate", "min_iter")
        points, labels = self._points(X, y, dtype=float)
        smallest = np.unique(labels, return_counts=True)[1].min()
        if self.n_neighbors > smallest:
            raise ValueError(f"not enough class labels for specified k (smallest class has {smallest})")
        params = {"n_neighbors": self.n_neighbors, "mu": self.regularization, "tol": min(self.convergence_tol, 1e-6)}
        return self._descend(native.LMNN, points, labels, **params)


@with_params(init="auto", n_components=None, max_iter=100, tol=None, verbose=False, preprocessor=None,
             random_state=None)  # fmt: skip
class NCA(_DescentLearner):
    """Neighbourhood components analysis, see :class:`mahala.NCA`."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points with class labels."""
        return self._descend(native.NCA, *self._points(X, y), tol=1e-5 if self.tol is None else self.tol)


@with_params(n_components=None, init="auto", tol=None, max_iter=1000, verbose=False, preprocessor=None,
             random_state=None)  # fmt: skip
class MLKR(_DescentLearner):
    """Metric learning for kernel regression, see :class:`mahala.MLKR`."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points with numbers to predict."""
        points, numbers = self._points(X, y, y_numeric=True)
        tol = 1e-5 if self.tol is None else self.tol
        return self._descend(native.MLKR, points, numbers, has_classes=False, tol=tol)


class _RCA(PointsLearner):
    """Base class of the two forms of RCA."""

    def _fit(self, X: FloatArray, chunks: Array) -> Self:
        chunks = np.asanyarray(chunks, dtype=int)
        m = _check_n_components(X.shape[1], self.n_components)
        inside = chunks >= 0
        learner = native.RCA(m).fit(X[inside], chunks[inside])
        return self._store(learner, learner.components_, m)


@with_params(n_components=None, preprocessor=None)
class RCA(_RCA):
    """Relevant component analysis of chunks, see :class:`mahala.RCA`."""

    def fit(self, X: ArrayLike, chunks: ArrayLike) -> Self:
        """Learn from points and the number of the chunk of each; -1 for a point in none."""
        return self._fit(*self._points(X, chunks))


@with_params(n_components=None, n_chunks=100, chunk_size=2, preprocessor=None, random_state=None,
             num_chunks="deprecated")  # fmt: skip
class RCA_Supervised(_RCA):
    """Relevant component analysis of chunks that are drawn from the classes."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points with class labels."""
        points, labels = self._points(X, y)
        return self._fit(points, Constraints(labels).chunks(self.n_chunks, self.chunk_size, self.random_state))
