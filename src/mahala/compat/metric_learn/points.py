"""metric-learn's learners from points: Covariance, LFDA, LMNN, MLKR, NCA, RCA."""

from typing import Any, Self

import numpy as np

import mahala.batch as native
from mahala.compat.metric_learn._initial import _check_n_components, _initialize_components, components_from_metric
from mahala.compat.metric_learn._util import renamed, warn_of_unused
from mahala.compat.metric_learn.base_metric import PointsLearner
from mahala.compat.metric_learn.constraints import Constraints
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray


class Covariance(PointsLearner):
    """The metric of the inverse covariance."""

    def __init__(self, preprocessor: Any = None) -> None:
        super().__init__(preprocessor)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from points; y is not used."""
        X = self._prepare_inputs(X, ensure_min_samples=2)
        self.learner_ = native.Covariance().fit(X)
        self.components_ = components_from_metric(self.learner_.get_mahalanobis_matrix())
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


class LFDA(PointsLearner):
    """Local Fisher discriminant analysis, see :class:`mahala.batch.LFDA`."""

    def __init__(
        self,
        n_components: int | None = None,
        k: int | None = None,
        embedding_type: Any = "weighted",
        preprocessor: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.n_components, self.k, self.embedding_type = n_components, k, embedding_type

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with class labels."""
        if self.embedding_type not in ("weighted", "orthonormalized", "plain"):
            raise ValueError(f"Invalid embedding_type: {self.embedding_type!r:.80}")
        X, y = self._prepare_inputs(X, y, needs_y=True, ensure_min_samples=2)
        m = _check_n_components(X.shape[1], self.n_components)
        k = min(7, X.shape[1] - 1) if self.k is None else int(self.k)
        self.learner_ = native.LFDA(m, n_neighbors=max(k, 1), embedding=self.embedding_type).fit(X, y)
        self.components_ = self.learner_.components_
        return self


class _DescentLearner(PointsLearner):
    """Base class of the learners of a linear map by descent from `init`."""

    init: Any
    n_components: int | None
    random_state: Any

    def _first(self, X: FloatArray, y: Any, has_classes: bool = True) -> tuple[int, FloatArray]:
        m = _check_n_components(X.shape[1], self.n_components)
        return m, _initialize_components(m, X, y, self.init, self.random_state, has_classes)

    def _seed(self) -> Any:
        # A first map of lower rank is completed at random, where metric-learn has no random choice.
        return 0 if self.random_state is None else self.random_state

    def _store(self, learner: Any, m: int) -> Self:
        self.learner_, self.n_iter_ = learner, max(learner.n_iter_, 1)
        L = learner.components_
        # A map of lower rank gets rows of zeros: it has as many as were asked for.
        self.components_ = np.vstack([L, np.zeros((m - len(L), L.shape[1]))])
        return self


class LMNN(_DescentLearner):
    """Large margin nearest neighbours, see :class:`mahala.LMNN`; `regularization` is its `mu`."""

    def __init__(
        self,
        init: Any = "auto",
        n_neighbors: int = 3,
        min_iter: int = 50,
        max_iter: int = 1000,
        learn_rate: float = 1e-7,
        regularization: float = 0.5,
        convergence_tol: float = 0.001,
        verbose: bool = False,
        preprocessor: Any = None,
        n_components: int | None = None,
        random_state: Any = None,
        k: Any = "deprecated",
    ) -> None:
        super().__init__(preprocessor)
        self.n_neighbors, self.k = renamed(k, n_neighbors, "k", "n_neighbors"), "deprecated"
        self.init, self.min_iter, self.max_iter, self.learn_rate = init, min_iter, max_iter, learn_rate
        self.regularization, self.convergence_tol, self.verbose = regularization, convergence_tol, verbose
        self.n_components, self.random_state = n_components, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with class labels."""
        warn_of_unused(self, "L-BFGS chooses its steps", learn_rate=1e-7, min_iter=50)
        X, y = self._prepare_inputs(X, y, needs_y=True, dtype=float, ensure_min_samples=2)
        m, first = self._first(X, y)
        smallest = np.unique(y, return_counts=True)[1].min()
        if self.n_neighbors > smallest:
            raise ValueError(f"not enough class labels for specified k (smallest class has {smallest})")
        learner = native.LMNN(
            self.n_neighbors, mu=self.regularization, n_components=m, init=_as_metric(first), max_iter=self.max_iter,
            tol=min(self.convergence_tol, 1e-6), verbose=self.verbose, random_state=self._seed(),
        )  # fmt: skip
        return self._store(learner.fit(X, y), m)


class NCA(_DescentLearner):
    """Neighbourhood components analysis, see :class:`mahala.NCA`."""

    def __init__(
        self,
        init: Any = "auto",
        n_components: int | None = None,
        max_iter: int = 100,
        tol: float | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.init, self.n_components, self.max_iter, self.tol = init, n_components, max_iter, tol
        self.verbose, self.random_state = verbose, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with class labels."""
        X, y = self._prepare_inputs(X, y, needs_y=True, ensure_min_samples=2)
        m, first = self._first(X, y)
        tol = 1e-5 if self.tol is None else self.tol
        learner = native.NCA(
            m, init=_as_metric(first), max_iter=self.max_iter, tol=tol, verbose=self.verbose, random_state=self._seed()
        )
        return self._store(learner.fit(X, y), m)


class MLKR(_DescentLearner):
    """Metric learning for kernel regression, see :class:`mahala.MLKR`."""

    def __init__(
        self,
        n_components: int | None = None,
        init: Any = "auto",
        tol: float | None = None,
        max_iter: int = 1000,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.n_components, self.init, self.tol, self.max_iter = n_components, init, tol, max_iter
        self.verbose, self.random_state = verbose, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with numbers to predict."""
        X, y = self._prepare_inputs(X, y, needs_y=True, y_numeric=True, ensure_min_samples=2)
        m, first = self._first(X, y, has_classes=False)
        tol = 1e-5 if self.tol is None else self.tol
        learner = native.MLKR(
            m, init=_as_metric(first), max_iter=self.max_iter, tol=tol, verbose=self.verbose, random_state=self._seed()
        )
        return self._store(learner.fit(X, y), m)


class RCA(PointsLearner):
    """Relevant component analysis of chunks, see :class:`mahala.RCA`."""

    def __init__(self, n_components: int | None = None, preprocessor: Any = None) -> None:
        super().__init__(preprocessor)
        self.n_components = n_components

    def fit(self, X: Any, chunks: Any) -> Self:
        """Learn from points and the number of the chunk of each; -1 for a point in none."""
        X, chunks = self._prepare_inputs(X, chunks, needs_y=True, ensure_min_samples=2)
        chunks = np.asanyarray(chunks, dtype=int)
        m = _check_n_components(X.shape[1], self.n_components)
        inside = chunks >= 0
        self.learner_ = native.RCA(m).fit(X[inside], chunks[inside])
        L = self.learner_.components_
        self.components_ = np.vstack([L, np.zeros((m - len(L), L.shape[1]))])
        return self


class RCA_Supervised(RCA):
    """Relevant component analysis of chunks that are drawn from the classes."""

    def __init__(
        self,
        n_components: int | None = None,
        n_chunks: int = 100,
        chunk_size: int = 2,
        preprocessor: Any = None,
        random_state: Any = None,
        num_chunks: Any = "deprecated",
    ) -> None:
        super().__init__(n_components, preprocessor)
        self.n_chunks, self.num_chunks = renamed(num_chunks, n_chunks, "num_chunks", "n_chunks"), "deprecated"
        self.chunk_size, self.random_state = chunk_size, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with class labels."""
        X, y = self._prepare_inputs(X, y, needs_y=True, ensure_min_samples=2)
        chunks = Constraints(y).chunks(self.n_chunks, self.chunk_size, self.random_state)
        return super().fit(X, chunks)


def _as_metric(L: FloatArray) -> MahalanobisMetric:
    return MahalanobisMetric(L.T @ L)
